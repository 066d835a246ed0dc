package logs

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/streams"
)

// Entries are those of a range of a log that packs have. It implements eventlog.Archive.
func (s *Store) Entries(ctx context.Context, k rediskv.Space, log, first, last string, count int, descending bool) (found []redis.XMessage, err error) {
	m, err := s.manifest(ctx, k.Partition)
	if err != nil {
		return nil, err
	}
	low, high := first, last
	if descending {
		low, high = last, first
	}
	parts := slices.Clone(m.of[nameOf(log, k.Org)])
	if descending {
		slices.Reverse(parts)
	}
	for _, p := range parts {
		if low != "-" && streams.Less(p.Last, low) || high != "+" && streams.Less(high, p.First) {
			continue
		}
		w := within{low: keyOf(k.Org, p.First), high: keyOf(k.Org, p.Last), part: p}
		if low != "-" && streams.Less(p.First, low) {
			w.low = keyOf(k.Org, low)
		}
		if high != "+" && streams.Less(high, p.Last) {
			w.high = keyOf(k.Org, high)
		}
		if err := s.entries(ctx, w, descending, func(m redis.XMessage) bool {
			found = append(found, m)
			return len(found) < count
		}); err != nil || len(found) >= count {
			return found, err
		}
	}
	return found, nil
}

// within is a part of a range, from the row of a key to that of another.
type within struct {
	part
	low, high string
}

// entries hands over entries until it is told to stop. For a frame that is damaged it hands
// over one entry, with nothing in it, as a segment in Redis does: who reads finds that it is
// damaged, and goes on behind it.
func (s *Store) entries(ctx context.Context, w within, descending bool, take func(redis.XMessage) bool) error {
	w, all, err := s.open(ctx, w)
	if err != nil {
		return unavailable(err)
	}
	begin := sort.Search(len(all), func(i int) bool { return all[i].Last >= w.low })
	end := sort.Search(len(all), func(i int) bool { return all[i].First > w.high })
	for i := range end - begin {
		n := begin + i
		if descending {
			n = end - 1 - i
		}
		some, err := s.inFrame(ctx, w, &all[n], n)
		if err != nil {
			return err
		}
		if descending {
			slices.Reverse(some)
		}
		for _, m := range some {
			if !take(m) {
				return nil
			}
		}
	}
	return nil
}

// inFrame are the entries of a frame that are in a part of a range.
func (s *Store) inFrame(ctx context.Context, w within, e *packs.Entry, n int) (some []redis.XMessage, err error) {
	f, err := s.cache.Frame(ctx, w.line.packName(), n)
	if isDamage(err) {
		org, place, ok := placeOf(e.First)
		if !ok || org != w.Organization {
			place = w.First
		}
		if key := keyOf(w.Organization, place); key < w.low || key > w.high {
			return nil, nil
		}
		return []redis.XMessage{{ID: place, Values: map[string]any{}}}, nil
	}
	if err != nil {
		return nil, unavailable(err)
	}
	for key, text := range f.Rows() {
		if key < w.low || key > w.high {
			continue
		}
		m, err := entryOf(text)
		if err != nil {
			return nil, unavailable(err) // it has the digest that it was written with
		}
		some = append(some, m)
	}
	return some, nil
}

// isDamage says that one frame of a pack is damaged.
func isDamage(err error) bool {
	damaged, is := errors.AsType[*packs.DamagedError](err)
	return is && damaged.Frame >= 0
}

// near is how far the clock that made an identifier is from Redis' when all is well.
const near = 2 * time.Second

// Find is the entry of an identifier, nil where packs have none. It implements
// eventlog.Archive. An identifier says when it was made, and as a rule the entry stands there.
func (s *Store) Find(ctx context.Context, k rediskv.Space, log, id string) (*redis.XMessage, error) {
	m, err := s.manifest(ctx, k.Partition)
	if err != nil {
		return nil, err
	}
	row, err := s.rowOf(ctx, m.of[nameOf(log, k.Org)], id)
	if err != nil || row == nil {
		return nil, err
	}
	found, err := entryOf(row)
	if err != nil {
		return nil, unavailable(err) // it has the digest that it was written with
	}
	return &found, nil
}

