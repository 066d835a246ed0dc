package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/payments"
)

// FenceKey is a string of a partition: how often what an archive may have read was erased. A
// line is added, and a payment put back, only while it is as it was before they were read.
func FenceKey(partition int) string { return rediskv.ArchiveKey(partition) + ":erased" }

// fence is what is there, empty for nothing, and the same as a number.
func (s *Store) fence(ctx context.Context, partition int) (text string, times int64, err error) {
	err = s.db.Timed(ctx, "archive_fence", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, FenceKey(partition)).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	if err == nil && text != "" {
		times, err = strconv.ParseInt(text, 10, 64)
	}
	return text, times, err
}

// CatchUp takes back what the shelves have behind the manifest of a partition, as a worker
// does: before something is erased, as lines that were made before that are not taken back.
func (s *Store) CatchUp(ctx context.Context, partition int) error {
	_, err := rediskv.Retried(func() (bool, error) {
		for {
			m, err := s.manifest(ctx, partition, true)
			if err != nil {
				return false, err
			}
			if again, err := s.caughtUp(ctx, m, partition); err != nil || !again {
				return true, err
			}
		}
	})
	return err
}

// caughtUp ends what a worker that died has begun; again says that the manifest is another
// one then.
func (s *Store) caughtUp(ctx context.Context, m *manifest, partition int) (again bool, err error) {
	if n := len(m.lines); n > 0 { // a volume that is not mounted is an empty directory
		for _, on := range s.Shelves {
			if _, err := on.Text(ctx, m.lines[n-1].Name()); err != nil {
				return false, unavailable(fmt.Errorf("the archive is not there: %w", err))
			}
		}
	}
	if m.done < m.last() { // another line would say that Redis has none of its payments
		_, err := s.removeAgain(ctx, m.lines[m.done])
		return true, err
	}
	last := m.last()
	_, err = s.catchUp(ctx, partition, &m)
	return m.last() != last, err
}

// Erase writes each pack anew that has one of some payments of an organization, by when they
// are erased. A new line stands in for the one that named it; then the pack is removed from all
// shelves. It is done within the history of ctx, once Redis has none of the payments as they
// were, and can be run again. It returns files that have one of them and must stay: lines name
// them that Redis does not have, and might take back.
func (s *Store) Erase(ctx context.Context, k rediskv.Space, at map[string]tollgate.Instant) (left []string, err error) {
	e := &erasing{Store: s, k: k, at: at, clear: map[string]bool{}}
	_, err = rediskv.Retried(func() (bool, error) {
		for {
			if again, err := e.next(ctx); err != nil || !again {
				return true, err
			}
		}
	})
	return e.left, err
}

// erasing is a run of Erase.
type erasing struct {
	*Store
	k     rediskv.Space
	at    map[string]tollgate.Instant
	clear map[string]bool // packs that have none of the payments as they were
	left  []string
}

// next erases in one pack; false where there is nothing left to do.
func (e *erasing) next(ctx context.Context) (again bool, err error) {
	fence, erased, err := e.fence(ctx, e.k.Partition)
	if err != nil {
		return false, err
	}
	m, err := e.manifest(ctx, e.k.Partition, true)
	if err != nil {
		return false, err
	}
	if again, err := e.caughtUp(ctx, m, e.k.Partition); err != nil || again {
		return again, err
	}
	if err := e.clean(ctx, m); err != nil {
		return false, err
	}
	for _, l := range m.force {
		has, err := e.has(ctx, l)
		if err != nil {
			return false, err
		}
		if has {
			return true, e.replace(ctx, m, l, fence, erased)
		}
	}
	return false, e.sweep(ctx, m, erased)
}

// has reports whether a line's pack has one of the payments that is not erased in it.
func (e *erasing) has(ctx context.Context, l *Line) (bool, error) {
	name := packName(l.Partition, l.Payments.SHA256)
	if e.clear[name] {
		return false, nil
	}
	for id := range e.at {
		if id < l.Payments.First || id > l.Payments.Last {
			continue
		}
		row, err := e.rowIn(ctx, l, id)
		if err != nil {
			return false, unavailable(err)
		}
		if whole, err := e.whole(row); whole || err != nil {
			return whole, err
		}
	}
	e.clear[name] = true
	return false, nil
}

// whole reports whether a row is of one of the payments, and not erased.
func (e *erasing) whole(row []byte) (bool, error) {
	if row == nil {
		return false, nil
	}
	a, err := payments.ReadArchived(row)
	return err == nil && a.Organization == e.k.Org && a.Ticket.ErasedAt == 0, err
}

