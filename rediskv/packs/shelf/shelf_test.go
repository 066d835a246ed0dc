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
	"testing"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
)

var _ packs.Source = shelf.Object(nil)

func put(t *testing.T, s shelf.Shelf, name, text string) {
	t.Helper()
	if err := s.Put(t.Context(), name, int64(len(text)), strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// files are all that lie in a directory, whatever their names.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(place string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, strings.TrimPrefix(place, dir+"/"))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, says string }{
		{"", "scheme"},
		{"/var/archive", "scheme"},
		{"archive", "scheme"},
		{"s3://key:secret@bucket/archive", "scheme"},
		{"https://example.com/archive", "scheme"},
		{"file:archive", "not absolute"},
		{"file:", "not absolute"},
		{"file://", "not absolute"},
		{"file://archive", "no host"},
		{"file://localhost/var/archive", "no host"},
		{"file://user@/var/archive", "no host"},
		{"file:///var/archive?a=b", "no query"},
		{"file:///var/archive?", "no query"},
		{"file:///var/archive#a", "no query"},
		{"file:///var/a%00b", "zero byte"},
		{"file:///var/%zz", "escape"},
		{"s3://key:sec ret@bucket", "invalid"},
	} {
		s, err := shelf.Open(c.url)
		if err == nil || s != nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sec") {
			t.Errorf("Open(%q) says %v, not %s", c.url, err, c.says)
		}
	}
	dir := t.TempDir()
	for _, at := range []string{"file://" + dir + "/a b", "file://" + dir + "/a%20b/", "file://" + dir + "/c/../a%20b", "file:" + dir + "/a%20b"} {
		s, err := shelf.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "x", "text")
	}
	if all := files(t, dir); !slices.Equal(all, []string{"a b/x"}) {
		t.Errorf("there is %q", all)
	}
}

var badNames = []string{
	"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/./b", "a/..", "../a", "a/../b", "a..b", "a...", "A", "a b", "a\\b", "a~", "put~1", "é",
	"a\x00", "a\n", "a:b", "a*", strings.Repeat("a", 256), strings.Repeat("aaaaaaa/", 128) + "b",
}

func TestNames(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		for _, name := range badNames {
			_, err := s.Read(t.Context(), name)
			_, other := s.Text(t.Context(), name)
			for what, err := range map[string]error{"Put": s.Put(t.Context(), name, 1, strings.NewReader("x")), "Remove": s.Remove(t.Context(), name), "Read": err, "Text": other} {
				if err == nil || errors.Is(err, fs.ErrNotExist) || len(err.Error()) > 1000 {
					t.Errorf("%s(%q) says %v", what, name, err)
				}
			}
		}
		if left := s.left(t); len(left) > 0 {
			t.Errorf("there is %q", left)
		}
		for _, name := range []string{"a", "0", "-", "_", "a.b", ".a", "b/c/d", "manifest/p07/000001-ab.json", strings.Repeat("b", 255), strings.Repeat("aaaaaaa/", 127) + "longest_"} {
			put(t, s, name, name)
			if text, err := s.Text(t.Context(), name); err != nil || string(text) != name {
				t.Errorf("%s has %q: %v", name, text, err)
			}
		}
	})
}

func TestPutAndRead(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		text := strings.Repeat("0123456789", 100_000)
		put(t, s, "packs/p07/x.pack", text)
		o, err := s.Read(t.Context(), "packs/p07/x.pack")
		if err != nil {
			t.Fatal(err)
		}
		if o.Size() != int64(len(text)) {
			t.Errorf("it has %d bytes", o.Size())
		}
		for _, at := range [][2]int{{0, 10}, {5, 500_000}, {999_990, 10}, {1_000_000, 0}, {0, 1_000_000}} {
			p := make([]byte, at[1])
			if err := o.ReadAt(t.Context(), p, int64(at[0])); err != nil || string(p) != text[at[0]:][:at[1]] {
				t.Errorf("%d bytes at %d: %v", at[1], at[0], err)
			}
		}
		for _, at := range [][2]int{{999_990, 11}, {1_000_000, 1}, {2_000_000, 1}} {
			if err := o.ReadAt(t.Context(), make([]byte, at[1]), int64(at[0])); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes at %d: %v", at[1], at[0], err)
			}
		}
		if err := o.ReadAt(t.Context(), make([]byte, 1), -1); err == nil {
			t.Error("a byte before the first can be read")
		}
		if err := s.Remove(t.Context(), "packs/p07/x.pack"); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 10)
		if err := o.ReadAt(t.Context(), p, 10); err == nil && string(p) != text[10:20] || err != nil && s.dir != "" { // who reads it reads on, or fails
			t.Errorf("what was removed reads as %q, %v", p, err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := s.Remove(t.Context(), "packs/p07/x.pack"); err != nil {
				t.Error(err)
			}
		}
		if all := s.left(t); len(all) > 0 {
			t.Errorf("there is %q", all)
		}
	})
}