// rowOf is the row of an identifier in one of the parts of a log; nil where none has it.
func (s *Store) rowOf(ctx context.Context, parts []part, id string) ([]byte, error) {
	made, ok := tollgate.IDTime(id)
	at := tollgate.At(made)
	kind := "event"
	if strings.HasPrefix(id, tollgate.PrefixAudit) {
		kind = "audit_entry"
	}
	var damaged error
	for _, p := range parts {
		if !ok || at < p.From || at > p.Until {
			continue
		}
		org := p.Organization
		low, high := keyOf(org, p.First), keyOf(org, p.Last)
		guess := within{p, max(low, keyOf(org, rediskv.Milli(max(0, at.Add(-near)))+"-0")), min(high, keyOf(org, rediskv.Milli(at.Add(near))+"-9999999999"))}
		for _, w := range []within{guess, {p, low, high}} {
			row, err := s.findIn(ctx, w, id, at)
			if isDamage(err) {
				damaged = tollgate.Damage(kind, id, err)
				continue
			}
			if row != nil || err != nil {
				return row, err
			}
		}
	}
	return nil, damaged
}

// few is how many frames are gone through from their beginning.
const few = 4

// findIn looks for the row of an entry in a part of a range. Where that has many frames, it
// begins before all that was made when the entry was: identifiers grow along a log, but for
// the differences between the clocks of instances.
func (s *Store) findIn(ctx context.Context, w within, id string, at tollgate.Instant) (row []byte, err error) {
	if w.low > w.high {
		return nil, nil
	}
	w, all, err := s.open(ctx, w)
	if err != nil {
		return nil, unavailable(err)
	}
	begin := sort.Search(len(all), func(i int) bool { return all[i].Last >= w.low })
	end := sort.Search(len(all), func(i int) bool { return all[i].First > w.high })
	if end-begin > few {
		torn := false
		later := sort.Search(end-begin, func(i int) bool {
			first, err := s.madeIn(ctx, w, &all[begin+i], begin+i)
			torn = torn || err != nil || first == 0
			return first >= at.Add(-rediskv.Skew)
		})
		if !torn {
			begin += max(0, later-1)
		}
	}
	var damaged error
	for n := begin; n < end; n++ {
		f, err := s.cache.Frame(ctx, w.line.packName(), n)
		if isDamage(err) {
			damaged = err
			continue
		}
		if err != nil {
			return nil, unavailable(err)
		}
		for key, text := range f.Rows() {
			if key < w.low || key > w.high || !bytes.Contains(text, []byte(id)) {
				continue
			}
			if m, err := entryOf(text); err == nil && eventlog.IDOf(m) == id {
				return text, nil
			}
		}
		if first, err := s.madeIn(ctx, w, &all[n], n); err == nil && first > at.Add(rediskv.Skew) {
			break
		}
	}
	return nil, damaged
}

// madeIn is when the first entry of a frame was made that is in a part of a range, 0 if
// nothing says so.
func (s *Store) madeIn(ctx context.Context, w within, e *packs.Entry, n int) (tollgate.Instant, error) {
	some, err := s.inFrame(ctx, w, e, n)
	for _, m := range some {
		if made, ok := tollgate.IDTime(eventlog.IDOf(m)); ok {
			return tollgate.At(made), err
		}
	}
	return 0, err
}

// Row is what packs have of an entry as JSON, by its identifier; nil where they do not. It is asked by whoever runs the service.
func (s *Store) Row(ctx context.Context, id string) ([]byte, error) {
	for p := range s.db.Partitions() {
		m, err := s.manifest(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(m.of)) {
			if row, err := s.rowOf(ctx, m.of[name], id); row != nil || err != nil {
				return row, err
			}
		}
	}
	return nil, nil
}
