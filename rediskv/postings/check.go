package postings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Posting is what should be in a list: an event, one of its values, and the type of a
// transaction that has it, made at a moment.
type Posting struct {
	Number int64
	Value
	Type Types // one
	At   tollgate.Instant
}

type (
	findPostingsKeys struct{ Postings string }
	findPostingsArgs struct{ State string }
)

var scriptFindPostings = script.NewRead[findPostingsKeys, findPostingsArgs](lua, "find_postings")

// Has says of each of some postings whether a search finds it. Where the lists have
// changed since the State was read, nothing is said: there is no answer. What is of events
// that follow each other is read at once.
func (s *Store) Has(ctx context.Context, k rediskv.Space, st State, wanted []Posting) (has []bool, err error) {
	inv := scriptFindPostings.With(findPostingsKeys{StateKey(k)}, findPostingsArgs{st.text})
	named := len(inv.Keys)
	parts := make([]int, len(wanted)) // the number of the list that each is read with
	order := make([]int, len(wanted))
	lists := make([]string, len(wanted))
	cold, err := s.hasCold(ctx, k, st, wanted)
	if err != nil {
		return nil, err
	}
	for i, p := range wanted {
		order[i], lists[i] = i, p.list(k, classOf(p.Number))
	}
	order = slices.DeleteFunc(order, func(i int) bool { return wanted[i].Number <= st.Cold })
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(lists[a], lists[b]), cmp.Compare(wanted[a].Number, wanted[b].Number))
	})
	var first int64
	for _, i := range order {
		n, number := len(inv.Keys)-named, wanted[i].Number
		if n > 0 && inv.Keys[named+n-1] == lists[i] && number < first+spanEvents {
			n, inv.Args[len(inv.Args)-1] = n-1, number
		} else {
			first, inv.Keys, inv.Args = number, append(inv.Keys, lists[i]), append(inv.Args, number, number)
		}
		parts[i] = n
	}
	_, rest, err := s.db.Run(ctx, inv)
	if errors.Is(err, rediskv.ErrConflict) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	type times struct{ first, last tollgate.Instant }
	spans := map[int64]times{st.Upto / spanEvents: {tollgate.Instant(st.First), tollgate.Instant(st.Last)}}
	for i, p := range wanted {
		at := p.Number / spanEvents
		made, known := spans[at]
		if !known {
			if made.first, made.last, err = s.span(ctx, k, at); err != nil {
				return nil, err
			}
			spans[at] = made
		}
		there := cold[i]
		if p.Number > st.Cold {
			part, _ := rest[parts[i]].(string)
			p.each(part, func(q posting) { there = there || q.number == p.Number && q.types&p.Type != 0 })
		}
		has = append(has, there && made.first <= p.At && p.At <= made.last)
	}
	return has, nil
}

// span is between which moments the transactions of one complete span were made.
func (s *Store) span(ctx context.Context, k rediskv.Space, at int64) (first, last tollgate.Instant, err error) {
	err = s.db.Timed(ctx, "posting_times", func(ctx context.Context) error {
		text, err := s.db.Redis.GetRange(ctx, timesKey(k), at*spanSize, at*spanSize+spanSize-1).Bytes()
		if err == nil && len(text) == spanSize {
			first, last = spanIn(text)
		}
		return err
	})
	return first, last, err
}

// Remake has all lists made again, if the State still is as it was read.
func (st *State) Remake(c *rediskv.Commit) {
	key := StateKey(c.Space)
	c.Still(st.text, "GET", key)
	c.Do("SET", key, record.EnvelopedJSON(key, fmt.Sprintf(`{"form":%d,"stale":true}`, form)))
}
