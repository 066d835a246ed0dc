package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// Pauses after errors, which grow.
const (
	ShortPause = 50 * time.Millisecond
	longPause  = 2 * time.Second
)

// Longer is the pause after another error, 0 being none.
func Longer(pause time.Duration) time.Duration { return min(max(2*pause, ShortPause), longPause) }

// StaleAfter is how many intervals may pass without progress before a part is
// not ready.
const StaleAfter = 10

// Stale is how long a part with this interval may make no progress. Never less
// than what a few calls to a slow Redis take.
func Stale(interval time.Duration) time.Duration {
	return max(StaleAfter*interval, 5*rediskv.OperationTimeout)
}

// Away reports whether an error is that of a store which is away for now, or takes no
// changes until an operator has looked at what it lost.
func Away(err error) bool {
	e, ok := errors.AsType[*tollgate.Error](err)
	return ok && (e.Code == tollgate.CodeStoreUnavailable || e.Code == tollgate.CodeHistoryLost)
}

// Wait sleeps, or less when ctx ends or wake, which may be nil, has something.
func Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Common is what every part of a worker works with.
type Common struct {
	Store    *store.Store
	Clock    func() time.Time
	Wall     func() time.Time
	Log      *slog.Logger
	Observer Observer
	Interval time.Duration // between looks at a partition
	Consumer string        // who this worker is among others
}

// Progress is when a loop last got something done. A loop that rests waits for
// what may take any time and is no less well for it.
type Progress struct {
	at      atomic.Int64 // Unix milliseconds; zero: never yet
	resting atomic.Bool
}

// Made notes that something was done.
func (p *Progress) Made(now time.Time) {
	p.at.Store(now.UnixMilli())
	p.resting.Store(false)
}

// Rest says whether the loop waits for what may take any time.
func (p *Progress) Rest(rests bool) { p.resting.Store(rests) }

// Fresh reports whether something was done within limit, or the loop rests.
func (p *Progress) Fresh(now time.Time, limit time.Duration) bool {
	at := p.at.Load()
	return at != 0 && (p.resting.Load() || now.Sub(time.UnixMilli(at)) <= limit)
}
