package shelves

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
)

// SameRows reports whether a pack on the shelves has the rows of another one, which is a file
// of some size.
func (c *Cache) SameRows(ctx context.Context, name string, file io.ReaderAt, size int64) (same bool, err error) {
	made, err := packs.Open(ctx, readerOf{file}, size)
	if err != nil {
		return false, err
	}
	want, err := digestOf(ctx, len(made.Index().Frames), made.Frame)
	if err != nil {
		return false, err
	}
	err = c.Read(ctx, name, func(ctx context.Context, r *Reading) error {
		is, err := digestOf(ctx, len(r.Index().Frames), r.Frame)
		same = is == want
		return err
	})
	return same, err
}

// digestOf is that of all rows of some frames.
func digestOf(ctx context.Context, frames int, frame func(context.Context, int) (*packs.Frame, error)) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for n := range frames {
		f, err := frame(ctx, n)
		if err != nil {
			return sum, err
		}
		for _, row := range f.Rows() {
			h.Write(row)
			h.Write([]byte{'\n'})
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// readerOf is a file as package packs reads it.
type readerOf struct{ file io.ReaderAt }

func (r readerOf) ReadAt(_ context.Context, p []byte, off int64) error {
	_, err := r.file.ReadAt(p, off)
	return err
}

// Remove removes a file from all shelves where it is. removed is told of each.
func Remove(ctx context.Context, shelves []shelf.Shelf, name string, removed func()) error {
	for _, on := range shelves {
		there, err := on.List(ctx, name)
		if err != nil {
			return err
		}
		if len(there) == 0 {
			continue
		}
		if err := on.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed()
	}
	return nil
}
