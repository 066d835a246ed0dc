package shelf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tollgate/rediskv/packs/shelf"
)

// synced notes what is brought to disk, and which files have their name by then.
type synced struct {
	dir   string
	calls []string
	fail  int // the call that fails; -1: none
}

var errDisk = errors.New("the disk is broken")

func (y *synced) watch(t *testing.T, s *shelf.Directory) {
	s.OnSync(func(f *os.File) error {
		name, err := filepath.Rel(filepath.Dir(y.dir), f.Name())
		if err != nil {
			t.Error(err)
		}
		if before, _, ok := strings.Cut(name, "~"); ok {
			name = before
		}
		_, err = os.Stat(filepath.Join(y.dir, "a/b/c"))
		y.calls = append(y.calls, fmt.Sprintf("%s %v", name, err == nil))
		if len(y.calls)-1 == y.fail {
			return errDisk
		}
		return f.Sync()
	})
}

func (y *synced) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if !slices.Equal(y.calls, want) {
		t.Errorf("%s: on disk come %q, want %q", what, y.calls, want)
	}
	y.calls = nil
}

// A file is on disk before it has its name, and its name and all directories before Put
// returns. Nothing of that is left out because it might have been done before: who did it
// may have died.
func TestOnDisk(t *testing.T) {
	t.Parallel()
	s, dir := empty(t)
	y := &synced{dir: dir, fail: -1}
	y.watch(t, s)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a/b/c", "text")
	y.expect(t, "the first", ". false", "archive false", "archive/a false", "archive/a/b/put false", "archive/a/b true", "archive/a true", "archive true")
	put(t, s, "a/b/c", "text")
	y.expect(t, "again", "archive/a/b/put true", "archive/a/b/c true", "archive/a/b true", "archive/a true", "archive true")
	for range 2 {
		if err := s.Remove(t.Context(), "a/b/c"); err != nil {
			t.Fatal(err)
		}
		y.expect(t, "removed", "archive/a/b false")
	}
}

// Where the disk fails Put and Remove fail, and can be done again.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	for fail := range 7 {
		s, dir := empty(t)
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		y := &synced{dir: dir, fail: fail}
		y.watch(t, s)
		if err := s.Put(t.Context(), "a/b/c", 4, strings.NewReader("text")); !errors.Is(err, errDisk) {
			t.Errorf("call %d fails, and Put says %v", fail, err)
		}
		if all := files(t, dir); fail < 4 && len(all) > 0 || fail >= 4 && !slices.Equal(all, []string{"a/b/c"}) {
			t.Errorf("call %d fails, and there is %q", fail, all)
		}
		y.fail = -1
		put(t, s, "a/b/c", "text")
		y.calls, y.fail = nil, 1
		if err := s.Put(t.Context(), "a/b/c", 4, strings.NewReader("text")); !errors.Is(err, errDisk) {
			t.Errorf("what is there does not come on disk, and Put says %v", err)
		}
		y.calls, y.fail = nil, 0
		if err := s.Remove(t.Context(), "a/b/c"); !errors.Is(err, errDisk) {
			t.Errorf("Remove says %v", err)
		}
		if _, err := s.Read(t.Context(), "a/b/c"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read says %v", err)
		}
	}
}
