package delivery

import (
	"context"
	"time"

	"tollgate/handlers/worker/loop"
)

// depthInterval is how often the gauges of what waits are set, in intervals.
const depthInterval = 15

// watchQueues keeps the gauges of what waits. They say nothing while Redis is
// away; the parts that work say that.
func (d *Dispatch) watchQueues(ctx context.Context) {
	for ctx.Err() == nil {
		var partitions []int
		for p := range d.Store.Partitions() {
			if !d.Agenda.Vacant(p) {
				partitions = append(partitions, p)
			}
		}
		if depths, err := d.Store.QueueDepths(ctx, partitions); err == nil {
			now := d.Clock()
			waiting, age := make([]int, d.Store.Partitions()), make([]time.Duration, d.Store.Partitions())
			for _, q := range depths {
				waiting[q.Partition] = int(q.Waiting)
				if q.OldestDue != 0 {
					age[q.Partition] = max(now.Sub(q.OldestDue.Time()), 0)
				}
			}
			for p := range waiting {
				d.Observer.Queue(p, waiting[p], age[p])
			}
		}
		loop.Wait(ctx, depthInterval*d.Interval, nil)
	}
}
