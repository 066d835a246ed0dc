package archive

import (
	"context"
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
		same, err := k.cache.SameRows(ctx, name, file, sum.Size)
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
