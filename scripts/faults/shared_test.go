package faults

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// doing is what a client does to a payment that others change at the same moment.
type doing struct {
	kind  string // capture, cancel, refund, read
	minor int64
	final bool // of a capture: what is left is released
}

// state is a payment, as answers tell of it and as the model has it.
type state struct{ capturable, captured, refunded int64 }

// did is the answer. Nobody knows what became of some.
type did struct {
	known, done bool
	state       state // after it
}

// sharing is a payment of this many minor units under one order of changes. It is written
// from the documentation.
func sharing(minor int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{capturable: minor} },
		Step: func(before, input, output any) (bool, any) {
			is, in, out := before.(state), input.(doing), output.(did)
			after, possible := in.on(is)
			switch {
			case in.kind == "read":
				return !out.known || out.state == is, is
			case !out.known && possible:
				return true, after
			case !out.known:
				return true, is
			case out.done:
				return possible && out.state == after, after
			case in.kind == "cancel" && is.captured > 0:
				return true, is // it may be refused, or release the rest
			default:
				return !possible, is
			}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// on is what it makes of a payment.
func (d doing) on(is state) (after state, possible bool) {
	switch d.kind {
	case "capture":
		if possible = d.minor <= is.capturable; possible {
			is.captured, is.capturable = is.captured+d.minor, is.capturable-d.minor
			if d.final {
				is.capturable = 0
			}
		}
	case "refund":
		if possible = d.minor <= is.captured-is.refunded; possible {
			is.refunded += d.minor
		}
	case "cancel":
		possible = is.capturable > 0
		is.capturable = 0
	}
	return is, possible
}

// share has several clients change one payment at once, twice, and looks for an order
// that explains what each of them was told.
func (w *world) share(r *rand.Rand, o *org) {
	const amount = 1000
	of := w.create(r, o, amount, false)
	if !of.Made() || of.Status != 201 {
		return
	}
	losses := of.losses
	var mu sync.Mutex
	var all []porcupine.Operation
	for range 2 {
		var running sync.WaitGroup
		for client := range 4 {
			d := doing{kind: []string{"capture", "capture", "capture", "refund", "cancel", "read"}[r.IntN(6)], minor: 100 + r.Int64N(500), final: r.IntN(4) == 0}
			if d.kind == "read" && w.dirty {
				continue
			}
			running.Go(func() {
				call := time.Since(w.begun).Nanoseconds()
				out := w.do(o, of, d)
				back := time.Since(w.begun).Nanoseconds()
				if !out.known {
					back = math.MaxInt64
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, porcupine.Operation{ClientId: client, Input: d, Call: call, Output: out, Return: back})
			})
		}
		running.Wait()
	}
	if losses != w.losses.Load() {
		return // it went back meanwhile
	}
	w.mu.Lock()
	w.sharedPayments++
	w.sharedChanges += len(all)
	w.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(sharing(amount), all, 20*time.Second); result != porcupine.Ok {
		text := ""
		for _, op := range all {
			text += fmt.Sprintf("\n%12d–%-12d %+v → %+v", op.Call, op.Return, op.Input, op.Output)
		}
		w.fail("no order of these changes of payment %s explains the answers (%s):%s", of.ID, result, text)
	}
}

// do does something to a shared payment.
func (w *world) do(o *org, of *ask, d doing) did {
	if d.kind == "read" {
		said, known := w.send(o, "GET", "/v1/payments/"+of.ID, "", "")
		return did{known, said.status == 200, payment(said, "")}
	}
	a := w.change(o, of, d.kind, d.minor, d.final)
	path := "payment."
	if d.kind == "cancel" {
		path = ""
	}
	out := did{known: a.Known, done: a.Made()}
	if out.done {
		out.state = payment(a.said, path)
	}
	return out
}

// payment reads a state from an answer.
func payment(a answer, path string) state {
	return state{a.amount(path + "amount_capturable"), a.amount(path + "amount_captured"), a.amount(path + "amount_refunded")}
}
