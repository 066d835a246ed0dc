// Package loop repeats work in every partition, and knows what the parts of the
// worker have in common: pauses after errors, and whether they make progress.
package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/health"
	"tollgate/rediskv/payouts"
)

const maxPause = 30 * time.Second // between looks at a partition that fails

// Config is what a loop works with.
type Config struct {
	Common
	Name  string        // of the work, in the log and in metrics
	Every time.Duration // between looks at a partition; with an agenda, at least, while something is due
	// Busy is instead of Every between looks at a partition where something was done; zero:
	// there is no difference.
	Busy time.Duration
	// Vacant says that a partition has no organizations, so that there is nothing to look
	// at; nil: each is looked at.
	Vacant func(partition int) bool
	// Agenda says when there is something to do, of these Kinds; nil: once per interval.
	Agenda      *Agenda
	Kinds       []agenda.Kind
	Concurrency int // partitions at work at once
	PageSize    int // what is due that is asked for at once
	// Clocked says that the clock decides what is due: nothing is done while this
	// machine's is too far from Redis'.
	Clocked bool
	// Do does what is due in a partition, and returns how much that was.
	Do func(ctx context.Context, partition int) (int, error)
}

// Loop is work that is done in every partition, when something is due there or once
// per interval. Each partition has its own time: one that takes long, or fails, holds
// up no other.
type Loop struct {
	Config
	slots    chan struct{}   // one element for each partition at work
	progress []Progress      // by partition
	due      []chan struct{} // by partition: the agenda says so
	away     atomic.Int32    // partitions whose Redis does not answer
	done     atomic.Int64    // since it was last logged
	told     atomic.Int64    // Unix milliseconds of that
	wrong    atomic.Bool     // it waits for the clock
}

// New makes a loop that does not run yet.
func New(c Config) *Loop {
	l := &Loop{Config: c, slots: make(chan struct{}, c.Concurrency), progress: make([]Progress, c.Store.Partitions())}
	for range l.progress {
		l.due = append(l.due, make(chan struct{}, 1))
	}
	if c.Agenda != nil {
		c.Agenda.Wakes(l.Wake, c.Kinds...)
	}
	return l
}

// Wake has the work of a partition done.
func (l *Loop) Wake(partition int) { poke(l.due[partition]) }

// Run works until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for p := range l.progress {
		loops.Go(func() { l.repeat(ctx, p) })
	}
	loops.Wait()
}

// repeat does the work of a partition again and again; after an error the pauses grow.
func (l *Loop) repeat(ctx context.Context, p int) {
	progress := &l.progress[p]
	var retry time.Duration // zero when all went well
	gone, damaged := false, false
	for ctx.Err() == nil {
		progress.Rest(!gone) // until there is a slot, and for as long as the work takes
		l.clear(p)
		count, err := l.work(ctx, p)
		if err == nil && l.Agenda != nil {
			err = l.Agenda.Look(ctx, p)
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errClock) {
			progress.Made(l.Wall())
			progress.Rest(true)
			Wait(ctx, min(l.Every, time.Second), nil)
			continue
		}
		l.report(count)
		was := gone
		gone = Away(err)
		known := damaged
		damaged = rediskv.IsDamage(err)
		if err == nil || damaged { // what cannot be read keeps nothing else waiting
			retry = 0
		} else {
			retry = min(max(2*retry, 2*min(l.Every, time.Second)), maxPause)
		}
		said := err != nil && !gone && !(known && damaged)
		switch { // an outage meets all partitions and is said once
		case gone && !was:
			said = l.away.Add(1) == 1
		case was && !gone && l.away.Add(-1) == 0:
			l.Log.Info("rounds go on", "work", l.Name)
		}
		if said {
			l.Log.Warn("a round failed", "work", l.Name, "error", err, "next_in", retry.String())
		}
		if gone {
			progress.Rest(false)
		} else { // what cannot be done for somebody is no standstill
			progress.Made(l.Wall())
			progress.Rest(err != nil)
		}
		l.rest(ctx, p, count, err, retry)
	}
}

// clear is called before a partition is looked at: what is due from then on counts.
func (l *Loop) clear(p int) {
	for _, kind := range l.Kinds {
		l.Agenda.Clear(kind, p)
	}
}

