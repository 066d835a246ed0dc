package simulate

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"tollgate/scripts/simulate/draw"
)

// Wire is between the processes and Redis, and has the only clock. It is the one
// seam of a simulation: everything that is said passes it one after the other, at
// moments that it chooses.
//
// What happens next happens when everybody waits (synctest.Wait). Then the wire makes
// one thing happen, and again waits until everybody waits. Times of arrival are drawn
// from the seed and from what is said, to the nanosecond, so that no two are the same
// and it does not matter which goroutine said it first.
type wire struct {
	chance draw.Chance
	origin time.Time // the bubble's moment that is start
	start  time.Time
	leapt  atomic.Int64

	mu     sync.Mutex
	events events
	wake   chan struct{}
	said   map[uint64]int // how often a process has said something

	redis   *machine
	lost    *machine                                 // that was there before; nil: Redis has not crashed
	known   int                                      // how many of its changes somebody may know of
	safe    int                                      // how many it never loses, unless it is emptied
	copy    backup                                   // that an operator has, while it is empty
	knows   map[*process]int                         // up to which of them a process has been told of events
	back    func(from time.Time, tellers []*process) // is told when it loses what is known
	bend    bend
	conns   []*conn // in the order in which they were made
	numbers int
	trouble trouble

	commands int
	trace    uint64
	packet   uint64 // of the trace
	lines    []string
	log      func(string, ...any) // the story; nil: nobody reads it
}

func newWire(seed draw.Chance, start time.Time) *wire {
	return &wire{
		chance: seed, origin: time.Now(), start: start, wake: make(chan struct{}, 1), said: map[uint64]int{},
		redis: newMachine(start), trouble: newTrouble(), knows: map[*process]int{},
	}
}

func (w *wire) close() {
	w.redis.close()
	if w.lost != nil {
		w.lost.close()
	}
}

// now is the time that everybody would know whose clock is right.
func (w *wire) now() time.Time {
	return w.start.Add(time.Since(w.origin) + time.Duration(w.leapt.Load())).UTC()
}

// leap has time pass for all clocks, while everybody sleeps.
func (w *wire) leap(d time.Duration) { w.leapt.Add(int64(d)) }

// event is something that will happen.
type event struct {
	at   time.Time // of the bubble
	tie  uint64
	what func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].tie < e[j].tie
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// at has something happen at a moment of the bubble.
func (w *wire) at(when time.Time, tie uint64, what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(when, tie, what)
}

func (w *wire) push(when time.Time, tie uint64, what func()) {
	heap.Push(&w.events, event{when, tie, what})
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// endless is longer than a story can last.
const endless = 3 * time.Hour

// run makes everything happen until it is over.
func (w *wire) run(over <-chan struct{}) {
	for events := 0; ; {
		synctest.Wait()
		select {
		case <-over:
			return
		default:
		}
		w.mu.Lock()
		if events++; events%collects == 0 {
			collect()
		}
		if time.Since(w.origin) > endless {
			panic("simulate: the story does not end") // and tells who holds it up
		}
		if len(w.events) > 0 && !w.events[0].at.After(time.Now()) {
			next := heap.Pop(&w.events).(event)
			w.mu.Unlock()
			next.what()
			w.traceOn()
			continue
		}
		wait := time.Hour
		if len(w.events) > 0 {
			wait = time.Until(w.events[0].at)
		}
		w.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-over:
		}
		timer.Stop()
	}
}

func latest(after, at time.Time) time.Time {
	if at.After(after) {
		return at
	}
	return after.Add(1)
}
