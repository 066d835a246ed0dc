package worker

import "context"

// Pure functions whose tables are tested by themselves.
var (
	Judge      = judge
	RetryAfter = retryAfter
)

// PayoutRound goes once over all partitions with the payouts.
func (w *Worker) PayoutRound(ctx context.Context) (int, error) {
	count, _, err := w.payouts.round(ctx)
	return count, err
}

// JobsRound goes once over all partitions with the jobs.
func (w *Worker) JobsRound(ctx context.Context) (int, error) {
	count, _, err := w.jobs.round(ctx)
	return count, err
}

// TrimRound goes once over all partitions and trims events.
func (w *Worker) TrimRound(ctx context.Context) (int, error) {
	count, _, err := w.trimming.round(ctx)
	return count, err
}
