package gcra

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Count is one request on its way to the bucket that it counts in, which Redis keeps:
// the first script that the request runs counts it, and no other. Its first three
// fields are set before. A nil Count counts nothing.
type Count struct {
	Kind  Kind
	Of    string // the client or the grant that the bucket belongs to
	Limit Limit  // not none

	asked  atomic.Bool
	answer atomic.Pointer[State]
}

// Ask is what the next script is told: to count the request, the first time; then
// nothing.
func (c *Count) Ask() Argument {
	if c == nil || c.Limit.None() || !c.asked.CompareAndSwap(false, true) {
		return Argument{}
	}
	return Argument{c}
}

// Asked reports whether a script was told to count the request, or need not be.
func (c *Count) Asked() bool { return c == nil || c.asked.Load() }

// Answer is a state that did not come from Redis. The request counts no more.
func (c *Count) Answer(s State) {
	c.asked.Store(true)
	c.answer.Store(&s)
}

// State is what the bucket has left; false as long as nobody knows.
func (c *Count) State() (State, bool) {
	if c == nil {
		return State{}, false
	}
	if s := c.answer.Load(); s != nil {
		return *s, true
	}
	return State{}, false
}

// Argument tells a script what to count; the zero Argument, nothing.
type Argument struct{ count *Count }

// Counts reports whether it tells a script to count.
func (a Argument) Counts() bool { return a.count != nil }

// Bucket is whose bucket of which kind is counted in.
func (a Argument) Bucket() (of string, kind Kind) { return a.count.Of, a.count.Kind }

// MarshalBinary is the argument's text: the microseconds between two requests and the
// burst, with a space between them. It is empty once a script has answered, so what is
// run again with the same arguments counts no more.
func (a Argument) MarshalBinary() ([]byte, error) {
	if a.count == nil || a.count.answer.Load() != nil {
		return nil, nil
	}
	text := strconv.AppendInt(nil, a.count.Limit.interval(), 10)
	return strconv.AppendInt(append(text, ' '), a.count.Limit.Burst, 10), nil
}

// Answered reads what the script has answered; empty: it has counted nothing.
func (a Argument) Answered(text string) {
	if a.count == nil || text == "" {
		return
	}
	var of [3]int64
	parts := strings.Split(text, " ")
	if len(parts) != len(of) {
		return
	}
	for i, digits := range parts {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return
		}
		of[i] = n
	}
	a.count.answer.Store(&State{of[0], micros(of[1]), micros(of[2])})
}

// TooMany is how long to wait, in whole seconds, at least one.
func TooMany(retry time.Duration) int64 { return max(1, Seconds(retry)) }

// Seconds rounds up.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