func TestMissing(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		for range 2 {
			for _, name := range []string{"a", "b/c", "d"} {
				if o, err := s.Read(t.Context(), name); o != nil || !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Read(%s) says %v", name, err)
				}
				if _, err := s.Text(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Text(%s) says %v", name, err)
				}
				if err := s.Remove(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
			if all, err := s.List(t.Context(), ""); len(all) > 0 || err != nil {
				t.Errorf("List says %v, %v", all, err)
			}
			put(t, s, "d/e", "text") // there is a directory d now
			if err := s.Remove(t.Context(), "d/e"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Remove(t.Context(), "d"); err != nil {
			t.Error(err)
		}
		if s.dir == "" {
			return
		}
		if _, err := os.Stat(filepath.Join(s.dir, "d")); err != nil { // somebody may be putting a file there
			t.Error(err)
		}
	})
}

// Files and directories are for nobody else.
func TestModes(t *testing.T) {
	t.Parallel()
	s, dir := empty(t)
	put(t, s, "a/b/c", "text")
	for place, want := range map[string]fs.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, dir + "/a": 0o700, dir + "/a/b": 0o700, dir + "/a/b/c": 0o600} {
		info, err := os.Stat(place)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", place, info.Mode(), err)
		}
	}
}

func TestText(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		for _, size := range []int{0, 1, 1 << 20} {
			name, text := fmt.Sprintf("t%d", size), strings.Repeat("x", size)
			put(t, s, name, text)
			if read, err := s.Text(t.Context(), name); err != nil || string(read) != text {
				t.Errorf("%d bytes: %d, %v", size, len(read), err)
			}
		}
		put(t, s, "large", strings.Repeat("x", 1<<20+1))
		if read, err := s.Text(t.Context(), "large"); err == nil || read != nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a large one: %d, %v", len(read), err)
		}
	})
}

func TestContexts(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		put(t, s, "a", "text")
		o, err := s.Read(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		ended, end := context.WithCancel(t.Context())
		end()
		_, read := s.Read(ended, "a")
		_, text := s.Text(ended, "a")
		_, list := s.List(ended, "")
		_, sweep := s.Sweep(ended, later)
		for what, err := range map[string]error{
			"Put": s.Put(ended, "b", 1, strings.NewReader("x")), "Read": read, "Text": text, "List": list, "Sweep": sweep,
			"Remove": s.Remove(ended, "a"), "ReadAt": o.ReadAt(ended, make([]byte, 1), 0),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s says %v", what, err)
			}
		}
		if all := s.left(t); !slices.Equal(all, []string{"a"}) {
			t.Errorf("there is %q", all)
		}
	})
}

// A pack goes onto the shelf and is read from there.
func TestPack(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		var file bytes.Buffer
		w := packs.NewWriter(&file, "payments", 7)
		for n := range 1_000 {
			id := fmt.Sprintf("pay_%04d", n)
			if err := w.Add(id, fmt.Appendf(nil, `{"id":"%s","text":"%s"}`, id, strings.Repeat("x", 500))); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := w.Close()
		if err != nil {
			t.Fatal(err)
		}
		name := "packs/p07/" + packs.FileName(sum.SHA256)
		if err := s.Put(t.Context(), name, sum.Size, &file); err != nil {
			t.Fatal(err)
		}
		o, err := s.Read(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		p, err := packs.Verify(t.Context(), o, o.Size(), sum.SHA256)
		if err != nil || p.Index().Rows != 1_000 {
			t.Errorf("%v", err)
		}
	})
}
