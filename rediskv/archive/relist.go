package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/payments"
)

// relist makes a line's lists again, which nothing but its payments says.
func (s *Store) relist(ctx context.Context, l *Line, to io.Writer) (packs.Summary, error) {
	w := s.walk(l)
	defer w.close()
	frames, err := w.frames(ctx)
	if err != nil {
		return packs.Summary{}, err
	}
	x := newIndexed()
	for n := range frames {
		f, err := w.frame(ctx, n)
		if err != nil {
			return packs.Summary{}, err
		}
		for _, text := range f.Rows() {
			a, err := payments.ReadArchived(text)
			if err != nil {
				return packs.Summary{}, err
			}
			x.add(s.db.Space(a.Organization), a)
		}
	}
	return x.write(to, l.Partition)
}

// lists looks whether a line has the lists that its payments make. Where they cannot be read
// on any shelf, they are made again, if the check is to heal.
func (k *checking) lists(ctx context.Context, l *Line) error {
	var wrong []Finding
	there := *k
	there.found = func(f Finding) { wrong = append(wrong, f) }
	lost, err := there.pack(ctx, l, *l.Lists)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(k.Scratch, "tollgate-lists-*")
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	sum, err := k.relist(ctx, l, file)
	_, damaged := errors.AsType[*packs.DamagedError](err)
	name := packName(k.partition, l.Lists.SHA256)
	switch {
	case damaged || errors.Is(err, shelves.ErrOther) || errors.Is(err, fs.ErrNotExist): // which is told of the payments
	case err != nil:
		return unavailable(err)
	case !lost && sum.SHA256 != l.Lists.SHA256: // another release may have compressed them otherwise
		same, err := k.sameRows(ctx, name, file, sum)
		if err != nil {
			return unavailable(err)
		}
		if !same {
			wrong = append(wrong, Finding{Partition: k.partition, Line: l.Number, File: name, Message: "its lists are not those of its payments"})
		}
	case lost && k.heal && sum.SHA256 == l.Lists.SHA256:
		if err := k.shelveAgain(ctx, name, sum.Size, file); err != nil {
			return unavailable(err)
		}
		for i := range wrong {
			wrong[i].Healed = true
		}
	}
	for _, f := range wrong {
		k.found(f)
	}
	return nil
}

// sameRows reports whether a pack on the shelves has the rows of another one, which is in a file.
func (k *checking) sameRows(ctx context.Context, name string, file *os.File, sum packs.Summary) (same bool, err error) {
	made, err := packs.Open(ctx, readerOf{file}, sum.Size)
	if err != nil {
		return false, err
	}
	want, err := digestOf(ctx, len(made.Index().Frames), made.Frame)
	if err != nil {
		return false, err
	}
	err = k.cache.Read(ctx, name, func(ctx context.Context, r *shelves.Reading) error {
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
type readerOf struct{ file *os.File }

func (r readerOf) ReadAt(_ context.Context, p []byte, off int64) error {
	_, err := r.file.ReadAt(p, off)
	return err
}

// shelveAgain puts a file on all shelves in place of what is there.
func (k *checking) shelveAgain(ctx context.Context, name string, size int64, file *os.File) error {
	for _, on := range k.Shelves {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := on.Remove(ctx, name); err != nil {
			return err
		}
		if err := on.Put(ctx, name, size, file); err != nil {
			return err
		}
	}
	return nil
}
