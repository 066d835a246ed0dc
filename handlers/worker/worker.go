// Package worker is the only one that acts on the service's own account: the
// clock that ends what nobody ended. It never imports handlers; the two meet in
// Redis.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"tollgate/rediskv"
)

const (
	defaultInterval    = time.Second
	defaultBatch       = 100
	defaultConcurrency = 8
	maxPause           = 30 * time.Second // between rounds while Redis is away
	staleAfter         = 10               // rounds without success after which a worker is not ready
)

// Config is what a Worker works with; Store and Clock are needed.
type Config struct {
	Store       *rediskv.Store
	Clock       func() time.Time
	Log         *slog.Logger          // nil discards
	Metrics     prometheus.Registerer // nil: none
	Interval    time.Duration         // 0: one second
	Batch       int                   // payments asked for at once per partition; 0: 100
	Concurrency int                   // partitions at work at once; 0: 8
}

// Worker expires payments whose time has passed, in every partition, once per
// interval. Several workers on one Redis share the work: a payment that
// another one has expired is nothing to do.
type Worker struct {
	Config
	done    atomic.Int64 // Unix milliseconds of the last round without an error
	expired prometheus.Counter
	failed  prometheus.Counter
	took    prometheus.Histogram
}

// New checks a configuration and registers the worker's metrics.
func New(c Config) (*Worker, error) {
	if c.Store == nil || c.Clock == nil {
		return nil, errors.New("worker: store and clock are needed")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.Batch = cmp.Or(c.Batch, defaultBatch)
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	w := &Worker{
		Config: c,
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_worker_payments_expired_total", Help: "Payments that the clock ended.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_worker_rounds_failed_total", Help: "Rounds of the clock that ended in an error.",
		}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tollgate_worker_round_seconds", Help: "Time that a round over all partitions took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
	}
	if c.Metrics != nil {
		if err := errors.Join(c.Metrics.Register(w.expired), c.Metrics.Register(w.failed), c.Metrics.Register(w.took)); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
	}
	return w, nil
}

// Run works until ctx ends, which is the only way out: outages of Redis are
// logged and waited out.
func (w *Worker) Run(ctx context.Context) {
	pause := w.Interval
	for ctx.Err() == nil {
		start := w.Clock()
		count, err := w.Round(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			w.failed.Inc()
			pause = min(2*pause, max(maxPause, w.Interval))
			w.Log.Warn("a round of the clock failed", "error", err, "next_in", pause.String())
		default:
			pause = w.Interval
			w.done.Store(w.Clock().UnixMilli())
		}
		w.took.Observe(w.Clock().Sub(start).Seconds())
		if count > 0 {
			w.Log.Info("payments expired", "count", count)
		}
		wait(ctx, pause)
	}
}

// Round goes once over all partitions and returns how many payments it
// expired. The error is the first one; the round goes on past a payment that
// fails, but not past a partition that cannot be read.
func (w *Worker) Round(ctx context.Context) (int, error) {
	var count atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.Concurrency)
	for p := range w.Store.Partitions() {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			n, err := w.partition(ctx, p)
			count.Add(int64(n))
			return err
		})
	}
	err := group.Wait()
	return int(count.Load()), err
}

// partition expires what is due in one partition.
func (w *Worker) partition(ctx context.Context, p int) (count int, err error) {
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
			if failures[d.PaymentID] != nil {
				continue
			}
			progress = true
			if err := w.Store.ExpirePayment(ctx, d.Organization, d.PaymentID); err != nil {
				failures[d.PaymentID] = fmt.Errorf("expire %s: %w", d.PaymentID, err)
				if len(failures) >= w.Batch {
					return count, failures[d.PaymentID]
				}
				continue
			}
			count++
			w.expired.Inc()
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

// Ready reports whether the clock runs: nil, or an error that says since when
// it does not.
func (w *Worker) Ready() error {
	done := time.UnixMilli(w.done.Load())
	switch {
	case w.done.Load() == 0:
		return errors.New("no round is complete yet")
	case w.Clock().Sub(done) > staleAfter*w.Interval:
		return fmt.Errorf("the last complete round was at %s", done.UTC().Format(time.RFC3339))
	}
	return nil
}

// wait sleeps, or less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
