package worker

import (
	"context"
	"sync"
)

// PayoutRound goes once over all partitions with the payouts.
func (w *Worker) PayoutRound(ctx context.Context) (int, error) { return w.payouts.Once(ctx) }

// TrimRound goes once over all partitions and trims events.
func (w *Worker) TrimRound(ctx context.Context) (int, error) { return w.trimming.Once(ctx) }

// SealRound goes once over all partitions and seals audit records.
func (w *Worker) SealRound(ctx context.Context) (int, error) { return w.sealing.Once(ctx) }

// Deliver is Run with nothing but the deliveries, and what wakes them.
func (w *Worker) Deliver(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { w.agenda.Run(ctx) })
	parts.Go(func() { w.Store.FollowHealth(ctx) })
	parts.Go(func() { w.dispatch.Run(ctx) })
	parts.Wait()
}
