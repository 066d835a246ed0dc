package worker

import "context"

// Pure functions whose tables are tested by themselves.
var (
	Judge      = judge
	RetryAfter = retryAfter
)

// PayoutRound goes once over all partitions with the payouts.
func (w *Worker) PayoutRound(ctx context.Context) (int, error) { return w.payouts.round(ctx) }

// TrimRound goes once over all partitions and trims events.
func (w *Worker) TrimRound(ctx context.Context) (int, error) { return w.trimming.round(ctx) }
