package delivery

import (
	"context"
	"time"

	"tollgate/handlers/worker/loop"
)

// trouble is what a loop does about errors: it waits longer each time, and
// says so once. An outage meets all loops at once and gets one line in the log.
type trouble struct {
	d       *Dispatch
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
		t.current = loop.Longer(t.current)
		loop.Wait(ctx, t.current, nil)
	}
}
