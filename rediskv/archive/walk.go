package archive

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelves"
)

// walked is a line's pack of payments, frame by frame: each from the first shelf that has
// it as it was written.
type walked struct {
	*Store
	l    *Line
	open []*packs.Pack // by shelf; nil: it has not been asked for, or cannot be opened
	errs []error       // by shelf: why it cannot
	ends []func() error
}

func (s *Store) walk(l *Line) *walked {
	return &walked{Store: s, l: l, open: make([]*packs.Pack, len(s.Shelves)), errs: make([]error, len(s.Shelves))}
}

func (w *walked) close() {
	for _, end := range w.ends {
		_ = end() // it was only read
	}
}

// pack is the one of a shelf.
func (w *walked) pack(ctx context.Context, shelf int) (*packs.Pack, error) {
	if w.open[shelf] != nil || w.errs[shelf] != nil {
		return w.open[shelf], w.errs[shelf]
	}
	w.open[shelf], w.errs[shelf] = w.read(ctx, shelf)
	return w.open[shelf], w.errs[shelf]
}

func (w *walked) read(ctx context.Context, shelf int) (*packs.Pack, error) {
	l := w.l
	object, err := w.Shelves[shelf].Read(ctx, packName(l.Partition, l.Payments.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		if l, err = w.standIn(ctx, l, err); err == nil {
			object, err = w.Shelves[shelf].Read(ctx, packName(l.Partition, l.Payments.SHA256))
		}
	}
	if err != nil {
		return nil, err
	}
	pack, err := packs.Open(ctx, shelves.ReadAhead(object), object.Size())
	if err == nil {
		err = shelves.IsOf(pack.Index(), l.Payments)
	}
	if err != nil {
		return nil, errors.Join(err, object.Close())
	}
	w.ends = append(w.ends, object.Close)
	return pack, nil
}

// frames are the entries of its frames. The error is that of the first shelf.
func (w *walked) frames(ctx context.Context) (all []packs.Entry, err error) {
	for i := range w.Shelves {
		pack, failed := w.pack(ctx, i)
		if failed == nil {
			return pack.Index().Frames, nil
		}
		err = cmp.Or(err, failed)
	}
	return nil, err
}

// frame is one of them, by its number.
func (w *walked) frame(ctx context.Context, n int) (f *packs.Frame, err error) {
	for i := range w.Shelves {
		pack, failed := w.pack(ctx, i)
		if failed == nil {
			f, failed = pack.Frame(ctx, n)
		}
		if failed == nil {
			return f, nil
		}
		err = cmp.Or(err, failed)
	}
	return nil, err
}

// rowOf is a row of a pack.
type rowOf struct {
	chosen
	text []byte
}

// rowsOf are the rows of a frame.
func rowsOf(f *packs.Frame) (all []rowOf, err error) {
	for id, text := range f.Rows() {
		one := rowOf{chosen{id: id}, text}
		if one.org, err = organizationOf(text); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// readThose is read of the payments that rows have.
func (s *Store) readThose(ctx context.Context, partition int, last int64, rows []rowOf) ([]whole, error) {
	some := make([]chosen, len(rows))
	for i := range rows {
		some[i] = rows[i].chosen
	}
	return s.read(ctx, partition, last, some)
}

// organizationOf is whose payment a row has.
func organizationOf(row []byte) (string, error) {
	var of struct {
		Organization string `json:"organization_id"`
	}
	err := json.Unmarshal(row, &of)
	return of.Organization, err
}
