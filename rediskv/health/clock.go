package health

import (
	"errors"
	"fmt"
	"time"
)

const (
	// ClockTolerance is how far this machine's clock may be from Redis' for what
	// happens by the clock: payments that expire, sales days that end, payouts.
	ClockTolerance = 5 * time.Second
	// ClockLimit is how far it may be for what others check by their own clocks:
	// tokens and signatures.
	ClockLimit = time.Minute
)

// reading is how far this machine's clock was ahead of Redis' at a moment.
type reading struct {
	at     time.Time     // by this machine; zero: nobody has read it
	ahead  time.Duration // behind: below zero
	margin time.Duration // how far that may be wrong
}

// read compares what Redis said between two moments of this machine.
func read(asked, answered, theirs time.Time) reading {
	trip := answered.Sub(asked)
	return reading{at: answered, ahead: answered.Round(0).Add(-trip / 2).Sub(theirs), margin: trip/2 + time.Millisecond}
}

// off is how far the clocks are from each other, at least.
func (r reading) off() time.Duration { return max(0, r.ahead.Abs()-r.margin) }

// since is the reading as it is now, so long after. A clock that was set meanwhile has
// gone another way than time, which Go counts beside it.
func (r reading) since(now time.Time, passed time.Duration) reading {
	r.ahead += now.Round(0).Sub(r.at.Round(0)) - passed
	return r
}

// ErrClockUnknown: Redis has not said yet what time it is.
var ErrClockUnknown = errors.New("redis has not said yet what time it is")

// ClockError says that this machine's clock is too far from Redis'.
type ClockError struct{ Ahead time.Duration }

// Error says by how much, and what to do.
func (e *ClockError) Error() string {
	way := "ahead of"
	if e.Ahead < 0 {
		way = "behind"
	}
	return fmt.Sprintf("this machine's clock is %s %s that of Redis: set both by NTP", e.Ahead.Abs().Round(100*time.Millisecond), way)
}

// CheckClock refuses to act by a clock that is further than a limit from Redis', or
// that nobody has compared yet. Where there is no Wall, as in tests, nothing is
// compared.
func (s *Store) CheckClock(limit time.Duration) error {
	if s.db.Wall == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.at.IsZero() {
		return ErrClockUnknown
	}
	now := s.now()
	if r := s.clock.since(now, now.Sub(s.clock.at)); r.off() > limit {
		return &ClockError{r.ahead}
	}
	return nil
}

// ClockAhead is how far this machine's clock was ahead of Redis' when they were last
// compared, in seconds.
func (s *Store) ClockAhead() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.ahead.Seconds()
}
