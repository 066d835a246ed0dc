package postings

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Archive has postings in packs, of the events up to one.
type Archive interface {
	// PackPostings puts those that are due of organizations of a partition into packs, behind
	// what these have of them.
	PackPostings(ctx context.Context, partition int, due []Due) error
	// PackedUntil is the last event whose postings packs have; 0: they have none.
	PackedUntil(ctx context.Context, k rediskv.Space) (int64, error)
	// Postings are what Read returns, of what packs have.
	Postings(ctx context.Context, k rediskv.Space, values []Value, descending bool, bound, upto, most int64) ([]Found, error)
	// HasPostings says of each of some postings whether packs have it.
	HasPostings(ctx context.Context, k rediskv.Space, wanted []Posting) ([]bool, error)
}

// UseArchive says where postings are read that Redis has no more.
func (s *Store) UseArchive(a Archive) { s.archive = a }

// LogPostings is what packs of postings are called.
const LogPostings = "postings"

// PackedKey, a string, is what packs have of an organization's postings.
func PackedKey(k rediskv.Space) string { return k.Object("archive:" + LogPostings) }

// Due says of an organization that its postings up to an event are to leave Redis.
type Due struct {
	Space       rediskv.Space
	Upto        int64
	First, Last tollgate.Instant // about when what is due was made

	s       *Store
	settled int64
}

// mostDue bounds how many events go into one pack.
const mostDue = 2048 * spanEvents

// DueOf is what is due of an organization: postings of events that were made before a moment,
// in whole spans. Nothing is due: Upto is 0.
func (s *Store) DueOf(ctx context.Context, k rediskv.Space, st State, before tollgate.Instant) (d Due, err error) {
	d = Due{Space: k, s: s, settled: st.Settled}
	from := (st.Cold + 1) / spanEvents
	if st.Upto/spanEvents == from {
		return d, nil
	}
	var text []byte
	if err := s.db.Timed(ctx, "posting_times", func(ctx context.Context) error {
		text, err = s.db.Redis.GetRange(ctx, timesKey(k), from*spanSize, (from+mostDue/spanEvents)*spanSize-1).Bytes()
		return err
	}); err != nil {
		return d, err
	}
	for n := int64(0); (n+1)*spanSize <= int64(len(text)) && from+n <= st.Upto/spanEvents; n++ {
		first, _ := spanIn(text[n*spanSize:])
		if first >= before {
			break
		}
		// What is before the first of a span is older.
		d.Upto = max(0, (from+n)*spanEvents-1)
		if d.First == 0 {
			d.First = first
		}
		d.Last = max(d.Last, first)
	}
	if d.Upto <= st.Cold || d.First == 0 { // nothing has been posted
		d.Upto = 0
	}
	return d, nil
}

type (
	readListsKeys struct{ Postings string }
	readListsArgs struct{ After, Upto int64 }
)

var scriptReadLists = script.NewRead[readListsKeys, readListsArgs](lua, "read_lists")

// coolTogether is how many lists are read or changed by one script, which others wait for.
const coolTogether = 100

// Classes are those that the events behind one are in, up to what is due.
func (d *Due) Classes(after int64) (first, last int) { return classOf(after + 1), classOf(d.Upto) }

// Lists reads lists of a class from one on, as many as fit: of each the postings of the events
// behind one that are due. rediskv.ErrConflict: they are not as they were (Still).
func (d *Due) Lists(ctx context.Context, class int, from, after int64) (parts []string, err error) {
	inv := scriptReadLists.With(readListsKeys{StateKey(d.Space)}, readListsArgs{after, d.Upto})
	for list := from; list < min(from+coolTogether, listsIn(class)); list++ {
		inv.Keys = append(inv.Keys, listKey(d.Space, class, list))
	}
	if len(inv.Keys) == 1 {
		return nil, nil
	}
	_, rest, err := d.s.db.Run(ctx, inv)
	if err != nil {
		return nil, err
	}
	for _, one := range rest {
		text, _ := one.(string)
		parts = append(parts, text)
	}
	if !d.still(StateOf(d.Space, parts[0])) {
		return nil, rediskv.ErrConflict
	}
	return parts[1:], nil
}

// Still reports whether nothing was put between what is due, or taken out of it, since it was
// looked for, and the lists were not made again. If not, it may not have been read as it was at
// any moment.
func (d *Due) Still(ctx context.Context) (bool, error) {
	st, err := d.s.State(ctx, d.Space)
	return d.still(st), err
}

func (d *Due) still(st State) bool { return st.Usable() && st.Settled == d.settled }

// month is for how long postings that are due wait for others.
const month = 30 * 24 * time.Hour

// Cool puts the postings of events of before a moment into packs, of a partition's
// organizations: once some of them have waited for a month, or are as many as a pack can
// have. Then it removes from Redis what packs have.
func (s *Store) Cool(ctx context.Context, partition int, spaces []rediskv.Space, states []State, before tollgate.Instant) error {
	if s.archive == nil {
		return nil
	}
	var due []Due
	var failed error
	enough := false
	for i, k := range spaces {
		st := states[i]
		if !st.Usable() || st.Upto < spanEvents {
			continue
		}
		st, err := s.cooled(ctx, k, st)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("the postings of %s: %w", k.Org, err))
			continue
		}
		d, err := s.DueOf(ctx, k, st, before)
		if err != nil {
			return err
		}
		if d.Upto > 0 {
			due = append(due, d)
			enough = enough || d.First < before.Add(-month) || d.Upto-st.Cold >= mostDue
		}
	}
	if !enough {
		return failed
	}
	if err := s.archive.PackPostings(ctx, partition, due); err != nil {
		return errors.Join(failed, err)
	}
	for _, d := range due {
		st, err := s.State(ctx, d.Space)
		if err == nil && st.Usable() {
			_, err = s.cooled(ctx, d.Space, st)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("the postings of %s: %w", d.Space.Org, err))
		}
	}
	return failed
}

