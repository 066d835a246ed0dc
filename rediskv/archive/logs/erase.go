package logs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/streams"
)

// Erase writes each pack anew that has one of some entries of an organization's log, by their
// identifiers, with what anew makes of these. A new line stands in for the one that named the
// pack; then the pack is removed from all shelves. It is done within the history of ctx, once
// Redis has none of these entries as they were, and can be run again.
func (s *Store) Erase(ctx context.Context, k rediskv.Space, log string, ids []string, anew streams.Anew) error {
	if len(ids) == 0 {
		return nil
	}
	s.packing.Lock()
	defer s.packing.Unlock()
	e := &erasing{Store: s, k: k, log: log, ids: map[string]bool{}, anew: anew, clear: map[string]bool{}}
	for _, id := range ids {
		e.ids[id] = true
		if made, ok := tollgate.IDTime(id); ok {
			e.times = append(e.times, tollgate.At(made))
		}
	}
	slices.Sort(e.times)
	_, err := rediskv.Retried(func() (bool, error) {
		for {
			if again, err := e.next(ctx); err != nil || !again {
				return true, err
			}
		}
	})
	return err
}

// erasing is a run of Erase.
type erasing struct {
	*Store
	k     rediskv.Space
	log   string
	ids   map[string]bool
	times []tollgate.Instant // of the identifiers, in order
	anew  streams.Anew
	clear map[string]bool // packs that have none of the entries as they were
}

// next erases in one pack; false where there is nothing left to do.
func (e *erasing) next(ctx context.Context) (again bool, err error) {
	m, err := e.manifest(ctx, e.k.Partition)
	if err != nil {
		return false, err
	}
	if err := e.ready(ctx, m); err != nil {
		return false, err
	}
	if err := e.clean(ctx, m); err != nil {
		return false, err
	}
	for _, p := range m.of[nameOf(e.log, e.k.Org)] {
		if i, _ := slices.BinarySearch(e.times, p.From); i == len(e.times) || e.times[i] > p.Until {
			continue
		}
		w, all, err := e.open(ctx, within{low: keyOf(e.k.Org, p.First), high: keyOf(e.k.Org, p.Last), part: p})
		if err != nil {
			return false, unavailable(err)
		}
		has, err := e.has(ctx, w.line.packName(), all)
		if err != nil {
			return false, err
		}
		if has {
			return true, e.replace(ctx, m, p.line, w.line.packName(), all)
		}
	}
	return false, e.sweep(ctx, m)
}

// has reports whether a pack has one of the entries as it was.
func (e *erasing) has(ctx context.Context, name string, all []packs.Entry) (bool, error) {
	if e.clear[name] {
		return false, nil
	}
	for n := range all {
		if first, last := e.k.Org+"/", e.k.Org+"0"; all[n].Last < first || all[n].First > last { // 0 comes after /
			continue
		}
		f, err := e.cache.Frame(ctx, name, n)
		if err != nil {
			return false, unavailable(err)
		}
		for key, text := range f.Rows() {
			next, err := e.row(key, text)
			if err != nil {
				return false, err
			}
			if next != nil {
				return true, nil
			}
		}
	}
	e.clear[name] = true
	return false, nil
}

// row is what a row becomes; nil where it stays.
func (e *erasing) row(key string, text []byte) ([]byte, error) {
	if !strings.HasPrefix(key, e.k.Org+"/") {
		return nil, nil
	}
	m, err := entryOf(text)
	if err != nil {
		return nil, unavailable(err)
	}
	if !e.ids[eventlog.IDOf(m)] {
		return nil, nil
	}
	is, envelope, changed, err := e.anew(m)
	if err != nil || !changed {
		return nil, err
	}
	m.Values[body] = is
	if rediskv.Text(m, "e") != "" {
		m.Values["e"] = envelope
	}
	_, next, err := rowOf(e.k.Org, m)
	return next, err
}

