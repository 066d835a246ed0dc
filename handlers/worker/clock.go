package worker

import (
	"context"
	"fmt"
)

// expirePayments ends the payments of one partition whose time has passed, and
// releases what was left of them. One that another worker has expired is
// nothing to do. It goes on past a payment that fails, and reports the error.
func (w *Worker) expirePayments(ctx context.Context, p int) (count int, err error) {
	failures := map[string]error{}
	for ctx.Err() == nil {
		// Payments that cannot be expired stay at the head of the queue; the
		// batch grows by them, so that they hold up nobody behind them.
		limit := w.Batch + len(failures)
		due, err := w.Store.DuePayments(ctx, p, limit)
		if err != nil {
			return count, fmt.Errorf("due payments of partition %d: %w", p, err)
		}
		progress := false
		for _, d := range due {
			if failures[d.ID] != nil {
				continue
			}
			progress = true
			if err := w.Store.ExpirePayment(ctx, d.Organization, d.ID); err != nil {
				failures[d.ID] = fmt.Errorf("expire %s: %w", d.ID, err)
				if len(failures) >= w.Batch {
					return count, failures[d.ID]
				}
				continue
			}
			count++
			w.metrics.expired.Inc()
		}
		if !progress || len(due) < limit {
			break
		}
	}
	for _, err := range failures {
		return count, err
	}
	return count, ctx.Err()
}
