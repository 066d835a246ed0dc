package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate"
	"tollgate/rediskv"
)

// Pauses after errors, which grow.
const (
	shortPause = 50 * time.Millisecond
	longPause  = 2 * time.Second
)

// longer is the pause after another error, 0 being none.
func longer(pause time.Duration) time.Duration { return min(max(2*pause, shortPause), longPause) }

// staleAfter is how many intervals may pass without progress before a part is
// not ready.
const staleAfter = 10

// stale is how long a part with this interval may make no progress. Never less
// than what a few calls to a slow Redis take.
func stale(interval time.Duration) time.Duration {
	return max(staleAfter*interval, 5*rediskv.OperationTimeout)
}

// away reports whether an error is that of a store which is away for now.
func away(err error) bool {
	e, ok := errors.AsType[*tollgate.Error](err)
	return ok && e.Code == tollgate.CodeStoreUnavailable
}

// wait sleeps, or less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// register adds collectors to a registry, nil for none.
func register(r prometheus.Registerer, collectors ...prometheus.Collector) (err error) {
	for _, c := range collectors {
		if r != nil {
			err = errors.Join(err, r.Register(c))
		}
	}
	return err
}

// progress is when a loop last got something done. A loop that rests waits for
// what may take any time and is no less well for it.
type progress struct {
	at      atomic.Int64 // Unix milliseconds; zero: never yet
	resting atomic.Bool
}

func (p *progress) made(now time.Time) {
	p.at.Store(now.UnixMilli())
	p.resting.Store(false)
}

// rest says whether the loop waits for what may take any time.
func (p *progress) rest(rests bool) { p.resting.Store(rests) }

func (p *progress) fresh(now time.Time, limit time.Duration) bool {
	at := p.at.Load()
	return at != 0 && (p.resting.Load() || now.Sub(time.UnixMilli(at)) <= limit)
}

// trouble is what a loop does about errors: it waits longer each time, and
// says so once. An outage meets all loops at once and gets one line in the log.
type trouble struct {
	log     *slog.Logger
	failing *atomic.Int32 // loops that have met an error and are not over it
	what    string
	current time.Duration // zero: none
}

// ended reports whether there is none.
func (t *trouble) ended() bool { return t.current == 0 }

// pause waits after an error; nil ends the trouble.
func (t *trouble) pause(ctx context.Context, err error) {
	switch {
	case err == nil && t.current == 0:
	case err == nil:
		t.current = 0
		if t.failing.Add(-1) == 0 {
			t.log.Info("the dispatch goes on")
		}
	case ctx.Err() != nil:
	default:
		if t.current == 0 && t.failing.Add(1) == 1 {
			t.log.Warn("the dispatch fails and goes on trying", "work", t.what, "error", err)
		}
		t.current = longer(t.current)
		wait(ctx, t.current)
	}
}
