package worker

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const maxPause = 30 * time.Second // between rounds while Redis is away

// rounds is work that is done in every partition once per interval.
type rounds struct {
	Config
	name    string
	every   time.Duration
	visit   visit
	share   time.Duration // of the interval, for one partition
	metrics *metrics
	done    atomic.Int64 // Unix milliseconds of the last round without an error
}

// visit does what there is to do in one partition and counts it. When over says
// so it leaves the rest to the next round, which then begins at once: a partition
// with much to do keeps the others waiting for no more than their shares.
type visit func(ctx context.Context, partition int, over func() bool) (int, error)

func newRounds(c Config, m *metrics, name string, every time.Duration, v visit) *rounds {
	m.failed.WithLabelValues(name) // present from the start
	share := every * time.Duration(c.Concurrency) / time.Duration(c.Store.Partitions())
	return &rounds{Config: c, name: name, every: every, visit: v, share: min(share, every), metrics: m}
}

// run goes round until ctx ends; after an error the pauses grow.
func (r *rounds) run(ctx context.Context) {
	var retry time.Duration // zero after a good round
	total := 0              // since the last pause
	for ctx.Err() == nil {
		start := r.Wall()
		count, more, err := r.round(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.metrics.failed.WithLabelValues(r.name).Inc()
			retry = min(max(2*retry, 2*min(r.every, time.Second)), maxPause)
			r.Log.Warn("a round failed", "work", r.name, "error", err, "next_in", retry.String())
		default:
			retry = 0
			r.done.Store(r.Wall().UnixMilli())
		}
		r.metrics.rounds.WithLabelValues(r.name).Observe(r.Wall().Sub(start).Seconds())
		if total += count; more && (count > 0 || err == nil) {
			continue
		}
		if total > 0 {
			r.Log.Info("done", "work", r.name, "count", total)
			total = 0
		}
		wait(ctx, cmp.Or(retry, r.every))
	}
}

// round goes once over all partitions and adds up what was done; more is left
// where time was over. The error is the first one; it ends the round.
func (r *rounds) round(ctx context.Context) (done int, more bool, err error) {
	var count atomic.Int64
	var left atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.Concurrency)
	for p := range r.Store.Partitions() {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			start := r.Wall()
			n, err := r.visit(ctx, p, func() bool {
				over := r.Wall().Sub(start) >= r.share
				if over {
					left.Store(true)
				}
				return over
			})
			count.Add(int64(n))
			return err
		})
	}
	err = group.Wait()
	return int(count.Load()), left.Load(), err
}

func (r *rounds) ready() error {
	done := time.UnixMilli(r.done.Load())
	switch {
	case r.done.Load() == 0:
		return fmt.Errorf("%s: no round is complete yet", r.name)
	case r.Wall().Sub(done) > staleAfter*r.every:
		return fmt.Errorf("%s: the last complete round was at %s", r.name, done.UTC().Format(time.RFC3339))
	}
	return nil
}
