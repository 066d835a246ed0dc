package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tollgate"
	"tollgate/rediskv"
)

const maxPause = 30 * time.Second // between looks at a partition that fails

// rounds is work that is done in every partition once per interval. Each
// partition has its own time: one that takes long, or fails, holds up no other.
type rounds struct {
	Config
	name    string
	every   time.Duration
	visit   func(ctx context.Context, partition int) (int, error)
	metrics *metrics
	slots   chan struct{} // one element for each partition at work
	looks   []progress    // by partition
	away    atomic.Int32  // partitions whose Redis does not answer
	done    atomic.Int64  // since it was last logged
	told    atomic.Int64  // Unix milliseconds of that
}

func newRounds(c Config, m *metrics, name string, every time.Duration, visit func(context.Context, int) (int, error)) *rounds {
	m.failed.WithLabelValues(name) // present from the start
	return &rounds{
		Config: c, name: name, every: every, visit: visit, metrics: m,
		slots: make(chan struct{}, c.Concurrency), looks: make([]progress, c.Store.Partitions()),
	}
}

// run works until ctx ends.
func (r *rounds) run(ctx context.Context) {
	var loops sync.WaitGroup
	for p := range r.looks {
		loops.Go(func() { r.tend(ctx, p) })
	}
	loops.Wait()
}

// tend looks at a partition again and again; after an error the pauses grow.
func (r *rounds) tend(ctx context.Context, p int) {
	look := &r.looks[p]
	var retry time.Duration // zero after a good look
	away, damaged := false, false
	for ctx.Err() == nil {
		look.resting.Store(!away) // until there is a slot, and for as long as the work takes
		count, err := r.look(ctx, p)
		if ctx.Err() != nil {
			return
		}
		r.report(count)
		was := away
		away = err != nil && codeOf(err) == tollgate.CodeStoreUnavailable
		known := damaged
		damaged = rediskv.IsDamage(err)
		if err == nil || damaged { // what cannot be read keeps nothing else waiting
			retry = 0
		} else {
			retry = min(max(2*retry, 2*min(r.every, time.Second)), maxPause)
		}
		said := err != nil && !away && !(known && damaged)
		switch { // an outage meets all partitions and is said once
		case away && !was:
			said = r.away.Add(1) == 1
		case was && !away && r.away.Add(-1) == 0:
			r.Log.Info("rounds go on", "work", r.name)
		}
		if said {
			r.Log.Warn("a round failed", "work", r.name, "error", err, "next_in", retry.String())
		}
		if away {
			look.resting.Store(false)
		} else { // what cannot be done for somebody is no standstill
			look.made(r.Wall())
			look.resting.Store(err != nil)
		}
		wait(ctx, cmp.Or(retry, r.every))
	}
}

// look visits a partition when there is a slot for it.
func (r *rounds) look(ctx context.Context, p int) (int, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case r.slots <- struct{}{}:
	}
	defer func() { <-r.slots }()
	start := r.Wall()
	count, err := r.visit(ctx, p)
	r.metrics.rounds.WithLabelValues(r.name).Observe(r.Wall().Sub(start).Seconds())
	if err != nil && ctx.Err() == nil {
		r.metrics.failed.WithLabelValues(r.name).Inc()
	}
	return count, err
}

// each does what is due in a partition, once each or for as long as do asks for
// another turn. It goes on past what fails, and reports the first error.
func (r *rounds) each(ctx context.Context, p int, due func(ctx context.Context, partition, limit int) ([]rediskv.Due, error),
	do func(rediskv.Due) (count int, again bool, err error),
) (count int, err error) {
	done := map[rediskv.Due]bool{}
	failures, stay := 0, 0
	for progress := true; progress && ctx.Err() == nil; {
		// What is done and still due stays at the head of the queue.
		list, failed := due(ctx, p, r.Batch+stay)
		if failed != nil {
			return count, fmt.Errorf("what is due in partition %d: %w", p, failed)
		}
		r.looks[p].made(r.Wall())
		r.looks[p].resting.Store(true) // each call to Redis is bounded; how many there are to make is not
		progress, stay = false, 0
		for _, d := range list {
			if ctx.Err() != nil {
				break
			}
			if done[d] {
				stay++
				continue
			}
			progress = true
			n, again, failed := do(d)
			count += n
			if done[d] = !again || failed != nil; done[d] {
				stay++
			}
			if failed == nil {
				continue
			}
			if err == nil {
				err = fmt.Errorf("%s: %w", d.ID, failed)
			}
			if rediskv.IsDamage(failed) { // which concerns that one alone, however many there are
				continue
			}
			failures++
			if failures >= r.Batch {
				return count, err
			}
			if codeOf(failed) == tollgate.CodeStoreUnavailable {
				break // only what is due for somebody else, if Redis still says it
			}
		}
		r.yield()
	}
	return count, cmp.Or(err, ctx.Err())
}

// aside does what waits for somebody else, without the slot of its partition.
func (r *rounds) aside(do func()) {
	<-r.slots
	defer func() { r.slots <- struct{}{} }()
	do()
}

// yield lets a partition that waits for a slot have its turn first.
func (r *rounds) yield() { r.aside(func() {}) }

// report logs what was done, of all partitions together once per interval.
func (r *rounds) report(count int) {
	r.done.Add(int64(count))
	now, told := r.Wall().UnixMilli(), r.told.Load()
	if now-told < r.every.Milliseconds() || !r.told.CompareAndSwap(told, now) {
		return
	}
	if done := r.done.Swap(0); done > 0 {
		r.Log.Info("done", "work", r.name, "count", done)
	}
}

// round goes once over all partitions and adds up what was done.
func (r *rounds) round(ctx context.Context) (int, error) {
	var group sync.WaitGroup
	var count atomic.Int64
	failed := make([]error, len(r.looks))
	for p := range r.looks {
		group.Go(func() {
			n, err := r.look(ctx, p)
			count.Add(int64(n))
			failed[p] = err
		})
	}
	group.Wait()
	return int(count.Load()), errors.Join(failed...)
}

func (r *rounds) ready() error {
	// Never less than what a few calls to a slow Redis take.
	stale := max(staleAfter*r.every, 5*rediskv.OperationTimeout)
	for p := range r.looks {
		if !r.looks[p].fresh(r.Wall(), stale) {
			return fmt.Errorf("%s: partition %d makes no progress", r.name, p)
		}
	}
	return nil
}
