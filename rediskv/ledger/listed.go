package ledger

import (
	"context"
	"errors"
	"slices"
	"sort"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/script"
)

const (
	// A search reads some postings for each row at first, a few kilobytes, and then more
	// and more.
	postingsPerRow, mostPostings = 16, 1 << 15
	mostMembers                  = 4000 // of an index that it reads beside
	// mostEvents is how many events it looks up in one round trip.
	mostEvents = 256
	// Where fewer than one in so many of the events that were looked up was right, all
	// lists are compared before another one is.
	hopeful = 4
)

// listed finds transactions by the postings of several values, and by an index that
// holds but some of the transactions, such as those of a status. All of these are in one
// order. What one of them says of a part that the others have not been read for is looked
// up, as long as that is right often enough; else nothing is looked up that is not in all.
type listed struct {
	s           *Store
	c           rediskv.Caller
	k           rediskv.Space
	q           TransactionQuery
	values      []postings.Value // that it looks for, and then those that are in every list
	upto        int64
	first, last int64 // events between which to look
	everywhere  int   // how many of the values are in every list
	types       postings.Types
	narrow      bool // q has an index of its own

	bound   int64    // the event behind which it goes on
	most    int64    // postings to read of each list in the next round
	page    int      // members to read of its index
	strict  bool     // nothing is looked up that is not in all lists
	looked  int      // at events, in all rounds
	right   int      // transactions of these that were looked for
	round   int      // events of the last round
	instead *scanned // since the lists were thrown away
}

func newListed(s *Store, c rediskv.Caller, k rediskv.Space, q TransactionQuery, values []postings.Value, upto, first, last int64) *listed {
	everywhere := []postings.Value{{Field: postings.Unreadable}}
	if q.Reference != "" {
		everywhere = append(everywhere, postings.Value{Field: postings.Open})
	}
	f := &listed{s: s, c: c, k: k, q: q, values: append(values, everywhere...), everywhere: len(everywhere), upto: upto, first: first, last: last, most: int64(postingsPerRow * q.PageSize), page: q.PageSize, types: postings.AllTypes}
	if len(q.Types) > 0 {
		f.types = typesOf(q.Types)
	}
	if len(q.Statuses) == len(tollgate.PaymentStatuses) { // each authorization has one of them
		f.q.Statuses = nil
	}
	f.narrow = len(f.q.Statuses) > 0 || q.PayoutID != "" || len(q.Accounts) > 0 && len(q.Accounts) <= rediskv.MostIndexes
	if f.bound = first - 1; q.Descending {
		f.bound = last + 1
	}
	if at := q.After / 16; q.After != 0 && q.Descending {
		f.bound = min(f.bound, at+1)
	} else if q.After != 0 {
		f.bound = max(f.bound, at-1)
	}
	return f
}

func (f *listed) bounded() bool { return f.instead != nil }

func (f *listed) told(matches int) {
	f.looked, f.right = f.looked+f.round, f.right+matches
	f.strict = f.strict || f.right*hopeful < f.looked
}

// window is what comes next of one list or index, in its order.
type window struct {
	events  []int64
	reach   int64 // up to this event it is complete
	members map[int64][]Indexed
}

// before reports whether an event comes before another.
func (f *listed) before(a, b int64) bool { return a != b && (a > b) == f.q.Descending }

