package worker

import (
	"context"
	"time"

	"tollgate/handlers/worker/loop"
	"tollgate/rediskv/health"
)

// Check is a part of the worker, by the name that its metrics have, and nil or
// how it stands still. It names no organization and no endpoint.
type Check struct {
	Part string
	Err  error
}

// Checks says of every part whether it makes progress, and of this machine's clock
// whether anything may be done by it.
func (w *Worker) Checks() []Check {
	return []Check{
		{"clock", w.expiry.Ready()},
		{"payouts", w.payouts.Ready()},
		{jobs, w.jobs.Ready()},
		{"rules", w.rules.Ready()},
		{"deliveries", w.dispatch.Ready()},
		{"exports", w.exports.Ready()},
		{"machine_clock", w.Store.CheckClock(health.ClockTolerance)},
	}
}

// Ready reports whether every part makes progress: nil, or an error that says
// which one does not.
func (w *Worker) Ready() error {
	for _, c := range w.Checks() {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

// watchProgress writes down when a part comes to a standstill and when it goes
// on. At the start each has as long as it may stand still.
func (w *Worker) watchProgress(ctx context.Context, start time.Time) {
	still := map[string]bool{}
	for ; ctx.Err() == nil; loop.Wait(ctx, w.Interval, nil) {
		for _, c := range w.Checks() {
			switch {
			case (c.Err != nil) == still[c.Part]:
			case c.Err == nil:
				w.Log.Info("makes progress again", "work", c.Part)
				still[c.Part] = false
			case w.Wall().Sub(start) > loop.StaleAfter*max(w.Interval, time.Second):
				w.Log.Warn("makes no progress", "work", c.Part, "error", c.Err)
				still[c.Part] = true
			}
		}
	}
}
