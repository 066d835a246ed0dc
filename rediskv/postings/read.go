package postings

import (
	"context"
	"errors"
	"slices"

	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

// Found are the events of a value that come next behind an event, in the order that was
// asked for.
type Found struct {
	Events []Event
	// Reach is the last event that was looked at: up to it, nothing is missing.
	Reach int64
	All   bool // there are no more
}

// Event is one that made transactions with a value.
type Event struct {
	Number int64
	Types  Types // of those
}

type (
	readPostingsKeys struct {
		rediskv.GrantKeys
		Postings string
	}
	readPostingsArgs struct {
		rediskv.GrantArgs
		Descending  int
		Bound, Most int64
	}
)

var scriptReadPostings = script.NewRead[readPostingsKeys, readPostingsArgs](lua, "read_postings")

// ErrRemade says that the lists have been thrown away since their State was read.
var ErrRemade = errors.New("postings are made again")

// Read returns for each value what comes behind the event bound, downwards if descending,
// of the events up to upto. It looks at no more than most postings of the lists that a
// value is in. What is in the archive and what is in Redis are never read in one go.
func (s *Store) Read(ctx context.Context, c rediskv.Caller, k rediskv.Space, values []Value, descending bool, bound, upto, most int64) ([]Found, error) {
	grant, granted := c.Grant(k)
	args := readPostingsArgs{GrantArgs: granted, Bound: bound, Most: most}
	if descending {
		args.Descending = 1
	}
	inv := scriptReadPostings.With(readPostingsKeys{grant, StateKey(k)}, args)
	classes := classesFrom(descending, bound, upto)
	for _, v := range values {
		for _, class := range classes {
			inv.Keys = append(inv.Keys, v.list(k, class))
		}
		inv.Args = append(inv.Args, len(classes))
	}
	_, rest, err := s.db.Run(ctx, inv)
	if err != nil {
		return nil, err
	}
	text, _ := rest[0].(string)
	st := StateOf(k, text)
	if !st.Usable() || st.Upto < upto {
		return nil, ErrRemade
	}
	if st.Cold > 0 && (descending && bound <= st.Cold+1 || !descending && bound < st.Cold) {
		return s.readCold(ctx, k, st, values, descending, bound, min(upto, st.Cold), most)
	}
	found := make([]Found, len(values))
	for i, reply := range rest[1:] {
		parts, _ := reply.([]any)
		found[i] = foundIn(values[i], parts, descending, bound, upto)
		found[i].above(st.Cold, descending)
	}
	return found, nil
}

// above leaves out what is in the archive, which is read next.
func (f *Found) above(cold int64, descending bool) {
	if cold == 0 || !descending {
		return
	}
	f.Events = slices.DeleteFunc(f.Events, func(e Event) bool { return e.Number <= cold })
	if f.Reach <= cold+1 {
		f.Reach, f.All = cold+1, false
	}
}

// classesFrom are those that a walk comes through from an event on.
func classesFrom(descending bool, bound, upto int64) (classes []int) {
	first, last := classOf(max(bound, 0)), classOf(upto)
	if descending {
		first, last = 0, min(first, last)
	}
	for class := first; class <= last; class++ {
		classes = append(classes, class)
	}
	if descending {
		slices.Reverse(classes)
	}
	return classes
}

func foundIn(v Value, parts []any, descending bool, bound, upto int64) (f Found) {
	f.All = parts[0] == "1"
	f.Reach = bound
	if f.All && descending {
		f.Reach = 0
	} else if f.All {
		f.Reach = upto
	}
	for _, part := range parts[1:] {
		text, _ := part.(string)
		before := len(f.Events)
		v.each(text, func(p posting) { f.Events = append(f.Events, Event{p.number, p.types}) })
		if descending {
			slices.Reverse(f.Events[before:])
		}
		// Another posting of the last event may come next.
		switch {
		case f.All || len(text) < postingSize:
		case descending:
			f.Reach = numberAt(text) + 1
		default:
			f.Reach = numberAt(text[len(text)-postingSize:]) - 1
		}
	}
	// A list may have more than is posted for whoever reads a State from a replica, and
	// what lies beyond the reach is read again.
	f.Events = slices.DeleteFunc(f.Events, func(e Event) bool {
		return e.Number > upto || descending && e.Number < f.Reach || !descending && e.Number > f.Reach
	})
	return f
}