// rest waits for the next turn of a partition: for as long as the interval is when
// something is left or goes wrong, and else until something is due.
func (l *Loop) rest(ctx context.Context, p, count int, err error, retry time.Duration) {
	if l.Agenda == nil || err != nil || l.Agenda.Due(p, l.Kinds...) {
		every := l.Every
		if count > 0 {
			every = cmp.Or(l.Busy, every)
		}
		Wait(ctx, cmp.Or(retry, every), nil)
		return
	}
	l.progress[p].Rest(true) // there is nothing to do
	select {
	case <-ctx.Done():
	case <-l.due[p]:
	}
}

// work is done in a partition when there is a slot for it.
func (l *Loop) work(ctx context.Context, p int) (int, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case l.slots <- struct{}{}:
	}
	defer func() { <-l.slots }()
	if err := l.onTime(); err != nil {
		l.Observer.Skipped(l.Name)
		return 0, err
	}
	if l.Vacant != nil && l.Vacant(p) {
		return 0, nil
	}
	start := l.Wall()
	count, err := l.Do(ctx, p)
	l.Observer.Round(l.Name, l.Wall().Sub(start), err != nil && ctx.Err() == nil)
	return count, err
}

// errClock: the clock decides what is due, and is not known to be right.
var errClock = errors.New("the clock may be wrong")

// onTime refuses to do by the clock what the clock would do wrongly.
func (l *Loop) onTime() error {
	if !l.Clocked {
		return nil
	}
	err := l.Store.CheckClock(health.ClockTolerance)
	switch _, wrong := errors.AsType[*health.ClockError](err); {
	case wrong && l.wrong.CompareAndSwap(false, true):
		l.Log.Error("nothing is done by this machine's clock", "work", l.Name, "error", err)
	case err == nil && l.wrong.CompareAndSwap(true, false):
		l.Log.Info("the clock is right, rounds go on", "work", l.Name)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errClock, err)
	}
	return nil
}

// Each does what is due in a partition, once each or for as long as do asks for
// another turn. It goes on past what fails, and reports the first error.
func (l *Loop) Each(ctx context.Context, p int, due func(ctx context.Context, partition, limit int) ([]payouts.Due, error),
	do func(payouts.Due) (count int, again bool, err error),
) (count int, err error) {
	done := map[payouts.Due]bool{}
	failures, stay := 0, 0
	for more := true; more && ctx.Err() == nil; {
		// What is done and still due stays at the head of the queue.
		list, failed := due(ctx, p, l.PageSize+stay)
		if failed != nil {
			return count, fmt.Errorf("what is due in partition %d: %w", p, failed)
		}
		l.progress[p].Made(l.Wall())
		l.progress[p].Rest(true) // each call to Redis is bounded; how many there are to make is not
		more, stay = false, 0
		for _, d := range list {
			if ctx.Err() != nil {
				break
			}
			if l.onTime() != nil { // somebody has set it just now
				return count, err
			}
			if done[d] {
				stay++
				continue
			}
			more = true
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
			if failures >= l.PageSize {
				return count, err
			}
			if Away(failed) {
				break // only what is due for somebody else, if Redis still says it
			}
		}
		l.Yield()
	}
	return count, cmp.Or(err, ctx.Err())
}

// WithoutSlot does what waits for somebody else, without the slot of its partition.
func (l *Loop) WithoutSlot(do func()) {
	<-l.slots
	defer func() { l.slots <- struct{}{} }()
	do()
}

// Yield lets a partition that waits for a slot have its turn first.
func (l *Loop) Yield() { l.WithoutSlot(func() {}) }

// report logs what was done, of all partitions together once per interval.
func (l *Loop) report(count int) {
	l.done.Add(int64(count))
	now, told := l.Wall().UnixMilli(), l.told.Load()
	if now-told < l.Every.Milliseconds() || !l.told.CompareAndSwap(told, now) {
		return
	}
	if done := l.done.Swap(0); done > 0 {
		l.Log.Info("done", "work", l.Name, "count", done)
	}
}

// Once goes once over all partitions and adds up what was done.
func (l *Loop) Once(ctx context.Context) (int, error) {
	var group sync.WaitGroup
	var count atomic.Int64
	failed := make([]error, len(l.progress))
	for p := range l.progress {
		group.Go(func() {
			n, err := l.work(ctx, p)
			count.Add(int64(n))
			if !errors.Is(err, errClock) {
				failed[p] = err
			}
		})
	}
	group.Wait()
	return int(count.Load()), errors.Join(failed...)
}

// Ready reports the first partition that makes no progress.
func (l *Loop) Ready() error {
	limit := Stale(l.Every)
	for p := range l.progress {
		if !l.progress[p].Fresh(l.Wall(), limit) {
			return fmt.Errorf("%s: partition %d makes no progress", l.Name, p)
		}
	}
	return nil
}
