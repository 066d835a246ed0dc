package worker

import (
	"context"
	"time"

	"tollgate/handlers/worker/loop"
	"tollgate/rediskv/checks"
)

// DefaultCheckRate is how many objects a second a worker reads back, unless it is
// told otherwise: less than one percent of what Redis can do.
const DefaultCheckRate = 50

const (
	// checkLease is how long a partition stays with a worker that says nothing; how
	// far it has come is noted every checkNote.
	checkLease = time.Minute
	checkNote  = 5 * time.Second
)

// check walks through everything that is stored, slowly, one partition after the
// other, and begins anew. How far it has come stands in Redis: workers that share it
// divide the partitions, and a new one goes on where the last one stopped. With the
// place in memory, a system that is updated more often than a walk takes would never
// be checked to the end.
func (w *Worker) check(ctx context.Context) {
	if w.CheckRate <= 0 {
		return
	}
	var failing time.Duration
	for p := 0; ctx.Err() == nil; p = (p + 1) % w.Store.Partitions() {
		err := w.checkPartition(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if failing = loop.Longer(failing); err == nil {
			failing = 0
		} else {
			w.Log.Warn("a check did not come to its end", "partition", p, "error", err)
		}
		loop.Wait(ctx, w.Interval+failing, nil)
	}
}

// checkPartition walks through a partition that nobody else walks through and that has
// rested, from where the last walk stopped.
func (w *Worker) checkPartition(ctx context.Context, p int) error {
	from, taken, err := w.Store.BeginCheck(ctx, p, w.Name, checkLease)
	if err != nil || !taken {
		return err
	}
	walk := w.checkWalk(ctx, p)
	if err = w.Store.CheckPartition(ctx, p, from, walk); err == nil && p == 0 {
		// What no index leads to is found among the keys, which are not divided.
		err = w.Store.CheckKeys(ctx, walk)
	}
	over := context.WithoutCancel(ctx)
	if err != nil {
		_ = w.Store.LeaveCheck(over, p) // else the lease ends by itself
		return err
	}
	return w.Store.EndCheck(over, p, w.CheckRest)
}

// checkWalk is a walk at the pace that is set.
func (w *Worker) checkWalk(ctx context.Context, p int) *checks.Walk {
	noted := w.Wall()
	return &checks.Walk{
		Pace: func(ctx context.Context, at checks.Place, objects int) error {
			w.Observer.Checked(objects)
			if now := w.Wall(); now.Sub(noted) >= checkNote {
				noted = now
				if err := w.Store.KeepCheck(ctx, p, at, checkLease); err != nil {
					return err
				}
			}
			loop.Wait(ctx, time.Duration(objects)*time.Second/time.Duration(w.CheckRate), nil)
			return ctx.Err()
		},
		Found: func(f checks.Finding) {
			w.Log.Error("a check has found something", "kind", f.Kind, "organization", f.Organization, "object", f.Object, "id", f.ID, "finding", f.Message, "repairable", f.Repair != "")
			w.Observer.CheckFound(string(f.Kind))
			if f.Organization == "" {
				return
			}
			if err := w.Store.AnnounceFinding(context.WithoutCancel(ctx), f); err != nil {
				w.Log.Warn("nobody was told of a finding", "organization", f.Organization, "id", f.ID, "error", err)
			}
		},
	}
}
