// Package gcra limits rates by the generic cell rate algorithm (ITU-T I.371, annex A):
// of a steady rate and a burst it keeps one number for each bucket, the theoretical
// arrival time of the next request. Redis counts in it (limited, in prelude.lua) as
// Limiter does in a process. All of it is integers: microseconds.
package gcra

import "time"

// Limit is so many requests in a period, and how many may come at once after a rest.
// The zero Limit is none.
type Limit struct {
	Rate   int64
	Period time.Duration
	Burst  int64
}

// None reports whether it limits nothing.
func (l Limit) None() bool { return l.Rate == 0 }

// interval is how many microseconds lie between two requests of the steady rate.
func (l Limit) interval() int64 { return l.Period.Microseconds() / l.Rate }

// span is how many microseconds an empty bucket takes to fill up.
func (l Limit) span() int64 { return l.Burst * l.interval() }

// Window is the time in which a whole burst comes back.
func (l Limit) Window() time.Duration { return time.Duration(l.span()) * time.Microsecond }

// State is what a bucket has left after it was asked.
type State struct {
	Remaining int64         // how many may come now
	Reset     time.Duration // until it is full
	Retry     time.Duration // until one more may come; 0: this one may
}

// Refused reports whether the request is one too many.
func (s State) Refused() bool { return s.Retry > 0 }

// take counts one request at a moment. arrival is what the bucket holds, or anything
// else; next is what it holds then. A clock that was set back, and a burst that has
// become smaller, keep nobody out for longer than the bucket takes to fill up.
func (l Limit) take(arrival, now int64) (next int64, s State) {
	step, full := l.interval(), now+l.span()
	arrival = min(max(arrival, now), full)
	next = arrival + step
	if next > full {
		return arrival, State{Reset: micros(arrival - now), Retry: micros(next - full)}
	}
	return next, State{Remaining: (full - next) / step, Reset: micros(next - now)}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