func (f *listed) next(ctx context.Context) (members []Indexed, end bool, err error) {
	if f.instead != nil {
		return f.instead.next(ctx)
	}
	var lists []window
	err = f.c.InTurn(ctx, func() (err error) {
		lists, err = f.read(ctx)
		return err
	})
	if errors.Is(err, postings.ErrRemade) {
		f.instead = f.scanInstead()
		return f.instead.next(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	everywhere := f.union(lists[len(lists)-f.everywhere:])
	lists = lists[:len(lists)-f.everywhere]
	var index *window
	if f.narrow {
		w, err := f.readIndex(ctx)
		if err != nil {
			return nil, false, err
		}
		index, lists = &w, append(lists, w)
	}
	events, reach := f.candidates(lists, everywhere, index)
	if len(events) > f.batch() {
		events = events[:f.batch()]
		reach = events[len(events)-1]
	}
	members, err = f.membersOf(ctx, events, index)
	f.bound, f.round = reach, len(events)
	f.most, f.page = min(2*f.most, mostPostings), min(2*f.page, mostMembers)
	return members, f.beyond(reach), err
}

// batch is how many events are looked up at once.
func (f *listed) batch() int {
	if f.strict {
		return mostEvents
	}
	return min(2*(f.q.Limit+1), mostEvents)
}

// beyond reports whether nothing behind an event is looked for.
func (f *listed) beyond(event int64) bool {
	if f.q.Descending {
		return event <= f.first
	}
	return event >= f.last
}

// scanInstead looks through what is left when the lists have been thrown away.
func (f *listed) scanInstead() *scanned {
	at := f.bound * 16
	if !f.q.Descending {
		at += 15
	}
	return &scanned{f.s, f.c, f.k, f.q, at, bounds{low: f.first * 16, high: f.last*16 + 15}}
}

// read reads the next postings of all values.
func (f *listed) read(ctx context.Context) (lists []window, err error) {
	found, err := f.s.postings.Read(ctx, f.c, f.k, f.values, f.q.Descending, f.bound, f.upto, f.most)
	for _, one := range found {
		w := window{reach: one.Reach}
		for _, e := range one.Events {
			if e.Types&f.types != 0 && e.Number >= f.first && e.Number <= f.last {
				w.events = append(w.events, e.Number)
			}
		}
		lists = append(lists, w)
	}
	return lists, err
}

// readIndex reads the next members of q's own index.
func (f *listed) readIndex(ctx context.Context) (w window, err error) {
	part := f.scanInstead()
	part.q.PageSize = f.page
	members, end, err := part.next(ctx)
	w.members = map[int64][]Indexed{}
	for _, m := range members {
		n := m.Position / 16
		if w.reach = n; len(w.members[n]) == 0 {
			w.events = append(w.events, n)
		}
		w.members[n] = append(w.members[n], m)
	}
	switch {
	case end && f.q.Descending:
		w.reach = 0
	case end:
		w.reach = f.upto
	case len(w.events) > 0: // the last event may have more
		w.events = w.events[:len(w.events)-1]
		if w.reach--; f.q.Descending {
			w.reach += 2
		}
	}
	return w, err
}

// union has what is in any of some windows.
func (f *listed) union(windows []window) window {
	all := windows[0]
	for _, w := range windows[1:] {
		all.events = append(all.events, w.events...)
		if f.before(w.reach, all.reach) {
			all.reach = w.reach
		}
	}
	return all
}

// candidates are the events to look up next, in order, and up to where these are all.
func (f *listed) candidates(lists []window, everywhere window, index *window) (events []int64, reach int64) {
	widest, narrowest := lists[0], everywhere.reach
	for _, w := range lists {
		if f.before(widest.reach, w.reach) {
			widest = w
		}
		if f.strict && f.before(w.reach, narrowest) {
			narrowest = w.reach
		}
	}
	if reach = widest.reach; f.before(narrowest, reach) {
		reach = narrowest
	}
	set := map[int64]bool{}
	for _, n := range widest.events {
		if !f.before(reach, n) {
			set[n] = true
		}
	}
	for _, w := range lists {
		f.strike(set, w)
	}
	for _, n := range everywhere.events {
		if !f.before(reach, n) {
			set[n] = true
		}
	}
	if index != nil {
		f.strike(set, *index)
	}
	for n := range set {
		events = append(events, n)
	}
	sort.Slice(events, func(i, j int) bool { return f.before(events[i], events[j]) })
	return events, reach
}

// strike takes out of a set what a list would have, and has not.
func (f *listed) strike(set map[int64]bool, w window) {
	has := make(map[int64]bool, len(w.events))
	for _, n := range w.events {
		has[n] = true
	}
	for n := range set {
		if !has[n] && !f.before(w.reach, n) {
			delete(set, n)
		}
	}
}

// membersOf are the members of q's indexes that events have, in order, behind the place
// where the search goes on.
func (f *listed) membersOf(ctx context.Context, events []int64, index *window) (members []Indexed, err error) {
	var unknown []int64
	for _, n := range events {
		if index != nil && !f.before(index.reach, n) {
			members = append(members, index.members[n]...)
		} else {
			unknown = append(unknown, n)
		}
	}
	if len(unknown) > 0 {
		var more []Indexed
		err := f.c.InTurn(ctx, func() (err error) {
			more, err = f.s.membersOfEvents(ctx, f.c, f.k, f.q, unknown)
			return err
		})
		if err != nil {
			return nil, err
		}
		members = append(members, more...)
	}
	members = slices.DeleteFunc(members, func(m Indexed) bool {
		passed := f.q.After != 0 && (m.Position == f.q.After || f.q.Descending == (m.Position > f.q.After))
		return passed || f.q.authorizations() && m.Position%16 != 0
	})
	return f.q.ordered(members), nil
}

// authorizations reports whether nothing else is looked for: each is the first
// transaction of its event.
func (q *TransactionQuery) authorizations() bool {
	return len(q.Types) == 1 && q.Types[0] == tollgate.TransactionAuthorization
}

type (
	membersOfEventsKeys struct {
		rediskv.GrantKeys
		Archived string
	}
	membersOfEventsArgs struct {
		rediskv.GrantArgs
		Most int
	}
)

var scriptMembersOfEvents = script.NewRead[membersOfEventsKeys, membersOfEventsArgs](lua, "members_of_events")

// membersOfEvents are the members of a query's indexes that events have.
func (s *Store) membersOfEvents(ctx context.Context, c rediskv.Caller, k rediskv.Space, q TransactionQuery, events []int64) (members []Indexed, err error) {
	indexes, err := s.indexes(ctx, k, q)
	if err != nil {
		return nil, err
	}
	grant, granted := c.Grant(k)
	args := membersOfEventsArgs{GrantArgs: granted, Most: 15}
	if q.authorizations() {
		args.Most = 0
	}
	inv := scriptMembersOfEvents.With(membersOfEventsKeys{grant, ArchivedKey(k)}, args)
	inv.Keys = append(inv.Keys, indexes...)
	l := Listing{Lists: archivedAs(k, indexes), Descending: q.Descending}
	for _, n := range events {
		inv.Args = append(inv.Args, n)
		l.Between = append(l.Between, [2]int64{n * 16, n*16 + int64(args.Most)})
	}
	_, rest, err := s.db.Run(ctx, inv)
	if err != nil {
		return nil, err
	}
	sort.Slice(l.Between, func(i, j int) bool { return l.Between[i][0] < l.Between[j][0] })
	fields, _ := rest[0].(int64)
	return s.Beyond(ctx, k, fields, membersIn(rest[1:]), l)
}
