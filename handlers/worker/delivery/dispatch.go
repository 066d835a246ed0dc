// Package delivery is the only one that sends requests to receivers: it makes
// deliveries of events, signs and sends them, and writes down every attempt.
package delivery

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tollgate"
	"tollgate/handlers/secret"
	"tollgate/handlers/worker/loop"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/health"
	"tollgate/rediskv/webhooks"
)

const (
	takeAtOnce = webhooks.MostAtOnce    // slots that one look at a partition asks for at most
	pace       = time.Millisecond / 4   // between looks that find something: attempts that end together make room together
	emptyPause = 5 * time.Millisecond   // after a look that found due endpoints and no work
	helpAgain  = time.Second            // between asking other workers for help, for a partition
	sharePause = 250 * time.Millisecond // at most, when all that is due is beyond its share: a slot that comes back wakes the partition
	clockPause = 50 * time.Millisecond  // while the clock is wrong, or nobody has compared it yet
)

// Config is what a dispatch works with.
type Config struct {
	loop.Common
	Agenda       *loop.Agenda   // says when attempts are due
	Vault        *secret.Vault  // of the endpoints' signing keys
	Random       func() float64 // in [0, 1)
	Slots        int            // attempts at the same time
	Lease        time.Duration  // how long an attempt may take before another worker repeats it
	Grace        time.Duration  // for running attempts at the end
	Backoff      Backoff        // between attempts
	DisableAfter time.Duration  // without a success
	Sender       SenderConfig
	Tracer       Tracer // nil: attempts have no spans
}

// Dispatch moves deliveries. In every partition one goroutine waits for events
// and makes their deliveries (fanOut), which begin at once where nothing else waits, and
// one takes the other attempts that are due (lease); attempts run in goroutines of their own, at most Slots in all
// partitions together. Nothing is assigned to a worker, so one that joins or
// leaves needs no agreement.
type Dispatch struct {
	Config
	sender     *Sender
	records    *records
	partitions []*partition
	slots      *slots
	reading    chan struct{}
	quiet      *quiet
	failing    atomic.Int32 // loops that have met an error and are not over it
	unsigned   sync.Map     // endpoints, by id, that this worker cannot sign for
}

// partition is one of Redis, as the dispatch sees it.
type partition struct {
	number     int
	due        chan struct{} // something may be due
	stirred    chan struct{} // it is quiet no more
	failed     atomic.Bool   // a fan-out, of what the one reader was handed
	alone      atomic.Bool   // the one reader was handed a single event, whose fan-out is under way
	helped     atomic.Int64  // when help was asked for last, Unix milliseconds
	read, take loop.Progress
}

// New makes one that does not run yet.
func New(c Config) *Dispatch {
	d := &Dispatch{
		Config: c, records: newRecords(c.Store, c.Lease),
		slots: newSlots(c.Slots), reading: make(chan struct{}, readAtOnce), quiet: newQuiet(), sender: NewSender(c.Sender),
	}
	for p := range c.Store.Partitions() {
		d.partitions = append(d.partitions, &partition{number: p, due: make(chan struct{}, 1), stirred: make(chan struct{}, 1)})
	}
	c.Agenda.Wakes(d.Wake, agenda.Deliveries)
	c.Agenda.Wakes(d.reclaim, agenda.Unfinished)
	return d
}

// Run works until ctx ends; then attempts that are running may finish for as
// long as the grace is, and the leases of those that do not run out.
func (d *Dispatch) Run(ctx context.Context) {
	defer d.sender.Close()
	attempts, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var loops, running sync.WaitGroup
	// Goroutines that have made an attempt wait for the next one: their stacks
	// have grown already. A new one begins only when all are busy.
	waiting := make(chan job)
	start := func(j job) {
		select {
		case waiting <- j:
		default:
			running.Go(func() {
				for ok := true; ok; j, ok = <-waiting {
					d.carryOut(attempts, j)
				}
			})
		}
	}
	// What is to be sent is read beside the next look at the partition.
	begin := func(p *partition, work []webhooks.Work) {
		if len(work) == 0 {
			return
		}
		loops.Go(func() {
			if err := d.Store.ReadBodies(attempts, work); err != nil {
				d.Log.Warn("what was taken cannot be attempted", "partition", p.number, "deliveries", len(work), "error", err)
				d.Store.Unsent(p.number, work)
				for _, w := range work {
					d.slots.release(w)
				}
				p.wake()
				return
			}
			for _, w := range work {
				start(job{p, w})
			}
		})
	}
	loops.Go(func() { d.watchQueues(ctx) })
	loops.Go(func() { d.readQuiet(ctx, begin) })
	for _, p := range d.partitions {
		loops.Go(func() { d.fanOut(ctx, p, begin) })
		loops.Go(func() { d.lease(ctx, p, begin) })
	}
	// From the end of ctx on, however long a fan-out takes to come back from Redis.
	context.AfterFunc(ctx, func() {
		loop.Wait(attempts, d.Grace, nil)
		abandon()
	})
	loops.Wait()
	close(waiting)
	running.Wait()
}

// job is an attempt to make, in a slot that is taken for it.
type job struct {
	partition *partition
	work      webhooks.Work
}

func (d *Dispatch) carryOut(ctx context.Context, j job) {
	d.Observer.Attempting(1)
	next := d.attempt(ctx, j.work)
	d.Observer.Attempting(-1)
	d.slots.release(j.work)
	d.expect(j.partition, next)
}

