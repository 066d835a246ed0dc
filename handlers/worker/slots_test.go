package worker_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/redistest"
)

// newSlowInbox answers nothing until release.
func newSlowInbox(t *testing.T) (slow *inbox, release func()) {
	t.Helper()
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	slow = newInbox(t)
	slow.answers(func(http.ResponseWriter, *http.Request) { <-held })
	t.Cleanup(release)
	return slow, release
}

// TestSlowHostLeavesSlots: however many endpoints of however many organizations
// are at one host that does not answer, they leave slots to what goes elsewhere,
// and get those that they had again.
func TestSlowHostLeavesSlots(t *testing.T) {
	url := redistest.URL(t)
	slow, release := newSlowInbox(t)
	quick := newInbox(t)
	var greedy []*shop
	for range 2 {
		s := newShop(t, url)
		for n := range 4 {
			s.hook(t, slow.url, nil, newKey(t, n+1, tollgate.SignatureV1))
		}
		s.pay(t, 1000)
		s.pay(t, 1000)
		greedy = append(greedy, s)
	}
	modest := newShop(t, url)
	modest.hook(t, strings.Replace(quick.url, "127.0.0.1", "localhost", 1), nil, newKey(t, 1, tollgate.SignatureV1))
	greedy[0].work(t, worker.Config{Slots: 4, Interval: 10 * time.Millisecond, Lease: time.Hour, Timeouts: delivery.Timeouts{Connect: time.Minute, TLS: time.Minute, All: 30 * time.Minute}})
	until(t, "attempts at the slow host", func() bool { return len(slow.all()) >= 2 })
	greedy[0].looked(t)
	if n := len(slow.all()); n != 2 {
		t.Errorf("%d of 4 slots are for the slow host", n)
	}
	for n := range 3 {
		modest.pay(t, 1000)
		until(t, "what goes elsewhere", func() bool { return len(quick.all()) == n+1 })
	}
	if n := len(slow.all()); n != 2 {
		t.Errorf("%d attempts at the slow host", n)
	}
	release()
	until(t, "all deliveries", func() bool { return len(slow.all()) >= 16 })
}

// TestRefusedEndpointsGoToTheEnd: more endpoints than one look takes work from
// wait for a share of the slots, and what another organization sends elsewhere
// from the same partition is not behind them.
func TestRefusedEndpointsGoToTheEnd(t *testing.T) {
	url := redistest.URL(t)
	slow, release := newSlowInbox(t)
	quick := newInbox(t)
	greedy := newShopIn(t, url, 1)
	for range 40 {
		greedy.hook(t, slow.url, nil, newKey(t, 1, tollgate.SignatureV1))
	}
	greedy.pay(t, 1000)
	modest := newShopIn(t, url, 1)
	modest.hook(t, strings.Replace(quick.url, "127.0.0.1", "localhost", 1), nil, newKey(t, 1, tollgate.SignatureV1))
	greedy.Clock.ticks(t)
	greedy.work(t, worker.Config{Slots: 2, Lease: time.Hour, Timeouts: delivery.Timeouts{Connect: time.Minute, TLS: time.Minute, All: 30 * time.Minute}})
	until(t, "an attempt at the slow host", func() bool { return len(slow.all()) >= 1 })
	modest.Clock.Set(greedy.Clock.Now())
	modest.pay(t, 1000)
	until(t, "what goes elsewhere", func() bool { return len(quick.all()) == 1 })
	if n := len(slow.all()); n != 1 {
		t.Errorf("%d of 2 slots are for the slow host", n)
	}
	release()
	until(t, "all deliveries", func() bool { return len(slow.all()) == 40 })
}
