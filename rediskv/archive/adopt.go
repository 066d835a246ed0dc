package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelves"
	"tollgate/rediskv/payments"
)

// Adopted counts what was taken back into a manifest.
type Adopted struct {
	Lines    int64 `json:"lines"`
	Payments int64 `json:"payments"` // of their packs
	Removed  int64 `json:"removed"`  // from Redis, which had them as the packs do
	Kept     int64 `json:"kept"`     // Redis, or an earlier line, has another state of them, which stays
	Unlisted int64 `json:"unlisted"` // the lists of Redis do not have them: they are read by their identifiers alone
}

// Adopt takes back the lines on the shelves that follow the last one of Redis, which was
// put back from a copy of before. It changes no answer about a payment that Redis or its
// manifest has: of one that a line has in another state, the state in Redis stays, and one
// that an earlier line has is put back into Redis first. Each step can be repeated. Where a
// worker adds a line meanwhile, it ends.
func (s *Store) Adopt(ctx context.Context, partition int, found func(Finding)) (Adopted, error) {
	return s.adopt(ctx, &adopting{Store: s, partition: partition, found: found})
}

func (s *Store) adopt(ctx context.Context, a *adopting) (Adopted, error) {
	partition := a.partition
	m, err := s.manifest(ctx, partition, true)
	if err != nil {
		return a.count, err
	}
	b, err := s.follow(ctx, partition, m)
	if err != nil || len(b.lines) == 0 && m.done == m.last() {
		return a.count, err
	}
	now, err := s.db.Histories.Reread(ctx, partition)
	if err == nil && !now.Open {
		err = fmt.Errorf("partition %d takes no writes since data was lost; 'tollgate history accept' goes on", partition)
	}
	if err != nil {
		return a.count, err
	}
	ctx = history.Within(ctx, now.ID)
	for _, l := range b.lines {
		if m, err = a.settled(ctx); err != nil {
			return a.count, err
		}
		if m.last()+1 != l.Number || m.digest() != l.Previous {
			return a.count, fasterError(partition)
		}
		if a.had != nil && !a.had(l.HistoryID) {
			break
		}
		if goes, err := a.take(ctx, m, l); err != nil || !goes {
			return a.count, err
		}
	}
	_, err = a.settled(ctx)
	return a.count, err
}

// settled is the manifest, once Redis has none of its payments any more that are as the
// last line has them: another line says so of all before.
func (a *adopting) settled(ctx context.Context) (*manifest, error) {
	m, err := a.manifest(ctx, a.partition, true)
	if err != nil || m.done == m.last() {
		return m, err
	}
	moved, err := a.removeAgain(ctx, m.lines[m.done])
	if a.count.Removed += int64(moved); err != nil {
		return nil, err
	}
	if m, err = a.manifest(ctx, a.partition, true); err == nil && m.done < m.last() {
		err = fasterError(a.partition)
	}
	return m, err
}

// fasterError says that a worker has added a line in a partition, or begun a history,
// meanwhile.
type fasterError int

func (e fasterError) Error() string {
	return fmt.Sprintf("a worker added another line in partition %d meanwhile: stop every 'tollgate work', and run this again", int(e))
}

// catchUp is Adopt of a worker, before it makes a line of its own: of the lines that a worker
// put on the shelves before it died, or before Redis was put back from a copy. Lines of a
// history that this Redis has not had are for a person to judge: whoever has tried a copy of
// Redis elsewhere may have put them there.
func (s *Store) catchUp(ctx context.Context, partition int, m **manifest) (moved int, err error) {
	next := fmt.Sprintf("manifest/p%02d/%06d-", partition, (*m).last()+1)
	there := false
	for _, on := range s.Shelves {
		list, err := on.List(ctx, next)
		if err != nil {
			return 0, unavailable(err)
		}
		there = there || len(list) > 0
	}
	if !there {
		return 0, nil
	}
	b, err := s.follow(ctx, partition, *m)
	if err != nil {
		return 0, err
	}
	for _, name := range b.torn { // a line in its place would keep those from being taken back that follow it
		if strings.HasPrefix(name, next) {
			return 0, unavailable(fmt.Errorf("%s: %s", name, b.told[name]))
		}
	}
	told := ""
	a := &adopting{Store: s, partition: partition, found: func(f Finding) {
		if s.db.Log.Warn("archive", "partition", f.Partition, "line", f.Line, "file", f.File, "payment", f.Payment, "message", f.Message); !f.Note && !f.Healed {
			told = f.Message
		}
	}}
	if a.had, err = s.histories(ctx, partition); err != nil {
		return 0, err
	}
	n, err := s.adopt(ctx, a)
	if _, is := errors.AsType[fasterError](err); is {
		err = nil
	}
	if err == nil {
		*m, err = s.manifest(ctx, partition, true)
	}
	if err == nil && told != "" { // as above
		err = unavailable(errors.New(told))
	}
	if n.Lines > 0 {
		s.db.Log.Info("lines of the archive were taken back", "partition", partition, "lines", n.Lines, "payments", n.Payments, "removed", n.Removed, "kept", n.Kept, "unlisted", n.Unlisted)
	}
	return int(n.Removed), err
}

