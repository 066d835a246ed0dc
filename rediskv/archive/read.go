package archive

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
)

// Payments are the records of archived payments, as ledger.Archive says. A manifest that
// does not lead to one of them is read again before it is thought not to be there.
func (s *Store) Payments(ctx context.Context, k rediskv.Space, ids []string) (map[string]*ledger.Records, error) {
	found, missing := map[string]*ledger.Records{}, map[string]string{} // by what they share: an identifier
	for _, id := range ids {
		if of, _, ok := tollgate.NumberIn(id); ok && (missing[of] == "" || id < missing[of]) {
			missing[of] = id
		}
	}
	for _, fresh := range []bool{false, true} {
		if len(missing) == 0 {
			break
		}
		m, err := s.manifest(ctx, k.Partition, fresh)
		if err != nil {
			return nil, err
		}
		var lock sync.Mutex
		reads, ctx := errgroup.WithContext(ctx)
		reads.SetLimit(atOnce)
		for of, id := range maps.Clone(missing) {
			reads.Go(func() error {
				r, err := s.lookUp(ctx, k, m, id)
				lock.Lock()
				defer lock.Unlock()
				if r != nil {
					found[of] = r
					delete(missing, of)
				}
				return err
			})
		}
		if err := reads.Wait(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// atOnce is how much of an archive is read at the same time for one page: a bucket is far.
const atOnce = 8

// lookUp looks for the payment that an identifier belongs to, in the newest pack that has it.
func (s *Store) lookUp(ctx context.Context, k rediskv.Space, m *manifest, id string) (*ledger.Records, error) {
	of, _, _ := tollgate.NumberIn(id)
	for l := range m.mayHave(id) {
		kept := keptKey{k.Org, l.Payments.SHA256, of}
		if r, is := s.kept.Get(kept); is {
			return r, nil
		}
		row, err := s.rowIn(ctx, l, id)
		if err != nil {
			return unreadable(id, err)
		}
		if row == nil {
			continue
		}
		r, err := recordsOf(k, row)
		if err == nil && r != nil {
			s.kept.Add(kept, r)
		}
		if r != nil || err != nil {
			return r, err
		}
	}
	return nil, nil
}

// unreadable is what a pack that cannot be read means to who looks for something in it: what
// is damaged concerns what is there, and nothing else.
func unreadable(id string, err error) (*ledger.Records, error) {
	damaged, is := errors.AsType[*packs.DamagedError](err)
	if !is || damaged.Frame < 0 {
		return nil, unavailable(err)
	}
	r := &ledger.Records{Payment: rediskv.Fields{rediskv.EnvelopeField: record.Wrong}, Err: tollgate.Damage("payment", id, err)}
	if _, text, _ := strings.Cut(id, "_"); strings.HasSuffix(text, tollgate.FirstNumber) {
		r.ID = tollgate.PrefixPayment + text
		r.Err = tollgate.Damage("payment", r.ID, err)
	}
	return r, nil
}

// rowIn is the row of the payment that an identifier belongs to, nil where a pack has none.
func (s *Store) rowIn(ctx context.Context, l *Line, id string) ([]byte, error) {
	of, number, _ := tollgate.NumberIn(id)
	_, text, _ := strings.Cut(id, "_")
	if number != tollgate.FirstNumber {
		row, there, err := s.cache.Row(ctx, packName(l.Partition, l.Parts.SHA256), of)
		if err != nil || !there {
			return nil, err
		}
		var at part
		if err := json.Unmarshal(row, &at); err != nil {
			return nil, err
		}
		text = at.At + of + tollgate.FirstNumber
	}
	row, there, err := s.cache.Row(ctx, packName(l.Partition, l.Payments.SHA256), tollgate.PrefixPayment+text)
	if errors.Is(err, fs.ErrNotExist) { // the manifest may be older than the files
		if l, err = s.standIn(ctx, l, err); err == nil {
			row, there, err = s.cache.Row(ctx, packName(l.Partition, l.Payments.SHA256), tollgate.PrefixPayment+text)
		}
	}
	if err != nil || !there {
		return nil, err
	}
	return row, nil
}

// recordsOf are the records that a row is made of, nil of another organization's.
func recordsOf(k rediskv.Space, row []byte) (*ledger.Records, error) {
	a, err := payments.ReadArchived(row)
	if err != nil {
		return nil, err
	}
	if a.Organization != k.Org {
		return nil, nil
	}
	r, err := a.Records(k, record.Plain)
	if err != nil {
		return nil, tollgate.Damage("payment", a.ID, err)
	}
	return r, nil
}

// Row is what the archive has of the payment that an identifier belongs to, as JSON, from
// the newest pack that has it; nil where none does. It is asked by whoever runs the service.
func (s *Store) Row(ctx context.Context, id string) ([]byte, *Line, error) {
	for p := range s.db.Partitions() {
		m, err := s.manifest(ctx, p, true)
		if err != nil {
			return nil, nil, err
		}
		for l := range m.mayHave(id) {
			if row, err := s.rowIn(ctx, l, id); row != nil || err != nil {
				return row, l, err
			}
		}
	}
	return nil, nil, nil
}