// replace puts a pack in the place of a line's in which entries are erased. The pack that is
// read may be that of a line which stands in for it already, of which Redis does not know.
func (e *erasing) replace(ctx context.Context, m *manifest, l *Line, name string, all []packs.Entry) error {
	p := &sealing{partition: l.Partition, log: l.Log, ranges: l.Ranges, replaces: l.Number}
	defer p.discard()
	file, err := os.CreateTemp(e.Scratch, "tollgate-logs-*")
	if err != nil {
		return fmt.Errorf("archive of logs: %w", err)
	}
	p.file = file
	_ = os.Remove(file.Name()) // where that can be done: it goes with this process, however that ends
	p.pack = packs.NewWriter(file, l.Log, l.Partition)
	for n := range all {
		f, err := e.cache.Frame(ctx, name, n)
		if err != nil {
			return unavailable(err)
		}
		for key, text := range f.Rows() {
			next, err := e.row(key, text)
			if err != nil {
				return err
			}
			if next == nil {
				next = text
			}
			if err := p.pack.Add(key, next); err != nil {
				return err
			}
			p.sums = append(p.sums, sha256.Sum256(next))
		}
	}
	if p.summary, err = p.pack.Close(); err != nil {
		return err
	}
	next, err := e.shelve(ctx, p, m, e.db.Histories.Of(l.Partition).ID)
	if err != nil {
		return fmt.Errorf("archive of logs: %w", err)
	}
	if err := e.add(ctx, next, p); err != nil {
		return err
	}
	e.step(l.Partition, "added to the manifest")
	return nil
}

// gone are packs that no line in force names any more, and the line that was there instead.
func (m *manifest) gone() map[string]*Line {
	gone := map[string]*Line{}
	for _, l := range m.lines {
		gone[l.packName()] = l
	}
	for _, l := range m.force {
		delete(gone, l.packName())
	}
	return gone
}

