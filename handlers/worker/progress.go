package worker

import (
	"context"
	"sync/atomic"
	"time"
)

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

func (p *progress) fresh(now time.Time, limit time.Duration) bool {
	at := p.at.Load()
	return at != 0 && (p.resting.Load() || now.Sub(time.UnixMilli(at)) <= limit)
}

// trouble is what a loop does about errors: it waits longer each time, and
// says so once. An outage meets all loops at once and gets one line in the log.
type trouble struct {
	d       *dispatch
	what    string
	current time.Duration // zero: none
}

// pause waits after an error; nil ends the trouble.
func (t *trouble) pause(ctx context.Context, err error) {
	switch {
	case err == nil && t.current == 0:
	case err == nil:
		t.current = 0
		if t.d.failing.Add(-1) == 0 {
			t.d.Log.Info("the dispatch goes on")
		}
	case ctx.Err() != nil:
	default:
		if t.current == 0 && t.d.failing.Add(1) == 1 {
			t.d.Log.Warn("the dispatch fails and goes on trying", "work", t.what, "error", err)
		}
		t.current = min(max(2*t.current, shortPause), longPause)
		wait(ctx, t.current)
	}
}
