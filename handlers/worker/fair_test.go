package worker_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/share/fair"
	"tollgate/handlers/worker"
	"tollgate/rediskv/redistest"
)

// silent are endpoints that take requests and answer none until they are told.
type silent struct {
	release atomic.Pointer[chan struct{}]
	arrived atomic.Int64
}

func (s *silent) answer(http.ResponseWriter, *http.Request) {
	wait := *s.release.Load()
	s.arrived.Add(1)
	<-wait
}

// TestFair measures the time from the commit of an event to the arrival of its
// first attempt, beside an organization of the same partition that has many
// endpoints, none of which answers, and more deliveries than a worker has slots.
func TestFair(t *testing.T) {
	fair.Wanted(t)
	const endpoints, every = 16, 20 * time.Millisecond
	modest, greedy := beside(t, redistest.URL(t))
	modest.Clock.ticks(t)
	greedy.Clock.ticks(t)
	key := newKey(t, 1, tollgate.SignatureV1)
	arrivals := make(chan time.Time, 1)
	elsewhere := strings.Replace(verifier(t, key, func(*http.Request, []byte) { arrivals <- time.Now() }), "127.0.0.1", "localhost", 1)
	modest.hook(t, elsewhere, nil, key)
	var slow silent
	open := make(chan struct{})
	close(open)
	slow.release.Store(&open)
	for range endpoints {
		greedy.hook(t, receiver(t, slow.answer).URL, nil, key)
	}
	modest.work(t, worker.Config{Slots: 256, Interval: time.Second, Grace: time.Millisecond})

	deliveries := int64(0)
	drained := func() {
		until(t, "the greedy one's deliveries", func() bool { return slow.arrived.Load() >= deliveries })
	}
	load := func(t *testing.T, _ bool) func() string {
		answers := make(chan struct{})
		slow.release.Store(&answers)
		stopped := make(chan struct{})
		before := deliveries
		var paying sync.WaitGroup
		paying.Go(func() {
			for {
				select {
				case <-stopped:
					return
				case <-time.After(every):
					greedy.pay(t, 1000)
					deliveries += endpoints
				}
			}
		})
		time.Sleep(500 * time.Millisecond) // what comes now finds the others under way
		return func() string {
			close(stopped)
			paying.Wait()
			held := slow.arrived.Load() - before
			slow.release.Store(&open)
			close(answers)
			drained()
			return fmt.Sprintf("%d events for %d silent endpoints, %d attempts held", (deliveries-before)/endpoints, endpoints, held)
		}
	}
	fair.Header()
	for range 3 { // endpoints that answer get more and more at once
		load(t, false)()
	}
	fair.Measure(t, fair.Resource{Name: "delivery", Uncontrolled: true, Greedy: load, Ask: func() (time.Duration, error) {
		modest.pay(t, 1000)
		start := time.Now()
		select {
		case came := <-arrivals:
			return came.Sub(start), nil
		case <-time.After(time.Minute):
			return 0, fmt.Errorf("no attempt in a minute")
		}
	}})
}
