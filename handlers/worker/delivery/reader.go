package delivery

import (
	"context"
	"sync"
	"time"

	"tollgate/handlers/worker/loop"
	"tollgate/rediskv/health"
	"tollgate/rediskv/webhooks"
)

const (
	// readAtOnce is how many fan-outs wait in Redis at the same time.
	readAtOnce = 256
	// longestWait is for how long a reader waits in Redis; the end of a worker waits
	// for it. In a cluster, where each partition has its own, they wait for longer, or
	// an idle worker would ask all the time.
	longestWait        = time.Second
	longestClusterWait = 3 * time.Second
	// quietAfter is how many readings in a row find nothing before a partition is
	// quiet, and quietAfterError after a fan-out that failed: by then what it left in
	// this worker's hands is taken up again.
	quietAfter, quietAfterError = 1, 5
)

// quiet are partitions of a single server in which nothing happens: one reader waits
// for all of them, where each busy one has its own. So an event is heard at once
// wherever it comes, and an idle worker asks for all partitions in one command. A
// partition goes on reading by itself until the one reader has taken it over.
type quiet struct {
	mu      sync.Mutex
	offered map[int]bool // whose own readers have found nothing
	shared  map[int]bool // that the one reader waits for
	news    chan struct{}
}

func newQuiet() *quiet {
	return &quiet{offered: make(map[int]bool), shared: make(map[int]bool), news: make(chan struct{}, 1)}
}

// offer says that a partition is quiet, and returns whether the one reader waits for
// it already.
func (q *quiet) offer(p int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shared[p] {
		return true
	}
	q.offered[p] = true
	select {
	case q.news <- struct{}{}:
	default:
	}
	return false
}

// busy says that a partition reads by itself.
func (q *quiet) busy(p int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.offered, p)
	delete(q.shared, p)
}

// all are the partitions that the one reader waits for from now on.
func (q *quiet) all() (list []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.offered {
		q.shared[p] = true
	}
	clear(q.offered)
	for p := range q.shared {
		list = append(list, p)
	}
	return list
}

// readQuiet is the one reader.
func (d *Dispatch) readQuiet(ctx context.Context, begin func(*partition, []webhooks.Work)) {
	var fanOuts sync.WaitGroup
	defer fanOuts.Wait()
	for ctx.Err() == nil {
		list := d.quiet.all()
		if len(list) == 0 {
			select {
			case <-ctx.Done():
			case <-d.quiet.news:
			}
			continue
		}
		handed, err := d.Store.ReadAny(context.WithoutCancel(ctx), list, d.Consumer, d.waiting())
		if err != nil { // each finds out by itself what is wrong, a group that is gone, too
			for _, p := range list {
				d.stir(p)
			}
			loop.Wait(ctx, loop.ShortPause, nil)
			continue
		}
		for _, p := range list {
			d.partitions[p].read.Made(d.Wall())
		}
		for _, h := range handed {
			p := d.partitions[h.Partition]
			// Where several events come at once, others may follow. One that comes alone
			// changes nothing.
			alone := h.Events() == 1 && p.alone.CompareAndSwap(false, true)
			if !alone {
				d.quiet.busy(p.number)
			}
			fanOuts.Go(func() {
				_, err := d.handOut(ctx, p, begin, func(l *webhooks.Leasing) (webhooks.Fanned, error) {
					return d.Store.FanOutHanded(context.WithoutCancel(ctx), h, l)
				})
				if err != nil {
					p.failed.Store(true)
				}
				if alone {
					p.alone.Store(false)
				}
				if err != nil || !alone {
					d.stir(p.number)
				}
			})
		}
	}
}

// handOut makes the deliveries of events, and begins the attempts that there is room for
// at once. What lines up instead is looked at.
func (d *Dispatch) handOut(ctx context.Context, p *partition, begin func(*partition, []webhooks.Work),
	fanOut func(*webhooks.Leasing) (webhooks.Fanned, error),
) (events int, err error) {
	r := make(reserved)
	f, err := fanOut(&webhooks.Leasing{For: d.Lease, Reserve: func(turns []*webhooks.Turn) {
		most := takeAtOnce
		if ctx.Err() != nil || d.Store.CheckClock(health.ClockLimit) != nil { // receivers would refuse what it signs
			most = 0
		}
		d.slots.takeAtOnce(turns, r, most)
	}})
	d.slots.giveUp(r, f.Work)
	begin(p, f.Work)
	if f.Events > 0 {
		d.Observer.FannedOut(f.Events)
	}
	if f.Due || err != nil {
		p.wake()
	}
	return f.Events, err
}

// stir has a partition read by itself.
func (d *Dispatch) stir(p int) {
	d.quiet.busy(p)
	select {
	case d.partitions[p].stirred <- struct{}{}:
	default:
	}
}

// reclaim has a partition look for what dead workers left in their hands.
func (d *Dispatch) reclaim(p int) {
	d.Store.Reclaim(p)
	d.stir(p)
}

// waiting is for how long a reader waits in Redis. With more partitions than may wait
// at once, each waits for less long, so that all have their turn as often.
func (d *Dispatch) waiting() time.Duration {
	if d.Store.Lanes() == 1 {
		wait := min(d.Interval, longestWait)
		return min(wait, wait*readAtOnce/time.Duration(len(d.partitions)))
	}
	wait := min(longestClusterWait/longestWait*d.Interval, longestClusterWait)
	return min(wait, wait*readAtOnce/time.Duration(len(d.partitions)))
}

// fanOut makes deliveries of the events that are handed over.
func (d *Dispatch) fanOut(ctx context.Context, p *partition, begin func(*partition, []webhooks.Work)) {
	trouble := trouble{d: d, what: "fan-out"}
	needed := quietAfter // readings that find nothing
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case d.reading <- struct{}{}:
		}
		// A call that was broken off would leave events in the hands of a
		// consumer that is no more, until another takes them over.
		events, err := d.handOut(ctx, p, begin, func(l *webhooks.Leasing) (webhooks.Fanned, error) {
			return d.Store.FanOut(context.WithoutCancel(ctx), p.number, d.Consumer, d.waiting(), l)
		})
		<-d.reading
		switch {
		case err != nil || p.failed.Swap(false):
			needed = quietAfterError
		case events > 0:
			needed = max(needed, quietAfter)
		default:
			needed--
		}
		if err == nil {
			p.read.Made(d.Wall())
		} else if trouble.current == 0 {
			d.Agenda.Doubt(p.number)
		}
		trouble.pause(ctx, err)
		if needed <= 0 && d.Store.Lanes() == 1 && d.quiet.offer(p.number) {
			select {
			case <-ctx.Done():
			case <-p.stirred:
				needed = quietAfter
			}
		}
	}
}
