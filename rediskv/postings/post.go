package postings

import (
	"context"
	"maps"
	"slices"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Transactions are those of one event, by what they are found by.
type Transactions struct {
	Number      int64
	First, Last tollgate.Instant // when they were made
	Values      map[Value]Types
}

// Add adds a transaction that was made at a moment and has some values.
func (t *Transactions) Add(at tollgate.Instant, of Types, values ...Value) {
	if t.First == 0 || at < t.First {
		t.First = at
	}
	t.Last = max(t.Last, at)
	if t.Values == nil {
		t.Values = map[Value]Types{}
	}
	for _, v := range values {
		t.Values[v] |= of
	}
}

type (
	postKeys struct{ Postings, Times string }
	postArgs struct {
		Before, After string
		SpansAt       int64
		Spans         string
	}
)

var scriptPost = script.New[postKeys, postArgs](lua, "post")

// Post adds the transactions of events behind State.Upto, in their order, up to an event,
// and returns the state after that. It is done within the history of ctx
// (history.Within); rediskv.ErrConflict: another worker was faster.
func (s *Store) Post(ctx context.Context, k rediskv.Space, st State, events []Transactions, upto int64) (State, error) {
	at := st.Upto / spanEvents
	next, spans := st.through(events, upto)
	text, err := record.Enveloped(StateKey(k), next)
	if err != nil {
		return st, err
	}
	next.text = string(text)
	inv := scriptPost.With(postKeys{StateKey(k), timesKey(k)}, postArgs{st.text, next.text, at * spanSize, string(spans)})
	lists := map[string][]byte{}
	for _, e := range events {
		for v, types := range e.Values {
			list := v.list(k, classOf(e.Number))
			lists[list] = posting{e.Number, types}.append(lists[list], v)
		}
	}
	for _, list := range slices.Sorted(maps.Keys(lists)) {
		inv.Keys, inv.Args = append(inv.Keys, list), append(inv.Args, lists[list])
	}
	_, _, err = s.db.Run(ctx, inv)
	return next, err
}

// through is the state behind events, and the times of the spans that they are in.
func (st State) through(events []Transactions, upto int64) (next State, spans []byte) {
	first, last := tollgate.Instant(st.First), tollgate.Instant(st.Last)
	span := st.Upto / spanEvents
	end := func(until int64) {
		for ; span < until; span++ {
			spans = appendSpan(spans, first, last)
			first, last = 0, 0
		}
	}
	for _, e := range events {
		end(e.Number / spanEvents)
		if first == 0 || e.First < first {
			first = e.First
		}
		last = max(last, e.Last)
	}
	end(upto / spanEvents)
	next = st
	next.Form, next.Upto, next.First, next.Last, next.text = max(st.Form, form), upto, int64(first), int64(last), ""
	return next, appendSpan(spans, first, last)
}

// clearTogether is how many lists are removed at once.
const clearTogether = 500

type (
	clearPostingsKeys struct{ Postings, Packed string }
	clearPostingsArgs struct {
		Before string
		Last   int
	}
)

var scriptClearPostings = script.New[clearPostingsKeys, clearPostingsArgs](lua, "clear_postings")

// Clear removes the lists that an organization may have up to an event, what is said of
// packs that have some, and then the state. rediskv.ErrConflict: another worker was faster, and may have made new ones.
func (s *Store) Clear(ctx context.Context, k rediskv.Space, st State, upto int64) error {
	keys := []string{timesKey(k)}
	for class := range classOf(upto) + 1 {
		for list := range listsIn(class) {
			keys = append(keys, listKey(k, class, list))
		}
	}
	for some := range slices.Chunk(keys, clearTogether) {
		if err := s.clear(ctx, k, st, some, 0); err != nil {
			return err
		}
	}
	return s.clear(ctx, k, st, nil, 1)
}

func (s *Store) clear(ctx context.Context, k rediskv.Space, st State, keys []string, last int) error {
	inv := scriptClearPostings.With(clearPostingsKeys{StateKey(k), PackedKey(k)}, clearPostingsArgs{st.text, last})
	inv.Keys = append(inv.Keys, keys...)
	_, _, err := s.db.Run(ctx, inv)
	return err
}
