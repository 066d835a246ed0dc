package shelf_test

import (
	"os"
	"path/filepath"
	"testing"

	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelf/s3"
	"tollgate/rediskv/packs/shelf/s3/s3test"
)

// kind is a shelf of one of the kinds that there are.
type kind struct {
	shelf.Shelf
	dir    string         // of one in a directory
	bucket *s3test.Server // of one in a bucket
}

// onEach plays a test on an empty shelf of each kind.
func onEach(t *testing.T, test func(t *testing.T, s *kind)) {
	t.Parallel()
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		s, dir := empty(t)
		test(t, &kind{Shelf: s, dir: dir})
	})
	t.Run("bucket", func(t *testing.T) {
		t.Parallel()
		server := s3test.New(t)
		s, err := s3.Open(server.At(""), s3.Options{Credentials: &s3.Credentials{AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}})
		if err != nil {
			t.Fatal(err)
		}
		test(t, &kind{Shelf: s, bucket: server})
	})
}

// left are all the files that lie there, whatever their names.
func (s *kind) left(t *testing.T) []string {
	t.Helper()
	if s.dir != "" {
		return files(t, s.dir)
	}
	return s.bucket.Keys(t)
}

// empty is a shelf whose directory is not there yet, and its parent's parent neither.
func empty(t *testing.T) (*shelf.Directory, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "of", "archive")
	s, err := shelf.Open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// lay puts a file there past the shelf.
func (s *kind) lay(t *testing.T, name string) {
	t.Helper()
	if s.dir == "" {
		s.bucket.Lay(t, name, "x")
		return
	}
	place := filepath.Join(s.dir, name)
	if os.MkdirAll(filepath.Dir(place), 0o700) != nil || os.WriteFile(place, []byte("x"), 0o600) != nil {
		t.Fatal(name)
	}
}
