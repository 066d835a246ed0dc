package shelf_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"tollgate/rediskv/packs/shelf"
)

func TestList(t *testing.T) {
	onEach(t, func(t *testing.T, s *kind) {
		names := []string{"a", "a-b/c", "a.b", "a/b", "a/b-c", "a/c/d", "ab", "b-a", "b/0", "b/1/2/3"}
		for i, name := range slices.Backward(names) {
			if name != "a" && name != "a/b" {
				put(t, s, strings.Replace(name, "a/", "aa/", 1), strings.Repeat("x", i))
			}
		}
		put(t, s, "z", "")
		// None of these is ours.
		for _, name := range []string{"UPPER", "put~123", "lost+found/a", "b/.~lock", "b/x y"} {
			s.lay(t, name)
		}
		if s.dir != "" {
			if err := os.Symlink(filepath.Join(s.dir, "ab"), filepath.Join(s.dir, "link")); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(s.dir, "lost+found"), 0); err != nil {
				t.Fatal(err)
			}
		}
		for prefix, want := range map[string]string{
			"":      "a-b/c a.b aa/b-c aa/c/d ab b-a b/0 b/1/2/3 z",
			"a":     "a-b/c a.b aa/b-c aa/c/d ab",
			"a-":    "a-b/c",
			"aa":    "aa/b-c aa/c/d",
			"aa/":   "aa/b-c aa/c/d",
			"aa/c":  "aa/c/d",
			"aa/c/": "aa/c/d",
			"ab":    "ab",
			"ab/":   "",
			"b/":    "b/0 b/1/2/3",
			"b/1":   "b/1/2/3",
			"c":     "",
			"c/d/e": "",
			"aa//":  "",
			"./a":   "",
		} {
			all, err := s.List(t.Context(), prefix)
			if err != nil {
				t.Errorf("%q: %v", prefix, err)
			}
			var is []string
			for _, item := range all {
				is = append(is, item.Name)
				if i := slices.Index(names, strings.Replace(item.Name, "aa/", "a/", 1)); item.Size != int64(max(i, 0)) {
					t.Errorf("%s has %d bytes", item.Name, item.Size)
				}
			}
			if got := strings.Join(is, " "); got != want {
				t.Errorf("%q: there is %q, want %q", prefix, got, want)
			}
		}
		for _, prefix := range []string{"..", "../", "a/../../", "/", "/etc", "A", "a*", "a\x00"} {
			if all, err := s.List(t.Context(), prefix); err == nil || !strings.Contains(err.Error(), "no name begins") {
				t.Errorf("%q: there is %v, %v", prefix, all, err)
			}
		}
	})
}

// A shelf can be a link to a directory elsewhere.
func TestLinkedShelf(t *testing.T) {
	t.Parallel()
	s, dir := empty(t)
	put(t, s, "a/b", "text")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	linked, err := shelf.Open("file://" + link)
	if err != nil {
		t.Fatal(err)
	}
	put(t, linked, "a/c", "text")
	if all, err := linked.List(t.Context(), "a/"); err != nil || len(all) != 2 {
		t.Errorf("there is %v, %v", all, err)
	}
}

// Sweep takes what a crash has left, and nothing that is being written.
func TestSweep(t *testing.T) {
	t.Parallel()
	s, dir := empty(t)
	if n, err := s.Sweep(t.Context(), later); n != 0 || err != nil {
		t.Errorf("where nothing is: %d, %v", n, err)
	}
	put(t, s, "a/b", "text")
	old := time.Now().Add(-24 * time.Hour)
	// A put that never ends is as one whose process died.
	hangs, goes := make(chan string), make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- s.Put(t.Context(), "a/c", 4, readerFunc(func(p []byte) (int, error) {
			hangs <- ""
			<-goes
			return 0, iotest.ErrTimeout
		}))
	}()
	<-hangs
	left := files(t, dir)
	if len(left) != 2 {
		t.Fatalf("there is %q", left)
	}
	if all, err := s.List(t.Context(), ""); err != nil || len(all) != 1 {
		t.Errorf("the list is %v, %v", all, err)
	}
	if n, err := s.Sweep(t.Context(), old); n != 0 || err != nil {
		t.Errorf("what is written now: %d, %v", n, err)
	}
	for _, name := range left {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Sweep(t.Context(), old); n != 0 || err != nil {
		t.Errorf("what is as old as that: %d, %v", n, err)
	}
	for _, want := range []int{1, 0} {
		if n, err := s.Sweep(t.Context(), old.Add(time.Second)); n != want || err != nil {
			t.Errorf("%d left over: %d, %v", want, n, err)
		}
	}
	if all := files(t, dir); !slices.Equal(all, []string{"a/b"}) {
		t.Errorf("there is %q", all)
	}
	close(goes)
	if err := <-ended; err == nil {
		t.Error("what was swept away is there")
	}
	put(t, s, "a/c", "text")
}
