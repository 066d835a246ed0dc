package loop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tollgate"
	"tollgate/rediskv/agenda"
)

// looksApart is how many intervals are between two looks at what falls due in every
// partition. Between them a worker sleeps until the first of it does, or until it is
// told that something falls due sooner. What it is not told of, because the word was
// lost or a build before wrote it, it finds with the next look.
const looksApart = 20

// looksAtOnce bounds the looks that are under way.
const looksAtOnce = 16

// turned is how much more than a sleep a clock must go on to have been turned, or the
// process to have been frozen: then nothing that was read counts.
const turned = time.Second

// Agenda knows what falls due next, of each kind in each partition, and wakes those
// who do it. It asks Redis rarely: an idle worker costs next to nothing.
type Agenda struct {
	Common
	wake [agenda.Kinds]func(partition int)

	vacant []atomic.Bool // by partition

	mu      sync.Mutex
	next    []agenda.Next // by partition
	changed chan struct{} // something is due sooner than the agenda sleeps
	until   tollgate.Instant
	asked   map[int]bool // partitions to look at
	ask     chan struct{}
}

// NewAgenda makes one that knows of nothing yet.
func NewAgenda(c Common) *Agenda {
	a := &Agenda{Common: c, vacant: make([]atomic.Bool, c.Store.Partitions()), next: make([]agenda.Next, c.Store.Partitions()), changed: make(chan struct{}, 1), asked: make(map[int]bool), ask: make(chan struct{}, 1)}
	for p := range a.next {
		for kind := range a.next[p] {
			a.next[p][kind] = agenda.Never
		}
	}
	return a
}

// Wakes says who is woken when something of these kinds falls due. It is called
// before Run.
func (a *Agenda) Wakes(wake func(partition int), kinds ...agenda.Kind) {
	for _, k := range kinds {
		a.wake[k] = wake
	}
}

// Run works until ctx ends.
func (a *Agenda) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { a.Store.Listen(ctx, a.sooner, a.askAll) })
	parts.Go(func() { a.lookWhenAsked(ctx) })
	look := time.NewTicker(looksApart * a.Interval)
	defer look.Stop()
	for ctx.Err() == nil {
		before, sleep := a.Clock(), a.sleep()
		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
		case <-look.C:
			a.askAll()
		case <-a.changed:
		case <-timer.C:
		}
		timer.Stop()
		if a.Clock().Sub(before) > sleep+turned {
			a.askAll()
		}
		a.wakeDue()
	}
	parts.Wait()
}

// sooner is told by those who write.
func (a *Agenda) sooner(kind agenda.Kind, partition int) {
	switch kind {
	case agenda.Deliveries, agenda.Exports, agenda.Jobs: // who does it looks for itself
		a.wake[kind](partition)
	default:
		a.Ask(partition)
	}
}

// Ask has a partition looked at.
func (a *Agenda) Ask(partition int) {
	a.mu.Lock()
	a.asked[partition] = true
	a.mu.Unlock()
	poke(a.ask)
}

func (a *Agenda) askAll() {
	a.mu.Lock()
	for p := range a.next {
		a.asked[p] = true
	}
	a.mu.Unlock()
	poke(a.ask)
}

// lookWhenAsked looks at partitions, several at once: one whose Redis does not answer
// holds up no other.
func (a *Agenda) lookWhenAsked(ctx context.Context) {
	var looks sync.WaitGroup
	slots := make(chan struct{}, looksAtOnce)
	for {
		select {
		case <-ctx.Done():
			looks.Wait()
			return
		case <-a.ask:
		}
		a.mu.Lock()
		asked := a.asked
		a.asked = make(map[int]bool)
		a.mu.Unlock()
		for p := range asked {
			slots <- struct{}{}
			looks.Go(func() {
				defer func() { <-slots }()
				if a.Look(ctx, p) != nil && ctx.Err() == nil {
					a.Doubt(p)
				}
			})
		}
	}
}

// Look reads what falls due in a partition.
func (a *Agenda) Look(ctx context.Context, partition int) error {
	next, vacant, err := a.Store.Upcoming(ctx, partition)
	if err != nil {
		return err
	}
	a.vacant[partition].Store(vacant)
	for kind, at := range next {
		a.Expect(agenda.Kind(kind), partition, at)
	}
	return nil
}

// Vacant reports whether a partition had no organizations when it was last looked at.
func (a *Agenda) Vacant(partition int) bool { return a.vacant[partition].Load() }

// Doubt has everybody find out what is wrong with a partition.
func (a *Agenda) Doubt(partition int) {
	for _, wake := range a.wake {
		wake(partition)
	}
}

// Clear forgets when something falls due, for one who is about to look: what is
// expected from then on counts.
func (a *Agenda) Clear(kind agenda.Kind, partition int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next[partition][kind] = agenda.Never
}

// Expect notes that something falls due at a moment. What is known to be due sooner
// stays so.
func (a *Agenda) Expect(kind agenda.Kind, partition int, at tollgate.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at < a.next[partition][kind] {
		a.next[partition][kind] = at
		if at < a.until {
			poke(a.changed)
		}
	}
}

// Due says whether something of these kinds is due by now.
func (a *Agenda) Due(partition int, kinds ...agenda.Kind) bool {
	now := tollgate.At(a.Clock())
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range kinds {
		if a.next[partition][k] <= now {
			return true
		}
	}
	return false
}

// sleep is for how long nothing falls due, at most an interval: a clock may be turned.
func (a *Agenda) sleep() time.Duration {
	now := tollgate.At(a.Clock())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = agenda.Never
	for p := range a.next {
		for _, at := range a.next[p] {
			a.until = min(a.until, at)
		}
	}
	if a.until == agenda.Never {
		return a.Interval
	}
	return min(max(a.until.Time().Sub(now.Time()), 0), a.Interval)
}

// wakeDue wakes those who have something to do. It is theirs then to say what is next.
func (a *Agenda) wakeDue() {
	type due struct {
		kind      agenda.Kind
		partition int
	}
	var list []due
	now := tollgate.At(a.Clock())
	a.mu.Lock()
	for p := range a.next {
		for kind, at := range a.next[p] {
			if at <= now {
				a.next[p][kind] = agenda.Never
				list = append(list, due{agenda.Kind(kind), p})
			}
		}
	}
	a.mu.Unlock()
	for _, d := range list {
		a.wake[d.kind](d.partition)
	}
}

// poke wakes one who waits at a channel; once is as good as many times.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
