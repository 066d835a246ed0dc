package delivery

import "time"

// Backoff is when the attempts of a delivery are made: Waits[n] after the one
// before, the first at once (interface §6).
type Backoff struct {
	Waits  []time.Duration
	Jitter float64 // 0.2: ±20 %
	// SlowDown is the least wait, for the whole endpoint, after an answer that
	// asks for time (429, 502, 503, 504) or none in time.
	SlowDown time.Duration
	// MaxRetryAfter bounds what an endpoint may ask for.
	MaxRetryAfter time.Duration
}

// DefaultBackoff is the table of interface §6: ten attempts over four days.
var DefaultBackoff = Backoff{
	Waits: []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	},
	Jitter: 0.2, SlowDown: time.Minute, MaxRetryAfter: 24 * time.Hour,
}

// Next is the wait after attempt n (from 1) of a run; false when it was the
// last. random is in [0, 1).
func (b Backoff) Next(n int, random float64) (time.Duration, bool) {
	if n < 1 || n >= len(b.Waits) {
		return 0, false
	}
	factor := 1 + b.Jitter*(2*random-1)
	return time.Duration(float64(b.Waits[n]) * factor), true
}