// adopting takes lines of a partition back.
type adopting struct {
	*Store
	partition int
	found     func(Finding)
	had       func(history string) bool // which histories' lines are taken back; nil: all
	count     Adopted
	spans     map[string]*ledger.Span // of the line that is compared: whose lists it has
	unlike    map[string]bool         // organizations of which Redis has another state
}

// take takes a line back that follows a manifest; false where it cannot be, which is told.
func (a *adopting) take(ctx context.Context, m *manifest, l *Line) (done bool, err error) {
	if whole, err := a.shelve(ctx, l); err != nil || !whole {
		return false, err
	}
	before := a.count
	a.spans, a.unlike = map[string]*ledger.Span{}, map[string]bool{}
	fence, _, err := a.fence(ctx, a.partition)
	if err != nil {
		return false, err
	}
	if l.Replaces == 0 { // else the line that it stands in for was compared
		err = a.compare(ctx, m, l)
	}
	if damaged, is := errors.AsType[*packs.DamagedError](err); is {
		a.found(Finding{Partition: a.partition, Line: l.Number, File: l.Name(), Message: "it cannot be taken back: " + damaged.Error()})
		return false, nil
	}
	if errors.Is(err, shelves.ErrOther) {
		a.found(Finding{Partition: a.partition, Line: l.Number, File: l.Name(), Message: "it cannot be taken back: " + shelves.Trimmed(err)})
		return false, nil
	}
	if err == nil {
		if n := a.count.Unlisted - before.Unlisted; n > 0 {
			a.found(Finding{Partition: a.partition, Line: l.Number, File: l.Name(), Note: true, Message: fmt.Sprintf(
				"%d of its payments are not in the lists of Redis: they were made after the copy was, and are read by their ids alone", n)})
		}
		a.step(a.partition, "compared")
		for org := range a.unlike {
			a.spans[org] = nil
		}
		if l.Lists == nil || l.Replaces != 0 { // of the lists it had, the line that it stands in for says so
			a.spans = nil
		}
		err = a.add(ctx, a.partition, l.Number, stored(rediskv.ArchiveKey(a.partition), l), nil, a.spans, adding{fence, l.Replaces != 0})
	}
	if errors.Is(err, rediskv.ErrConflict) || errors.Is(err, rediskv.ErrStale) {
		err = fasterError(a.partition)
	}
	if err != nil {
		return false, err
	}
	a.step(a.partition, "added to the manifest")
	a.count.Lines++
	a.count.Payments += l.Payments.Rows
	return true, nil
}

// shelve sees that each shelf has all files of a line, as a worker does before it adds it;
// false where none of them has one of these, which a check tells.
func (a *adopting) shelve(ctx context.Context, l *Line) (whole bool, err error) {
	whole = true
	k := &checking{a.Store, a.partition, true, func(f Finding) {
		if !f.Healed {
			whole = false
			return
		}
		f.Message = strings.Replace(f.Message, "the manifest names it", "line "+strconv.FormatInt(l.Number, 10)+" names it, which is taken back", 1)
		a.found(f)
	}, map[string]bool{}, a.gone}
	err = k.line(ctx, l)
	return whole, err
}

