package worker_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// How many commands a delivery costs Redis, those of scripts included. On a machine with
// time to spare these are 6.9 and 32; on a busy one fewer attempts end together.
const (
	commandsOfBacklog = 8.0 // each of many that wait
	commandsAlone     = 36  // one that comes while nothing else happens

	// allocationsOfBacklog are of each of many, those of whoever receives it included.
	allocationsOfBacklog = 310 // measured: 293 to 295
)

// since is what came after a tally, and the sum of it.
func since(before, after map[string]int) (counts map[string]int, sum int) {
	counts = map[string]int{}
	for name, n := range after {
		if n -= before[name]; n > 0 {
			counts[name] = n
			sum += n
		}
	}
	return counts, sum
}

// listed are counts, most first.
func listed(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ")
}

// counting is a shop on a real Redis, whose commands are counted, with one endpoint.
func counting(t *testing.T) (s *shop, arrived *atomic.Int64) {
	t.Helper()
	s = newShop(t, redistest.Started(t, redistest.Real).URL)
	arrived = new(atomic.Int64)
	url := receiver(t, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }).URL
	s.hook(t, url, nil, newKey(t, 1, tollgate.SignatureV1))
	return s, arrived
}

// deliver runs a worker that does nothing but deliver.
func (s *shop) deliver(t *testing.T, c worker.Config) {
	t.Helper()
	c.Clock, c.Development, c.Interval = s.Clock.Now, true, time.Hour
	w := newWorker(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Deliver(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// Many deliveries that wait cost Redis few commands each.
func TestCommandsOfABacklog(t *testing.T) {
	s, arrived := counting(t)
	s.Clock.Set(time.Now())
	s.Clock.ticks(t)
	const backlog = 2000
	for range backlog {
		s.pay(t, 1000)
	}
	metrics := observe()
	before := redistest.Commands(t, s.URL)
	var began, ended runtime.MemStats
	runtime.ReadMemStats(&began)
	s.deliver(t, worker.Config{Store: s.Store, Observer: metrics})
	until(t, "all records", func() bool { return metrics.of("attempted succeeded") == backlog })
	runtime.ReadMemStats(&ended)
	if each := (ended.Mallocs - began.Mallocs) / backlog; each > allocationsOfBacklog && !redistest.RaceDetector {
		t.Errorf("%d allocations for each of %d deliveries, the receiver's included", each, backlog)
	}
	counts, sum := since(before, redistest.Commands(t, s.URL))
	if each := float64(sum) / backlog; each > commandsOfBacklog || arrived.Load() != backlog {
		t.Errorf("%.2f commands for each of %d deliveries: %s", each, backlog, listed(counts))
	}
}

// A delivery that comes alone costs a known number of commands.
func TestCommandsOfOneDelivery(t *testing.T) {
	s, arrived := counting(t)
	s.pay(t, 1000)
	from := redistest.Commands(t, s.URL)
	s.pay(t, 1000)
	_, payment := since(from, redistest.Commands(t, s.URL))
	metrics := observe()
	s.deliver(t, worker.Config{Store: openWith(t, rediskv.Options{URL: s.URL, Clock: s.Clock.Now}), Observer: metrics})
	until(t, "the first records", func() bool { return metrics.of("attempted succeeded") == 2 })
	for range 10 { // caps, connections and scripts
		n := metrics.of("attempted succeeded")
		s.pay(t, 1000)
		until(t, "a record", func() bool { return metrics.of("attempted succeeded") == n+1 })
	}
	const times = 10
	var all []int
	counts := map[string]int{}
	for n := range times {
		resting(t, s)
		before := redistest.Commands(t, s.URL)
		s.pay(t, 1000)
		until(t, "the record", func() bool { return metrics.of("attempted succeeded") == float64(13+n) })
		resting(t, s)
		one, sum := since(before, redistest.Commands(t, s.URL))
		all = append(all, sum-payment)
		for name, n := range one {
			counts[name] += n
		}
	}
	slices.Sort(all)
	if median := all[times/2]; median > commandsAlone || arrived.Load() != 12+times {
		t.Errorf("%d commands, in %v (a payment has %d): %s in all %d", median, all, payment, listed(counts), times)
	}
}

// resting waits until nobody asks Redis for anything but to be told of events.
func resting(t *testing.T, s *shop) {
	t.Helper()
	before, changed := redistest.Commands(t, s.URL), time.Now()
	until(t, "a worker that rests", func() bool {
		after := redistest.Commands(t, s.URL)
		if _, sum := since(before, after); sum > 0 {
			before, changed = after, time.Now()
		}
		return time.Since(changed) > 100*time.Millisecond
	})
}
