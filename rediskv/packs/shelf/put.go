package shelf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinished is how a file is named while it is written. No name has a tilde.
const unfinished = "put~*"

// Put writes a file, as Shelf says. It is on disk then, with its name.
func (s *Directory) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	place, err := s.place(name)
	if err == nil {
		err = s.put(ctx, place, size, r)
	}
	if err != nil {
		return fmt.Errorf("put %.200s on shelf: %w", name, err)
	}
	return nil
}

func (s *Directory) put(ctx context.Context, place string, size int64, r io.Reader) error {
	dir := filepath.Dir(place)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return err
	}
	err = s.fill(ctx, file, size, r)
	if err == nil {
		err = s.link(ctx, file, size, place)
	}
	if err := errors.Join(err, file.Close(), os.Remove(file.Name())); err != nil {
		return err
	}
	return s.syncUp(dir)
}

// fill writes what is read, and sees that it is on disk.
func (s *Directory) fill(ctx context.Context, file *os.File, size int64, r io.Reader) error {
	n, err := io.Copy(file, io.LimitReader(Reader(ctx, r), max(size, 0)+1))
	if err == nil {
		err = CheckSize(n, size)
	}
	if err != nil {
		return err
	}
	return s.sync(file)
}

// link gives a file its name. Unlike a renaming it replaces none.
func (s *Directory) link(ctx context.Context, file *os.File, size int64, place string) error {
	err := os.Link(file.Name(), place)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := open(place)
	if err != nil {
		return err
	}
	defer there.Close()
	same, err := Equal(ctx, file, size, there)
	if err == nil && !same {
		err = fmt.Errorf("%s has another content: %w", place, fs.ErrExist)
	}
	return errors.Join(err, s.sync(there.file)) // who knows who wrote it
}

// Equal compares a content of a size in bytes with a file that is there.
func Equal(ctx context.Context, content io.ReaderAt, size int64, there Object) (bool, error) {
	if size != there.Size() {
		return false, nil
	}
	const most = 256 << 10
	mine, other := make([]byte, most), make([]byte, most)
	for off := int64(0); off < size; off += most {
		n := min(size-off, most)
		if _, err := content.ReadAt(mine[:n], off); err != nil {
			return false, err
		}
		if err := there.ReadAt(ctx, other[:n], off); err != nil {
			return false, err
		}
		if !bytes.Equal(mine[:n], other[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// makeDir makes a directory, and those above it that are missing, and sees that they stay.
func (s *Directory) makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil // if it is a file, there is an error soon enough
	}
	if err != nil {
		return err
	}
	return s.syncDir(filepath.Dir(dir))
}

// syncUp sees that a directory is on disk with those above it, up to the shelf's: whoever
// made them may have died before, or not have come so far.
func (s *Directory) syncUp(dir string) error {
	for {
		if err := s.syncDir(dir); err != nil || dir == s.root {
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// syncDir sees that the names in a directory are on disk.
func (s *Directory) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.sync(d), d.Close())
}
