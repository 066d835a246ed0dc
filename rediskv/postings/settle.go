package postings

import (
	"context"

	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Settled is an event whose payout has come to an end.
type Settled struct {
	Number    int64
	Of        Types  // the type of its transaction
	Reference string // which it has been given since; may be empty
}

type (
	settleKeys struct{ Postings string }
	settleArgs struct{ Before, After string }
)

var scriptSettle = script.New[settleKeys, settleArgs](lua, "settle")

// Forget takes postings out, and returns the state after that. Whoever posts meanwhile what it
// has read before is too late with it, also where none of these is there.
func (s *Store) Forget(ctx context.Context, k rediskv.Space, st State, gone []Posting) (State, error) {
	next := st
	next.Form = form
	next.Settled++
	text, err := record.Enveloped(StateKey(k), next)
	if err != nil {
		return st, err
	}
	next.text = string(text)
	inv := scriptSettle.With(settleKeys{StateKey(k)}, settleArgs{st.text, next.text})
	for _, p := range gone {
		inv.Keys = append(inv.Keys, p.list(k, classOf(p.Number)))
		inv.Args = append(inv.Args, p.Number, posting{p.Number, p.Type}.append(nil, p.Value), 0)
	}
	_, _, err = s.db.Run(ctx, inv)
	return next, err
}

// Meets reports whether the postings of two values of one event are the same.
func (v Value) Meets(k rediskv.Space, w Value, number int64) bool {
	return v.tag() == w.tag() && v.list(k, classOf(number)) == w.list(k, classOf(number))
}

// Settle posts the references of payouts, which are open no more, and returns the state
// after that. It is done within the history of ctx (history.Within); rediskv.ErrConflict:
// another worker was faster.
func (s *Store) Settle(ctx context.Context, k rediskv.Space, st State, payouts []Settled) (State, error) {
	next := st
	next.Settled++
	text, err := record.Enveloped(StateKey(k), next)
	if err != nil {
		return st, err
	}
	next.text = string(text)
	inv := scriptSettle.With(settleKeys{StateKey(k)}, settleArgs{st.text, next.text})
	change := func(v Value, p Settled, put int) {
		inv.Keys = append(inv.Keys, v.list(k, classOf(p.Number)))
		inv.Args = append(inv.Args, p.Number, posting{p.Number, p.Of}.append(nil, v), put)
	}
	for _, p := range payouts {
		if p.Reference != "" {
			change(Value{Reference, p.Reference}, p, 1)
		}
		change(Value{Field: Open}, p, 0)
	}
	_, _, err = s.db.Run(ctx, inv)
	return next, err
}