// compare looks at each payment of a line beside what Redis and the lines before have.
func (a *adopting) compare(ctx context.Context, m *manifest, l *Line) error {
	w := a.walk(l)
	defer w.close()
	frames, err := w.frames(ctx)
	if err != nil {
		return err
	}
	for n := range frames {
		f, err := w.frame(ctx, n)
		if err != nil {
			return err
		}
		some, err := rowsOf(f)
		if err != nil {
			return err
		}
		for _, one := range some {
			if a.db.Partition(one.org) != a.partition {
				return fmt.Errorf("%w: %s is of an organization of another partition", shelves.ErrOther, one.id)
			}
		}
		for few := range slices.Chunk(some, together) {
			if err := a.compareSome(ctx, m, l, few); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *adopting) compareSome(ctx context.Context, m *manifest, l *Line, some []rowOf) error {
	hot, err := a.readThose(ctx, a.partition, m.last(), some)
	if err != nil {
		return err
	}
	for i, one := range some {
		if err := a.extend(one); err != nil {
			return err
		}
		if len(hot[i].Payment) == 0 {
			err = a.compareCold(ctx, m, l, one)
		} else {
			a.compareHot(l, one, &hot[i].Records)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// extend has the span of an organization include a payment's transactions. The lists of a line
// are used where all of its payments are in Redis as it has them, or in lines before: places
// that Redis has given to others since it was put back would else have two.
func (a *adopting) extend(one rowOf) error {
	row, err := payments.ReadArchived(one.text)
	if err != nil {
		return err
	}
	x := &indexed{number: map[string]int32{}, spans: a.spans}
	x.add(a.db.Space(one.org), row)
	return nil
}

// compareHot names a payment of which Redis has another state.
func (a *adopting) compareHot(l *Line, one rowOf, is *ledger.Records) {
	has := "what Redis has of it is damaged, and stays"
	if there, err := payments.ArchivedOf(a.db.Space(one.org), one.id, is); err == nil {
		if text, err := there.Row(); err == nil && bytes.Equal(text, one.text) {
			return // it is removed behind the line
		}
		has = fmt.Sprintf("Redis has another state of it (revision %d), which stays", there.Revision)
	}
	a.kept(l, one, has)
}

func (a *adopting) kept(l *Line, one rowOf, has string) {
	a.count.Kept++
	a.unlike[one.org] = true
	message := has + "; the line has what came after the copy"
	if b, err := payments.ReadArchived(one.text); err == nil {
		message += " (revision " + strconv.FormatInt(b.Revision, 10) + ")"
	}
	a.found(Finding{Partition: l.Partition, Line: l.Number, File: l.Name(), Payment: one.id, Note: true, Message: message})
}

// compareCold puts a payment back into Redis of which an earlier line has another state, so
// that its state stays as the lists of Redis know it, and counts one that they do not have.
func (a *adopting) compareCold(ctx context.Context, m *manifest, l *Line, one rowOf) error {
	row, err := payments.ReadArchived(one.text)
	if err != nil {
		return err
	}
	k := a.db.Space(one.org)
	listed, err := a.listed(ctx, k, row)
	if err != nil {
		return err
	}
	was, err := a.newest(ctx, m, one.id)
	switch {
	case err != nil:
		return err
	case !listed && was == nil:
		a.count.Unlisted++
		fallthrough
	case !listed:
		a.unlike[one.org] = true
		return nil
	case was == nil || bytes.Equal(was, one.text):
		return nil
	}
	if err := a.Return(ctx, k, one.id, rediskv.ErrConflict); err != nil {
		return err
	}
	a.step(a.partition, "put back")
	before, err := payments.ReadArchived(was)
	if err != nil {
		return err
	}
	a.kept(l, one, fmt.Sprintf("an earlier line has another state of it (revision %d), which stays, in Redis", before.Revision))
	return nil
}

// listed reports whether the list of an organization's transactions has a payment, at the
// place where it was put.
func (s *Store) listed(ctx context.Context, k rediskv.Space, row *payments.Archived) (is bool, err error) {
	if len(row.Transactions) == 0 {
		return false, nil
	}
	first := row.Transactions[0] // the authorization
	one := func(m ledger.Indexed) bool { return m.ID == first.Transaction.ID }
	here, err := ledger.InRedis(ctx, s.db, k, tollgate.PaymentStatuses, false, first.Position, first.Position, 2)
	if err != nil || slices.ContainsFunc(here, one) {
		return err == nil, err
	}
	var spans *redis.MapStringStringCmd
	if err := s.db.Timed(ctx, "archive_listed", func(ctx context.Context) error {
		spans = s.db.Redis.HGetAll(ctx, ledger.ArchivedKey(k))
		return spans.Err()
	}); err != nil {
		return false, err
	}
	found, err := s.Lists(ctx, k, ledger.SpansIn(spans.Val()), ledger.Listing{Lists: []string{k.Transactions()}, Between: [][2]int64{{first.Position, first.Position}}})
	return slices.ContainsFunc(found, one), err
}

// newest is the row of a payment in the last line that has it; nil: none has.
func (s *Store) newest(ctx context.Context, m *manifest, id string) ([]byte, error) {
	for l := range m.mayHave(id) {
		if row, err := s.rowIn(ctx, l, id); row != nil || err != nil {
			return row, err
		}
	}
	return nil, nil
}
