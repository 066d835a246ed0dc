package rediskv_test

import (
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/webhooks"
)

// queueDepths are those of all partitions.
func (f *fixture) queueDepths(t testing.TB) ([]webhooks.Depth, error) {
	all := make([]int, f.Partitions())
	for p := range all {
		all[p] = p
	}
	return f.QueueDepths(t.Context(), all)
}

func (f *fixture) depth(t testing.TB) (d webhooks.Depth) {
	t.Helper()
	depths, err := f.queueDepths(t)
	if err != nil || len(depths) > 1 {
		t.Fatal(depths, err)
	}
	if len(depths) == 1 {
		d = depths[0]
	}
	return d
}

// What is due waits since it was due, whatever keeps it: the endpoint's cap, a
// pause, or a worker that died. What is being sent does not wait.
func TestQueueDepths(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	if d := f.depth(t); d != (webhooks.Depth{}) {
		t.Errorf("at first %+v", d)
	}
	expect := func(when string, waiting int64, since tollgate.Instant) {
		t.Helper()
		d := f.depth(t)
		if d.Waiting != waiting || d.OldestDue != since {
			t.Errorf("%s: %d wait since %s, want %d since %s", when, d.Waiting, d.OldestDue, waiting, since)
		}
	}
	begin := f.Now()
	for range 10 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	f.fanOut(t, "a")
	f.Clock.Advance(time.Minute)
	expect("before they are taken", 10, begin)
	work := f.take(t, 100)
	expect("when the endpoint has all it may have", 10, begin)
	for _, w := range work[:7] {
		f.record(t, w, succeeded)
	}
	pause := f.Now().Add(time.Hour)
	f.record(t, work[7], webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: pause, Pause: pause, StatusCode: 429})
	expect("while the endpoint is paused", 3, begin)
	f.Clock.Advance(time.Hour)
	last := f.take(t, 100)
	f.record(t, last[0], succeeded)
	last = f.take(t, 100)
	if len(last) != 2 {
		t.Fatalf("%d taken", len(last))
	}
	expect("while all are being sent", 2, 0)
	f.Clock.Advance(2 * lease)
	expect("after their worker has died", 2, f.Now().Add(-lease))
}

// An endpoint that was made, used and deleted leaves nothing in memory.
func TestDeletedEndpointIsForgotten(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		w := f.endpoint(t)
		f.Pay(t, eur(100), tollgate.CaptureManual)
		f.fanOut(t, "a")
		f.record(t, f.take(t, 1)[0], succeeded)
		if f.KnownEndpoints() == 0 {
			t.Error("an endpoint in use is read each time")
		}
		must(t, f.deleteWebhook(t, *f.webhook(t, w.ID)))
	}
	if _, err := f.queueDepths(t); err != nil {
		t.Fatal(err)
	}
	if n := f.KnownEndpoints(); n != 0 {
		t.Errorf("%d endpoints are kept", n)
	}
}