// expect has a partition looked at when something is due there; zero: nothing is.
func (d *Dispatch) expect(p *partition, next tollgate.Instant) {
	switch {
	case next == 0:
	case next.Time().After(d.Clock()):
		d.Agenda.Expect(agenda.Deliveries, p.number, next)
	default:
		p.wake()
	}
}

// lease takes what is due for as long as there are slots. It looks when it is
// woken: by a fan-out, the end of an attempt, the agenda, or another worker that has
// no room.
func (d *Dispatch) lease(ctx context.Context, p *partition, begin func(*partition, []webhooks.Work)) {
	trouble := trouble{d: d, what: "taking work"}
	refused := make(map[string]bool) // endpoints that got nothing, in looks that took nothing
	for ctx.Err() == nil {
		if err := d.Store.CheckClock(health.ClockLimit); err != nil { // receivers would refuse what it signs
			d.Observer.Skipped("deliveries")
			p.take.Made(d.Wall())
			loop.Wait(ctx, clockPause, nil)
			continue
		}
		p.take.Rest(trouble.current == 0) // until there is an answer
		// Slots are for what is known to be due: partitions whose Redis does not answer
		// must not keep them from the others.
		d.Agenda.Clear(agenda.Deliveries, p.number)
		var r reserved
		before, short := len(refused), false
		reserve := func(turns []*webhooks.Turn) {
			most := takeAtOnce
			if ctx.Err() != nil {
				most = 0
			}
			r = d.slots.take(p, turns, most)
			for _, t := range turns {
				if t.Room == 0 {
					refused[t.Endpoint.ID], short = true, true
				}
			}
		}
		// To the end also when ctx ends: what was taken is attempted.
		work, next, err := d.Store.TakeDue(context.WithoutCancel(ctx), p.number, reserve, d.Lease)
		d.slots.keep(p, r, work)
		begin(p, work)
		if err != nil {
			p.take.Rest(false)
			trouble.pause(ctx, err)
			continue
		}
		trouble.pause(ctx, nil)
		p.take.Made(d.Wall())
		switch {
		case len(work) > 0 && next != 0 && !next.Time().After(d.Clock()):
			clear(refused)
			loop.Wait(ctx, pace, nil)
		case len(refused) > before: // they are last in line now; others may be behind them
		case short:
			clear(refused)
			d.askForHelp(ctx, p)
			loop.Wait(ctx, min(d.Interval, sharePause), p.due)
		default:
			clear(refused)
			d.rest(ctx, p, next)
		}
	}
	if err := d.Store.EndUnsent(context.WithoutCancel(ctx), p.number); err != nil {
		d.Log.Warn("leases of what is not sent run out", "partition", p.number, "error", err)
	}
}

// rest waits until something may be due in a partition; next is when, as far as is
// known, 0 when nothing is queued.
func (d *Dispatch) rest(ctx context.Context, p *partition, next tollgate.Instant) {
	if next != 0 {
		if next.Time().Sub(d.Clock()) <= emptyPause {
			loop.Wait(ctx, emptyPause, p.due)
			return
		}
		d.Agenda.Expect(agenda.Deliveries, p.number, next)
	}
	p.take.Rest(true) // there is nothing to do
	select {
	case <-ctx.Done():
	case <-p.due:
	}
}

// askForHelp tells other workers, once in a while, that there is more to do than this
// one has room for: they sleep.
func (d *Dispatch) askForHelp(ctx context.Context, p *partition) {
	now, last := d.Wall().UnixMilli(), p.helped.Load()
	if now-last < helpAgain.Milliseconds() || !p.helped.CompareAndSwap(last, now) {
		return
	}
	if err := d.Store.AskForHelp(ctx, p.number); err != nil && ctx.Err() == nil {
		d.Log.Debug("other workers cannot be asked for help", "partition", p.number, "error", err)
	}
}

// Wake has a partition looked at: something may be due.
func (d *Dispatch) Wake(partition int) { d.partitions[partition].wake() }

// Ready reports the first loop that makes no progress.
func (d *Dispatch) Ready() error {
	limit := loop.Stale(d.Interval)
	for _, p := range d.partitions {
		if !p.read.Fresh(d.Wall(), limit) {
			return fmt.Errorf("fan-out of partition %d makes no progress", p.number)
		}
		if !p.take.Fresh(d.Wall(), limit) {
			return fmt.Errorf("deliveries of partition %d make no progress", p.number)
		}
	}
	return nil
}

// wake has the partition looked at; once is as good as many times.
func (p *partition) wake() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// trouble is what a loop does about errors: it waits longer each time, and
// says so once. An outage meets all loops at once and gets one line in the log.
type trouble struct {
	d       *Dispatch
	what    string
	current time.Duration // zero: none
}

// pause waits after an error; nil ends the trouble.
func (t *trouble) pause(ctx context.Context, err error) {
	switch {
	case err == nil && t.current == 0:
	case err == nil:
		t.current = 0
		if t.d.failing.Add(-1) == 0 {
			t.d.Log.Info("the dispatch goes on")
		}
	case ctx.Err() != nil:
	default:
		if t.current == 0 && t.d.failing.Add(1) == 1 {
			t.d.Log.Warn("the dispatch fails and goes on trying", "work", t.what, "error", err)
		}
		t.current = loop.Longer(t.current)
		loop.Wait(ctx, t.current, nil)
	}
}
