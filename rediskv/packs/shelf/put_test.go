package shelf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"tollgate/rediskv/packs/shelf"
)

var later = time.Now().Add(time.Hour)

// What is there with the same content is fine, and stays with any other.
func TestPutTwice(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		for _, size := range []int{0, 1, 256 << 10, 700_000} {
			name, text := fmt.Sprintf("a/%d", size), strings.Repeat("x", size)
			put(t, s, name, text)
			put(t, s, name, text) // the same is fine
			for _, other := range []string{text + "y", text[:max(size-1, 0)] + "yy", strings.Replace(text, "x", "y", 1) + "y"[min(size, 1):], text[:size/2] + "y" + text[min(size, size/2+1):]} {
				err := s.Put(t.Context(), name, int64(len(other)), strings.NewReader(other))
				if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), name) {
					t.Errorf("%d bytes, then %d others: %v", size, len(other), err)
				}
			}
			if o, err := s.Read(t.Context(), name); err != nil || o.Size() != int64(size) {
				t.Errorf("%s: %v", name, err)
			} else if p := make([]byte, size); o.ReadAt(t.Context(), p, 0) != nil || string(p) != text {
				t.Errorf("%s has another content", name)
			} else {
				o.Close()
			}
		}
		if all := s.left(t); len(all) != 4 {
			t.Errorf("there is %q", all)
		}
	})
}

// What fails leaves nothing, and can be put again.
func TestPutFails(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		full := errors.New("no space left")
		text := strings.Repeat("x", 100_000)
		for name, r := range map[string]io.Reader{
			"error":   io.MultiReader(strings.NewReader(text[1:]), iotest.ErrReader(full)),
			"at once": iotest.ErrReader(full),
			"fewer":   strings.NewReader(text[1:]),
			"more":    strings.NewReader(text + "y"),
			"none":    strings.NewReader(""),
			"late":    io.MultiReader(strings.NewReader(text), iotest.ErrReader(full)),
		} {
			err := s.Put(t.Context(), "a/b", int64(len(text)), r)
			if err == nil || !strings.Contains(err.Error(), "a/b") || slices.Contains([]string{"error", "at once", "late"}, name) != errors.Is(err, full) {
				t.Errorf("%s: %v", name, err)
			}
			if all := s.left(t); len(all) > 0 {
				t.Errorf("%s: there is %q", name, all)
			}
		}
		if err := s.Put(t.Context(), "a/b", -1, strings.NewReader("")); err == nil {
			t.Error("a file has less than no bytes")
		}
		ctx, end := context.WithCancel(t.Context())
		reads := 0
		r := readerFunc(func(p []byte) (int, error) {
			if reads++; reads == 3 {
				end()
			}
			return copy(p, text[:1000]), nil
		})
		if err := s.Put(ctx, "a/b", int64(len(text)), r); !errors.Is(err, context.Canceled) || len(s.left(t)) > 0 {
			t.Errorf("a context that ends: %v, %q", err, s.left(t))
		}
		put(t, s, "a/b", text)
	})
}

// A file that is put again is the same one, and none can lie in another.
func TestPutInDirectory(t *testing.T) {
	t.Parallel()
	s, dir := empty(t)
	put(t, s, "a/b", "text")
	was, err := os.Stat(filepath.Join(dir, "a/b"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a/b", "text")
	if err := s.Put(t.Context(), "a/b", 4, strings.NewReader("xxxx")); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if is, err := os.Stat(filepath.Join(dir, "a/b")); err != nil || !os.SameFile(was, is) {
		t.Errorf("it is another file: %v", err)
	}
	if err := s.Put(t.Context(), "a/b/c", 1, strings.NewReader("x")); err == nil {
		t.Error("a file lies in a file")
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Of several that put one name at once, with the same content, all succeed. With others
// one does, and its content stays.
func TestPutAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		for round := range 30 {
			name := fmt.Sprintf("d%d/e/f", round)
			differ := round%2 == 1
			errs := make([]error, 8)
			texts := make([]string, len(errs))
			var all sync.WaitGroup
			for i := range errs {
				texts[i] = strings.Repeat("x", 50_000)
				if differ {
					texts[i] = strings.Repeat(string(rune('a'+i)), 50_000)
				}
				all.Go(func() { errs[i] = s.Put(t.Context(), name, 50_000, iotest.HalfReader(strings.NewReader(texts[i]))) })
			}
			all.Wait()
			text, err := s.Text(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			for i, err := range errs {
				if (err == nil) != (string(text) == texts[i]) || err != nil && !errors.Is(err, fs.ErrExist) {
					t.Errorf("round %d: %v, and there is %.3s of %.3s", round, err, text, texts[i])
				}
			}
		}
		if left := s.left(t); len(left) != 30 {
			t.Errorf("there is %q", left)
		}
	})
}

// Whoever reads or lists while a file is put sees all of it or nothing.
func TestNobodySeesAPart(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		text := bytes.Repeat([]byte("0123456789"), 20_000)
		done := make(chan struct{})
		var readers sync.WaitGroup
		seen := make([]int, 2)
		for i := range seen {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					seen[i] += look(t, s, text)
				}
			})
		}
		for n := range 50 {
			name := fmt.Sprintf("a/%02d", n)
			slow := readerFunc(func() func(p []byte) (int, error) {
				r := bytes.NewReader(text)
				return func(p []byte) (int, error) {
					time.Sleep(100 * time.Microsecond)
					return r.Read(p[:min(len(p), 20_000)])
				}
			}())
			if err := s.Put(t.Context(), name, int64(len(text)), slow); err != nil {
				t.Error(err)
			}
		}
		close(done)
		readers.Wait()
		if seen[0]+seen[1] == 0 {
			t.Error("nothing was seen meanwhile")
		}
	})
}

// look reads the files that there are, and the one that comes next.
func look(t *testing.T, s shelf.Shelf, want []byte) int {
	all, err := s.List(t.Context(), "")
	if err != nil {
		t.Error(err)
	}
	for _, item := range all {
		if item.Size != int64(len(want)) {
			t.Errorf("%s has %d bytes in the list", item.Name, item.Size)
		}
	}
	text, err := s.Text(t.Context(), fmt.Sprintf("a/%02d", len(all)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(text, want) {
		t.Errorf("there are %d bytes of the next: %v", len(text), err)
	}
	return len(all)
}
