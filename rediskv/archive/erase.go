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

// fence is what is there, empty for nothing.
func (s *Store) fence(ctx context.Context, partition int) (text string, err error) {
	err = s.db.Timed(ctx, "archive_fence", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, FenceKey(partition)).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return text, err
}

// Erase writes each pack anew that has one of some payments of an organization, by when they
// are erased. A new line stands in for the one that named it; then the pack is removed from all
// shelves. It is done within the history of ctx, and can be run again.
func (s *Store) Erase(ctx context.Context, k rediskv.Space, at map[string]tollgate.Instant) error {
	_, err := rediskv.Retried(func() (bool, error) {
		for {
			if again, err := s.eraseNext(ctx, k, at); err != nil || !again {
				return true, err
			}
		}
	})
	return err
}

// eraseNext is Erase of one pack; false where none is left.
func (s *Store) eraseNext(ctx context.Context, k rediskv.Space, at map[string]tollgate.Instant) (again bool, err error) {
	fence, err := s.fence(ctx, k.Partition)
	if err != nil {
		return false, err
	}
	m, err := s.manifest(ctx, k.Partition, true)
	if err != nil {
		return false, err
	}
	if m.done < m.last() { // another line would say that Redis has none of its payments
		_, err := s.removeAgain(ctx, m.lines[m.done])
		return true, err
	}
	last := m.last()
	if _, err := s.catchUp(ctx, k.Partition, &m); err != nil || m.last() != last { // lines of a run that died
		return err == nil, err
	}
	if err := s.clean(ctx, m); err != nil {
		return false, err
	}
	for _, l := range m.force {
		has, err := s.hasWhole(ctx, l, at)
		if err != nil {
			return false, unavailable(err)
		}
		if has {
			return true, s.replace(ctx, m, l, k.Org, at, fence)
		}
	}
	return false, nil
}

// hasWhole reports whether a line's pack has one of some payments that is not erased in it.
func (s *Store) hasWhole(ctx context.Context, l *Line, at map[string]tollgate.Instant) (bool, error) {
	for id := range at {
		if id < l.Payments.First || id > l.Payments.Last {
			continue
		}
		row, err := s.rowIn(ctx, l, id)
		if err != nil {
			return false, err
		}
		if row == nil {
			continue
		}
		a, err := payments.ReadArchived(row)
		if err != nil || a.Ticket.ErasedAt == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// replace puts a pack in the place of a line's in which payments are erased.
func (s *Store) replace(ctx context.Context, m *manifest, l *Line, org string, at map[string]tollgate.Instant, fence string) error {
	p := &sealing{partition: l.Partition, log: s.db.Log}
	defer p.discard()
	file, err := os.CreateTemp(s.Scratch, "tollgate-pack-*")
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	p.files[0] = file
	_ = os.Remove(file.Name()) // where that can be done: it goes with this process, however that ends
	if err := s.eraseRows(ctx, p, l, org, at); err != nil {
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

// eraseRows writes the rows of a line's pack to another one.
func (s *Store) eraseRows(ctx context.Context, p *sealing, l *Line, org string, at map[string]tollgate.Instant) error {
	to := packs.NewWriter(p.files[0], kindPayments, l.Partition)
	w := s.walk(l)
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
			if since, is := at[id]; is {
				if row, err = erasedRow(row, org, since); err != nil {
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
		for _, on := range s.Shelves {
			there, err := on.List(ctx, name)
			if err != nil {
				return unavailable(err)
			}
			if len(there) == 0 {
				continue
			}
			if err := on.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return unavailable(err)
			}
			s.step(l.Partition, "removed "+name)
		}
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