// clean removes packs from all shelves that other lines stand in for.
func (s *Store) clean(ctx context.Context, m *manifest) error {
	for name, l := range m.gone() {
		if err := s.remove(ctx, l.Partition, name); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file from all shelves, if it is there.
func (s *Store) remove(ctx context.Context, partition int, name string) error {
	if err := shelves.Remove(ctx, s.Shelves, name, func() { s.step(partition, "removed "+name) }); err != nil {
		return unavailable(err)
	}
	return nil
}

// sweep removes packs that have one of the entries as it was and that no line names: a worker
// has died before it added its line, or Redis was put back from a copy and has packed its
// entries again. A worker that is still at it is refused its line, as it has read the log
// before that was written anew.
func (e *erasing) sweep(ctx context.Context, m *manifest) error {
	named := map[string]bool{}
	for _, l := range m.lines {
		named[l.packName()] = true
		w, _, err := e.open(ctx, within{part: part{line: l}})
		if err == nil {
			named[w.line.packName()] = true // Redis is of before that
		}
	}
	for _, on := range e.Shelves {
		list, err := on.List(ctx, packFolder(e.k.Partition))
		if err != nil {
			return unavailable(err)
		}
		for _, file := range list {
			if named[file.Name] {
				continue
			}
			kind, all := "", []packs.Entry(nil)
			err := e.cache.Read(ctx, file.Name, func(_ context.Context, r *shelves.Reading) error {
				kind, all = r.Index().Kind, r.Index().Frames
				return nil
			})
			if err == nil && kind != e.log {
				continue
			}
			if errors.Is(err, fs.ErrNotExist) { // it was removed above
				continue
			}
			has := false
			if err == nil {
				has, err = e.has(ctx, file.Name, all)
			}
			if err != nil {
				return unavailable(fmt.Errorf("%s, to which no line refers: %w", file.Name, err))
			}
			if has {
				if err := e.remove(ctx, e.k.Partition, file.Name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// outdated removes a pack of a worker that was refused its line, with the line, where the
// pack has entries that were written anew meanwhile: no other worker can need it.
func (s *Store) outdated(ctx context.Context, l *Line, p *sealing) error {
	first := 0
	for i, one := range p.of {
		r := &p.ranges[i]
		was := map[string][sha256.Size]byte{}
		for n := range int(r.Entries) {
			was[p.keys[first+n]] = p.sums[first+n]
		}
		first += int(r.Entries)
		times, err := s.times(ctx, one.k.Object(p.log))
		if err != nil || times == one.times {
			if err != nil {
				return err
			}
			continue
		}
		other, err := s.differs(ctx, one.k, p.log, r, was)
		if err != nil {
			return err
		}
		if other {
			return errors.Join(s.remove(ctx, l.Partition, l.Name()), s.remove(ctx, l.Partition, l.packName()))
		}
	}
	return nil
}

// times is how often entries of a log were written anew.
func (s *Store) times(ctx context.Context, log string) (text string, err error) {
	err = s.db.Timed(ctx, "logs_rewritten", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, streams.Rewritten(log)).Result(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	return text, err
}

// differs reports whether a log has one of some rows in another form now.
func (s *Store) differs(ctx context.Context, k rediskv.Space, log string, r *Range, was map[string][sha256.Size]byte) (bool, error) {
	for from := r.First; ; {
		page, err := streams.Range(ctx, s.db, k.Object(log), from, r.Last, readPage)
		if err != nil {
			return false, err
		}
		for _, m := range page {
			key, text, err := rowOf(k.Org, m)
			if err != nil || len(m.Values) == 0 {
				continue // a check names it
			}
			if sum, is := was[key]; is && sum != sha256.Sum256(text) {
				return true, nil
			}
		}
		if len(page) < readPage {
			return false, nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// open is a part of a range and the frames of its pack. Where that is on no shelf, another
// line stands in for the one that names it: since the manifest was read, or since the copy was
// made from which Redis was put back.
func (s *Store) open(ctx context.Context, w within) (within, []packs.Entry, error) {
	all, err := s.cache.Frames(ctx, w.line.packName())
	if !errors.Is(err, fs.ErrNotExist) {
		return w, all, err
	}
	next, failed := s.standIn(ctx, w.line)
	if failed != nil || next == nil {
		return w, nil, cmp.Or(failed, err)
	}
	w.line = next
	all, err = s.cache.Frames(ctx, next.packName())
	return w, all, err
}

// standIn is the line on the shelves that stands in for one, whose pack is there; nil: there is none.
func (s *Store) standIn(ctx context.Context, l *Line) (*Line, error) {
	instead := map[int64][]*Line{} // by the number of the line that they replace
	known := map[string]bool{}
	for _, on := range s.Shelves {
		list, err := on.List(ctx, manifestFolder(l.Partition))
		if err != nil {
			return nil, err
		}
		for _, file := range list {
			if known[file.Name] {
				continue
			}
			text, err := on.Text(ctx, file.Name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			next, err := ParseLine(string(text))
			if err != nil || next.Replaces == 0 || next.Partition != l.Partition || next.Name() != file.Name {
				continue // a check says so
			}
			known[file.Name] = true
			instead[next.Replaces] = append(instead[next.Replaces], next)
		}
	}
	return s.last(ctx, l, instead)
}

// last is the last of the lines that stand in for one another, and whose pack is there.
func (s *Store) last(ctx context.Context, l *Line, instead map[int64][]*Line) (*Line, error) {
	for _, next := range instead[l.Number] {
		if next.Number <= l.Number || next.Log != l.Log || next.Pack.Rows != l.Pack.Rows || !slices.Equal(next.Ranges, l.Ranges) {
			continue
		}
		if found, err := s.last(ctx, next, instead); found != nil || err != nil {
			return found, err
		}
		for _, on := range s.Shelves {
			there, err := on.List(ctx, next.packName())
			if err != nil {
				return nil, err
			}
			if len(there) > 0 {
				return next, nil
			}
		}
	}
	return nil, nil
}

// leftovers says of packs that other lines stand in for and that are still there, or removes
// them where it heals.
func (s *Store) leftovers(ctx context.Context, m *manifest, heal bool, named map[string]bool, found func(Finding)) error {
	if heal {
		return s.clean(ctx, m)
	}
	for name, l := range m.gone() {
		named[name] = true
		for i, on := range s.Shelves {
			there, err := on.List(ctx, name)
			if err != nil {
				return unavailable(err)
			}
			if len(there) > 0 {
				found(Finding{Line: l.Number, Copy: i > 0, File: name, Message: fmt.Sprintf(
					"another line stands in for line %d, which had it: 'tollgate archive check --heal' removes it, as what was erased is still in it", l.Number)})
			}
		}
	}
	return nil
}
