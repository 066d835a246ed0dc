package share

import (
	"errors"
	"sync"
	"time"

	"tollgate"
)

// longCarried: what takes longer waits for a Redis that does not answer, or for a
// slow client, and no longer holds up the organization's own requests.
const longCarried = 50 * time.Millisecond

// Held is a turn, nil for none. It ends once, and soon, if it is one that must.
type Held struct {
	done  func()
	timer *time.Timer // ends it when it takes long
	from  *Holds
}

// Holds keeps turns that have ended, with their timers, for those to come. The zero
// value has none.
type Holds struct{ idle sync.Pool }

// Hold is a turn that lasts until it is ended.
func Hold(done func()) *Held { return &Held{done: done} }

// Soon is a turn that ends before it is told to when it takes long.
func (p *Holds) Soon(done func()) *Held {
	h, _ := p.idle.Get().(*Held)
	if h == nil {
		h = &Held{from: p}
		h.timer = time.AfterFunc(time.Hour, func() { h.done() })
		h.timer.Stop()
	}
	h.done = done
	h.timer.Reset(longCarried)
	return h
}

// End is called at most once.
func (h *Held) End() {
	switch {
	case h == nil:
	case h.timer == nil:
		h.done()
	case h.timer.Stop(): // else it has ended
		done := h.done
		h.done = nil
		h.from.idle.Put(h)
		done()
	}
}

// Refusal is what a client is told when its share is in use, or its turn
// did not come in time.
func Refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrExhausted):
		return &tollgate.Error{
			Code: tollgate.CodeShareExhausted, Cause: err,
			Message: "You have as many of these requests under way as your share allows. Wait for one to end, then try again.",
		}
	default:
		return &tollgate.Error{
			Code: tollgate.CodeShareExhausted, Cause: err,
			Message: "Your turn did not come in time. Try again.",
		}
	}
}