// cooled has what packs have read there, and removes it from Redis. It goes on where a worker
// has died.
func (s *Store) cooled(ctx context.Context, k rediskv.Space, st State) (State, error) {
	until, err := s.archive.PackedUntil(ctx, k)
	if err == nil && until > st.Cold {
		st, err = s.change(ctx, k, st, func(next *State) bool {
			next.Cold = until
			return until <= next.Upto
		})
	}
	if err != nil || st.Cold == st.Dropped {
		return st, err
	}
	for class := classOf(st.Dropped + 1); class <= classOf(st.Cold); class++ {
		for list := int64(0); list < listsIn(class); list += coolTogether {
			if err := s.drop(ctx, k, class, list, st.Cold); err != nil {
				return st, err
			}
		}
	}
	cold := st.Cold
	return s.change(ctx, k, st, func(next *State) bool {
		next.Dropped = cold
		return next.Cold >= cold
	})
}

// tries is how often a State is changed that others change, too.
const tries = 8

// change changes the State that is there now, if it may still be changed.
func (s *Store) change(ctx context.Context, k rediskv.Space, st State, to func(next *State) bool) (State, error) {
	for try := 0; ; try++ {
		next := st
		if !st.Usable() || !to(&next) {
			return st, rediskv.ErrConflict
		}
		next.Form = formCold
		text, err := record.Enveloped(StateKey(k), next)
		if err != nil {
			return st, err
		}
		next.text = string(text)
		_, _, err = s.db.Run(ctx, scriptSettle.With(settleKeys{StateKey(k)}, settleArgs{st.text, next.text}))
		if err == nil || !errors.Is(err, rediskv.ErrConflict) || try == tries {
			return next, err
		}
		if st, err = s.State(ctx, k); err != nil {
			return st, err
		}
	}
}

type (
	dropPostingsKeys struct{ Postings string }
	dropPostingsArgs struct{ Upto int64 }
)

var scriptDropPostings = script.New[dropPostingsKeys, dropPostingsArgs](lua, "drop_postings")

func (s *Store) drop(ctx context.Context, k rediskv.Space, class int, from, upto int64) error {
	inv := scriptDropPostings.With(dropPostingsKeys{StateKey(k)}, dropPostingsArgs{upto})
	for list := from; list < min(from+coolTogether, listsIn(class)); list++ {
		inv.Keys = append(inv.Keys, listKey(k, class, list))
	}
	_, _, err := s.db.Run(ctx, inv)
	return err
}

// away is the error of who has to read postings in an archive that is not known here.
func away() error {
	return &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "This search goes on in the archive, which this instance does not know."}
}

// readCold is Read of what is in the archive.
func (s *Store) readCold(ctx context.Context, k rediskv.Space, st State, values []Value, descending bool, bound, upto, most int64) ([]Found, error) {
	if s.archive == nil {
		return nil, away()
	}
	until, err := s.archive.PackedUntil(ctx, k)
	if err != nil {
		return nil, err
	}
	if until < st.Cold {
		return nil, ErrRemade // since the State was read
	}
	return s.archive.Postings(ctx, k, values, descending, bound, upto, most)
}

// hasCold is Has of what is in the archive; false for all else.
func (s *Store) hasCold(ctx context.Context, k rediskv.Space, st State, wanted []Posting) ([]bool, error) {
	has := make([]bool, len(wanted))
	var cold []Posting
	var at []int
	for i, p := range wanted {
		if p.Number <= st.Cold {
			cold, at = append(cold, p), append(at, i)
		}
	}
	if len(cold) == 0 {
		return has, nil
	}
	if s.archive == nil {
		return nil, away()
	}
	found, err := s.archive.HasPostings(ctx, k, cold)
	for i, there := range found {
		has[at[i]] = there
	}
	return has, err
}

// A List is one of those that postings are in, by its class and its number in that. A pack has
// the same ones.
type List struct {
	Class  int
	Number int64
}

// Listed is a posting as a list has it: an event, the tag of a value, and types.
type Listed struct {
	Event
	Tag uint16
}

// ListedIn are the postings in a part of a list.
func ListedIn(part string) (all []Listed) {
	for ; len(part) >= postingSize; part = part[postingSize:] {
		all = append(all, Listed{Event{numberAt(part), Types(part[postingSize-1])}, uint16(part[numberSize])<<8 | uint16(part[numberSize+1])})
	}
	return all
}

// Lists are those where the postings of a value are, of the events from one to another, and its
// tag there.
func (v Value) Lists(first, last int64) (lists []List, tag uint16) {
	for class := classOf(first); class <= classOf(last); class++ {
		lists = append(lists, List{class, int64(v.hash() % uint64(listsIn(class)))})
	}
	return lists, v.tag()
}