// sweep removes packs that have one of the payments and that no line names: a worker has died
// before it put its line on the shelves. One that is still at it is refused its line, as it has
// read the payments before they were erased. So was one whose line is behind the fence.
func (e *erasing) sweep(ctx context.Context, m *manifest, erased int64) error {
	named, others := map[string]bool{}, map[string][]*Line{} // by packs: whether Redis has a line, and lines that it does not have
	known := map[string]bool{}
	for _, l := range m.lines {
		known[l.Name()] = true
		for _, sum := range l.packs() {
			named[packName(l.Partition, sum.SHA256)] = true
		}
	}
	for _, on := range e.Shelves {
		list, err := on.List(ctx, fmt.Sprintf("manifest/p%02d/", e.k.Partition))
		if err != nil {
			return unavailable(err)
		}
		for _, file := range list {
			if known[file.Name] {
				continue
			}
			known[file.Name] = true
			l, err := e.lineAt(ctx, e.k.Partition, file.Name)
			if errors.Is(err, shelves.ErrOther) {
				continue // a check says so
			}
			if err != nil {
				return unavailable(err)
			}
			name := packName(l.Partition, l.Payments.SHA256)
			others[name] = append(others[name], l)
		}
	}
	looked := map[string]bool{}
	for _, on := range e.Shelves {
		list, err := on.List(ctx, fmt.Sprintf("packs/p%02d/", e.k.Partition))
		if err != nil {
			return unavailable(err)
		}
		for _, file := range list {
			if named[file.Name] || looked[file.Name] {
				continue
			}
			looked[file.Name] = true
			if err := e.orphan(ctx, file.Name, others[file.Name], erased); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphan removes a pack that Redis does not name, if it has one of the payments and nobody can
// take it back.
func (e *erasing) orphan(ctx context.Context, name string, lines []*Line, erased int64) error {
	has := false
	for id := range e.at {
		row, _, err := e.cache.Row(ctx, name, id)
		if err == nil {
			has, err = e.whole(row)
		}
		if err != nil {
			return unavailable(fmt.Errorf("%s, to which no line of Redis refers: %w", name, err))
		}
		if has {
			break
		}
	}
	if !has {
		return nil
	}
	now := e.historyOf(e.k.Partition)
	if slices.ContainsFunc(lines, func(l *Line) bool { return l.HistoryID != now || l.Erased >= erased }) {
		e.left = append(e.left, name)
		return nil
	}
	for _, l := range lines {
		if err := e.remove(ctx, e.k.Partition, l.Name()); err != nil {
			return err
		}
	}
	return e.remove(ctx, e.k.Partition, name)
}

// outdated removes the pack of a worker that was refused its line, with the line, where it has
// payments that were erased meanwhile: no other worker can need it.
func (s *Store) outdated(ctx context.Context, p *sealing, l *Line) error {
	if _, now, err := s.fence(ctx, l.Partition); err != nil || now == l.Erased {
		return err
	}
	for some := range slices.Chunk(p.removals, 1000) {
		since := make([]*redis.StringCmd, len(some))
		if err := s.db.Timed(ctx, "archive_outdated", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for i, one := range some {
				since[i] = pipe.HGet(ctx, s.db.Space(one.org).Object(one.id), payments.ErasedField)
			}
			return rediskv.Answered(pipe.Exec(ctx))
		}); err != nil {
			return err
		}
		for i, one := range some {
			if since[i].Val() != "" && !one.erased {
				return errors.Join(s.remove(ctx, l.Partition, l.Name()), s.remove(ctx, l.Partition, packName(l.Partition, l.Payments.SHA256)))
			}
		}
	}
	return nil
}

// replace puts a pack in the place of a line's in which payments are erased.
func (e *erasing) replace(ctx context.Context, m *manifest, l *Line, fence string, erased int64) error {
	s := e.Store
	p := &sealing{partition: l.Partition, log: s.db.Log}
	defer p.discard()
	file, err := os.CreateTemp(s.Scratch, "tollgate-pack-*")
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	p.files[0] = file
	_ = os.Remove(file.Name()) // where that can be done: it goes with this process, however that ends
	if err := e.rows(ctx, p, l); err != nil {
		return err
	}
	for _, on := range s.Shelves {
		if err := s.shelvePack(ctx, on, p, 0, p.summaries[0]); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	next := *l // what else the line names has nothing that is erased, and stays
	next.Format, next.Replaces, next.Payments = formatReplaces, l.Number, p.summaries[0]
	next.Number, next.Previous, next.SealedAt, next.HistoryID = m.last()+1, m.digest(), s.db.Now(), s.historyOf(l.Partition)
	next.Erased = erased
	if err := next.sealed(); err != nil {
		return err
	}
	for _, on := range s.Shelves {
		if err := on.Put(ctx, next.Name(), int64(len(next.text)), strings.NewReader(next.text)); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		s.step(l.Partition, "put "+next.Name())
	}
	if err := s.add(ctx, l.Partition, next.Number, stored(rediskv.ArchiveKey(l.Partition), &next), nil, nil, adding{fence, true}); err != nil {
		return err
	}
	s.step(l.Partition, "added to the manifest")
	return s.end(ctx, &next) // Redis has none of it: the line in whose place it is was done
}

func (s *Store) historyOf(partition int) string { return s.db.Histories.Of(partition).ID }

// rows writes the rows of a line's pack to another one.
func (e *erasing) rows(ctx context.Context, p *sealing, l *Line) error {
	to := packs.NewWriter(p.files[0], kindPayments, l.Partition)
	w := e.walk(l)
	defer w.close()
	frames, err := w.frames(ctx)
	if err != nil {
		return unavailable(err)
	}
	for n := range frames {
		f, err := w.frame(ctx, n)
		if err != nil {
			return unavailable(err)
		}
		for id, row := range f.Rows() {
			if since, is := e.at[id]; is {
				if row, err = erasedRow(row, e.k.Org, since); err != nil {
					return err
				}
			}
			if err := to.Add(id, row); err != nil {
				return err
			}
			p.sums = append(p.sums, sha256.Sum256(row))
		}
	}
	p.summaries[0], err = to.Close()
	return err
}

func erasedRow(row []byte, org string, at tollgate.Instant) ([]byte, error) {
	a, err := payments.ReadArchived(row)
	if err != nil || a.Organization != org || !a.Erase(at) {
		return row, err
	}
	return a.Row()
}

// gonePacks are packs that no line in force names any more, and the line that was there
// instead.
func (m *manifest) gonePacks() map[string]*Line {
	gone := map[string]*Line{}
	for _, l := range m.lines {
		if m.replaced(l) {
			gone[packName(l.Partition, l.Payments.SHA256)] = l
		}
	}
	for _, l := range m.force {
		for _, sum := range l.packs() {
			delete(gone, packName(l.Partition, sum.SHA256))
		}
	}
	return gone
}

// clean removes packs from all shelves that other lines stand in for.
func (s *Store) clean(ctx context.Context, m *manifest) error {
	for name, l := range m.gonePacks() {
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

// leftovers says of packs that other lines stand in for and that are still there, or removes
// them where it heals.
func (k *checking) leftovers(ctx context.Context, m *manifest, b *branch) error {
	if k.heal {
		return k.clean(ctx, m)
	}
	for name, l := range m.gonePacks() {
		b.told[name] = fmt.Sprintf("another line stands in for line %d, which had it: 'tollgate archive check --heal' removes it, as what was erased is still in it", l.Number)
		b.wrong[name] = true
	}
	return nil
}

// standIn is the line on the shelves that stands in for one whose pack is not there: it was
// added after the manifest was read, or Redis was put back from a copy of before. Where there
// is none the error is that of the pack.
func (s *Store) standIn(ctx context.Context, l *Line, missing error) (*Line, error) {
	var names []string
	for _, on := range s.Shelves {
		list, err := on.List(ctx, fmt.Sprintf("manifest/p%02d/", l.Partition))
		if err != nil {
			return nil, err
		}
		for _, file := range list {
			names = append(names, file.Name)
		}
	}
	slices.Sort(names)
	is := l
	for _, name := range slices.Compact(names) { // by their numbers
		if number, ok := numberOf(name); !ok || number <= is.Number {
			continue
		}
		next, err := s.lineAt(ctx, l.Partition, name)
		if errors.Is(err, shelves.ErrOther) {
			continue // a check says so
		}
		if err != nil {
			return nil, err
		}
		if next.Replaces == is.Number && next.Payments.Rows == is.Payments.Rows && next.Payments.First == is.Payments.First && next.Payments.Last == is.Payments.Last {
			is = next
		}
	}
	if is == l {
		return nil, cmp.Or(missing, fs.ErrNotExist)
	}
	return is, nil
}

// gone reports whether another line stands in for one, whose pack is on no shelf.
func (s *Store) gone(ctx context.Context, l *Line) (bool, error) {
	for _, on := range s.Shelves {
		list, err := on.List(ctx, packName(l.Partition, l.Payments.SHA256))
		if err != nil || len(list) > 0 {
			return false, err
		}
	}
	_, err := s.standIn(ctx, l, fs.ErrNotExist)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
