package worker

import "context"

// PayoutRound goes once over all partitions with the payouts.
func (w *Worker) PayoutRound(ctx context.Context) (int, error) { return w.payouts.Once(ctx) }

// TrimRound goes once over all partitions and trims events.
func (w *Worker) TrimRound(ctx context.Context) (int, error) { return w.trimming.Once(ctx) }

// SealRound goes once over all partitions and seals audit records.
func (w *Worker) SealRound(ctx context.Context) (int, error) { return w.sealing.Once(ctx) }
