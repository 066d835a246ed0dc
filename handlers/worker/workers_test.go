package worker_test

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// At the end running attempts finish and are recorded; those that do not
// finish within the grace are broken off, and stay to be found.
func TestStop(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	in.answers(func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		select {
		case <-answer:
		case <-req.Context().Done():
		}
	})
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	run := func(grace time.Duration) (context.CancelFunc, chan struct{}) {
		w := newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now, Development: true, Interval: 20 * time.Millisecond, Grace: grace})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		return cancel, done
	}
	cancel, done := run(10 * time.Second)
	s.pay(t, 1000)
	<-arrived
	cancel()
	s.pay(t, 1000)
	answer <- struct{}{}
	<-done
	if all := s.deliveries(t, hook); all[len(all)-1].State != tollgate.DeliverySucceeded {
		t.Errorf("%+v", all)
	}
	if len(in.all()) != 1 {
		t.Error("work was taken at the end")
	}

	cancel, done = run(50 * time.Millisecond)
	<-arrived
	cancel()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Run waits for an attempt that does not end")
	}
	if d := s.deliveries(t, hook)[0]; d.State != tollgate.DeliverySending || d.AttemptCount != 1 {
		t.Errorf("%+v", d)
	}
	until(t, "the end of all goroutines", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(stacks, []byte("tollgate/handlers/worker.")) && !bytes.Contains(stacks, []byte("net/http.(*persistConn)"))
	})
}

// No more attempts run at once than there are slots, whatever waits.
func TestSlots(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	var running, most atomic.Int32
	in.answers(func(http.ResponseWriter, *http.Request) {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond) // so that attempts meet
		running.Add(-1)
	})
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	for range 60 {
		s.pay(t, 1000)
	}
	s.work(t, worker.Config{Slots: 3})
	until(t, "all deliveries", func() bool { return len(in.all()) >= 60 })
	until(t, "their end", func() bool {
		return !slices.ContainsFunc(s.deliveries(t, hook), func(d tollgate.Delivery) bool { return d.State != tollgate.DeliverySucceeded })
	})
	if most.Load() > 3 || most.Load() < 2 || len(in.all()) != 60 {
		t.Errorf("%d at once, %d in all", most.Load(), len(in.all()))
	}
}

// A partition whose Redis does not answer keeps no slots from the others.
func TestHungPartitionKeepsNoSlots(t *testing.T) {
	address := redistest.URL(t)
	in := newInbox(t)
	var shops []*shop
	for range 12 { // in more than one partition
		s := newShop(t, address)
		s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
		s.pay(t, 1000)
		shops = append(shops, s)
	}
	hung, goOn := make(chan struct{}), make(chan struct{})
	var looks atomic.Int32
	store := openWith(t, rediskv.Options{
		URL: address, Clock: shops[0].Clock.Now,
		Observe: func(operation string, _ time.Duration, _ error) {
			if operation == "ready_endpoints" && looks.Add(1) == 1 {
				close(hung)
				<-goOn
			}
		},
	})
	shops[0].work(t, worker.Config{Store: store, Slots: 1})
	t.Cleanup(func() { close(goOn) })
	<-hung
	until(t, "a delivery from another partition", func() bool { return len(in.all()) > 0 })
}

// Queues are looked at when something is handed over and when an attempt has
// ended, not only once in an interval.
func TestNobodyWaitsForTheInterval(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.work(t, worker.Config{Interval: time.Hour, Slots: 2})
	for n := range 10 {
		s.pay(t, 1000)
		if n == 0 {
			until(t, "the first delivery", func() bool { return len(in.all()) == 1 })
		}
	}
	until(t, "all deliveries", func() bool { return len(in.all()) == 10 })
}

// An endpoint gets so many at once; the others follow as soon as these end.
func TestBacklog(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	in.answers(func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
	s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	for range 20 {
		s.pay(t, 1000)
	}
	s.work(t, worker.Config{Interval: time.Hour})
	until(t, "all deliveries", func() bool { return len(in.all()) == 20 })
}

// Workers that come and go lose nothing and, as long as they end well, repeat
// nothing.
func TestWorkersShareDeliveries(t *testing.T) {
	address := redistest.URL(t)
	s := newShop(t, address)
	in := newInbox(t)
	s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	var stops []func()
	for range 10 {
		stops = append(stops, s.work(t, worker.Config{Store: open(t, address, s.Clock)}))
	}
	const payments = 90
	for n := range payments {
		if n == payments/3 {
			stops[0]()
		}
		if n == payments/2 {
			s.work(t, worker.Config{Store: open(t, address, s.Clock)})
		}
		s.pay(t, 1000)
	}
	until(t, "all deliveries", func() bool { return len(in.all()) >= payments })
	seen := map[string]int{}
	for _, r := range in.all() {
		seen[r.header.Get("Webhook-Id")]++
	}
	if len(seen) != payments || len(in.all()) != payments {
		t.Errorf("%d events in %d requests", len(seen), len(in.all()))
	}
}

// What is committed while the worker cannot reach Redis is delivered after.
func TestDispatchOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := newShop(t, server.URL)
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	wire := redistest.Proxy(t, server.Addr)
	s.work(t, worker.Config{Store: away(t, wire.URL, s.Clock)})
	s.pay(t, 1000)
	s.settled(t, hook, tollgate.DeliverySucceeded, 1)

	// The answer comes while the attempt cannot be recorded.
	arrived := make(chan struct{})
	in.answers(func(http.ResponseWriter, *http.Request) {
		wire.Refuse()
		close(arrived)
	})
	s.pay(t, 1000)
	<-arrived
	in.answers(nil)
	s.pay(t, 1000)
	until(t, "an attempt that cannot be recorded", func() bool { return s.Clock.unrecorded.Load() > 0 })
	wire.Accept()
	until(t, "all deliveries", func() bool {
		all := s.deliveries(t, hook)
		return len(all) == 3 && !slices.ContainsFunc(all, func(d tollgate.Delivery) bool { return d.State != tollgate.DeliverySucceeded || d.AttemptCount != 1 })
	})
}

// Redis goes away between the lease and the reading of what to send: the slot
// is free again, and the next attempt takes place as soon as Redis is back.
func TestSlotsComeBackWithoutBodies(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := newShop(t, server.URL)
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	wire := redistest.Proxy(t, server.Addr)
	var away sync.Once
	unread := make(chan struct{}, 10)
	store := openWith(t, rediskv.Options{
		URL: wire.URL, Clock: s.Clock.Now, Timeout: rediskv.OperationTimeout,
		Observe: func(operation string, _ time.Duration, err error) {
			if operation == "fan_out" && err == nil { // it leases what comes alone
				away.Do(wire.Refuse)
			}
			if operation == "read_bodies" && err != nil {
				unread <- struct{}{}
			}
		},
	})
	s.pay(t, 1000)
	s.work(t, worker.Config{Store: store, Slots: 1})
	<-unread
	wire.Accept()
	until(t, "the delivery", func() bool { return len(in.all()) == 1 })
	d := s.settled(t, hook, tollgate.DeliverySucceeded, 2)
	if a := s.attempts(t, d); len(a) != 2 || a[0].Status != tollgate.AttemptUnknown || a[1].Status != tollgate.AttemptSucceeded {
		t.Errorf("%+v", a)
	}
}
