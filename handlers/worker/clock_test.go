package worker_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// A worker whose machine has another time than Redis lets nothing expire, closes no
// day, pays nothing and, a minute off, sends nothing. It says so, and goes on once the
// clock is right. The service's clock, which a sandbox turns, is not compared.
func TestWrongClockDoesNothing(t *testing.T) {
	t.Parallel() // it waits most of its time
	for name, c := range map[string]struct {
		off   time.Duration
		sends bool
	}{"ahead": {20 * time.Second, true}, "behind": {-20 * time.Second, true}, "far ahead": {200 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, redistest.URL(t))
			s.sell(t, 1000)
			id := s.pay(t, 1000)
			s.Clock.Advance(200 * time.Hour) // both are due long since
			var off atomic.Int64
			off.Store(int64(c.off))
			store := openWith(t, rediskv.Options{
				URL: s.URL, Clock: s.Clock.Now, Observe: s.Clock.observe,
				Wall: func() time.Time { return time.Now().Add(time.Duration(off.Load())) },
			})
			seen := observe()
			w := newWorker(t, worker.Config{Store: store, Clock: s.Clock.Now, Observer: seen})
			if c.sends {
				testkit.Eventually(t, "the clock is compared", func() bool { store.Beat(t.Context()); return store.CheckClock(health.ClockLimit) == nil })
			}
			looks, takes := s.Clock.looks.Load(), s.Clock.takes.Load()
			runs(t, w)
			for _, work := range []string{"clock", "payouts", "rules", "trim"} {
				testkit.Eventually(t, work+" is skipped", func() bool { return seen.of("skipped "+work) > 2*partitions })
			}
			if c.sends {
				testkit.Eventually(t, "deliveries are looked for", func() bool { return s.Clock.looks.Load() > looks })
			} else if seen.of("skipped deliveries") == 0 || s.Clock.takes.Load() != takes {
				t.Errorf("%v looks at deliveries were skipped, %d made", seen.of("skipped deliveries"), s.Clock.takes.Load()-takes)
			}
			if seen.of("rounds clock")+seen.of("rounds payouts") != 0 || s.status(t, id) != tollgate.Authorized || len(s.payouts(t)) != 0 {
				t.Errorf("by a wrong clock: %s, payouts %v", s.status(t, id), s.payouts(t))
			}
			if _, wrong := errors.AsType[*health.ClockError](w.Ready()); !wrong {
				t.Errorf("the worker says that it is %v", w.Ready())
			}
			off.Store(0)
			testkit.Eventually(t, "it goes on", func() bool { return s.status(t, id) == tollgate.Canceled || s.status(t, id) == tollgate.Expired })
			testkit.Eventually(t, "it pays", func() bool { return len(s.payouts(t)) > 0 })
			testkit.Eventually(t, "it is ready", func() bool { return w.Ready() == nil })
		})
	}
}
