package rediskv_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/script"
	"tollgate/rediskv/webhooks"
)

// leasing is a fixture with one delivery that is due.
func leasing(t *testing.T, url string) (f *fixture, partition int) {
	t.Helper()
	f = newFixtureAt(t, url)
	f.sendable(t)
	return f, f.partition(t)
}

// by is a Store whose clock is apart from the fixture's.
func (f *fixture) by(t *testing.T, apart time.Duration) *fixture {
	t.Helper()
	store := openWith(t, rediskv.Options{URL: f.URL, Clock: func() time.Time { return f.Clock.Now().Add(apart) }})
	return &fixture{f.Through(store), f.tag}
}

// Workers whose clocks are apart have a delivery once: its lease is kept by Redis'
// time, whosever clock says that it is over.
func TestLeasesKeepRedisTime(t *testing.T) {
	const apart = 10 * time.Minute
	for _, first := range []time.Duration{-apart, 0, apart} {
		f, p := leasing(t, redistest.URL(t))
		f.Clock.Advance(apart) // it is due by all clocks
		holder := f.by(t, first)
		work, _, err := holder.TakeDue(t.Context(), p, upTo(10), lease)
		if err != nil || len(work) != 1 {
			t.Fatal(len(work), err)
		}
		for _, other := range []time.Duration{-apart, 0, apart} {
			for range 3 { // a look in which it seems due moves it on
				early, next, err := f.by(t, other).TakeDue(t.Context(), p, upTo(10), lease)
				if err != nil || len(early) != 0 {
					t.Errorf("of %s, by %s: %+v %v", first, other, early, err)
				}
				if now := tollgate.At(f.Clock.Now().Add(other)); next > now+tollgate.Instant((2*apart+lease).Milliseconds()) {
					t.Errorf("of %s, by %s: the next look is in %d ms", first, other, next-now)
				}
			}
		}
		if holder.record(t, work[0], succeeded) {
			t.Errorf("by %s: the holder is late", first)
		}
		if d := f.delivery(t, work[0]); d.State != tollgate.DeliverySucceeded || d.AttemptCount != 1 {
			t.Errorf("by %s: %+v", first, d)
		}
	}
}

// A sandbox's clock that is turned while a delivery is being sent ends no lease, and
// brings on what is due by it.
func TestTurnedClockEndsNoLease(t *testing.T) {
	f, _ := leasing(t, redistest.URL(t))
	work := f.take(t, 10)
	f.Clock.Advance(26 * time.Hour)
	for range 3 {
		if early := f.take(t, 10); len(early) != 0 {
			t.Fatalf("taken again: %+v", early)
		}
	}
	o := retrying
	o.Next = f.Now().Add(time.Hour)
	if f.record(t, work[0], o) {
		t.Error("late")
	}
	f.Clock.Advance(time.Hour)
	if again := f.take(t, 10); len(again) != 1 || again[0].Number != 2 || again[0].Died {
		t.Errorf("an hour later: %+v", again)
	}
}

// A worker that was frozen for longer than its lease did not hear the answer: that
// none came says nothing, whether or not another worker has had its turn. Its word
// costs the endpoint nothing, and no retry.
func TestLateTimeOutIsUnknown(t *testing.T) {
	f, _ := leasing(t, redistest.URL(t))
	timeOut := webhooks.Outcome{State: tollgate.DeliveryFailed, Reason: "timeout", Unheard: true}
	first := f.take(t, 10)[0]
	f.Died(t, lease)
	if !f.record(t, first, timeOut) {
		t.Error("a time-out counts after the lease, before anybody else has it")
	}
	if d := f.delivery(t, first); d.State != tollgate.DeliverySending || d.AttemptCount != 1 {
		t.Errorf("%+v", d)
	}
	second := f.take(t, 10)[0]
	if second.Number != 2 || second.Run != 1 || !second.Died {
		t.Errorf("%+v", second)
	}
	if !f.record(t, first, timeOut) {
		t.Error("a time-out counts although another worker has the delivery")
	}
	if f.record(t, second, succeeded) {
		t.Error("the second is late")
	}
	list := f.attempts(t, second)
	if len(list) != 2 || list[0].Status != tollgate.AttemptUnknown || list[1].Status != tollgate.AttemptSucceeded {
		t.Errorf("%+v", list)
	}
	if w := f.webhook(t, second.Endpoint.ID); w.Failures != 0 {
		t.Errorf("%d failures", w.Failures)
	}
}

// One that still holds its lease counts as ever, and so does an answer that was
// heard while nobody else has the delivery.
func TestWhatWasHeardCounts(t *testing.T) {
	f, _ := leasing(t, redistest.URL(t))
	first := f.take(t, 10)[0]
	o := webhooks.Outcome{State: tollgate.DeliveryRetrying, Next: f.Now().Add(time.Second), Reason: "timeout", Unheard: true}
	if f.record(t, first, o) {
		t.Error("a time-out within the lease is late")
	}
	f.Clock.Advance(time.Second)
	second := f.take(t, 10)[0]
	f.Died(t, lease)
	if f.record(t, second, succeeded) {
		t.Error("an answer that nobody else has asked for is late")
	}
	list := f.attempts(t, second)
	if len(list) != 2 || list[0].Status != tollgate.AttemptFailed || list[1].Status != tollgate.AttemptSucceeded {
		t.Errorf("%+v", list)
	}
}

// When no answer to take_work comes at all, what it leased is free with the next
// look: as if its worker had died a lease ago.
func TestLeasesWithoutAnAnswerEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	f, p := leasing(t, server.URL)
	hash := ""
	for _, one := range script.All() {
		if one.Name == "take_work" {
			hash = one.Hash()
		}
	}
	wire := redistest.Proxy(t, server.Addr)
	cut := openWith(t, rediskv.Options{URL: wire.URL, Clock: f.Clock.Now, Timeout: rediskv.OperationTimeout})
	lost := wire.SwallowReplyAfter("EVALSHA "+hash, wire.Refuse)
	if work, _, err := cut.TakeDue(t.Context(), p, upTo(10), lease); err == nil || len(work) != 0 {
		t.Fatal(len(work), err)
	}
	<-lost
	if early := f.take(t, 10); len(early) != 0 {
		t.Error("the lease does not hold")
	}
	wire.Accept()
	again, _, err := cut.TakeDue(t.Context(), p, upTo(10), lease)
	if err != nil || len(again) != 1 || again[0].Number != 2 || again[0].Run != 1 || !again[0].Died {
		t.Errorf("%+v %v", again, err)
	}
}

// A run of take_work that comes to Redis behind its own giving back takes nothing.
func TestGivenBackBeforeItCame(t *testing.T) {
	server := redistest.Single(t)
	f, p := leasing(t, server.URL)
	wire := redistest.Proxy(t, server.Addr)
	watched := openWith(t, rediskv.Options{URL: wire.URL, Clock: f.Clock.Now})
	work, _, err := watched.TakeDue(t.Context(), p, upTo(10), lease)
	if err != nil || len(work) != 1 {
		t.Fatal(len(work), err)
	}
	raw := rawClient(t, server.URL)
	for _, mark := range scanKeys(t, raw, "*:op:*") { // as if it had not come yet
		must(t, raw.Del(t.Context(), mark).Err())
	}
	watched.Unsent(p, work)
	must(t, watched.EndUnsent(t.Context(), p))
	f.Died(t, lease)
	for _, queue := range scanKeys(t, raw, "*:queue") { // what it did take is due
		must(t, raw.ZAddXX(t.Context(), queue, redis.Z{Score: 1, Member: work[0].DeliveryID}).Err())
	}
	for _, c := range wire.Sent() {
		if c.Name == "EVALSHA" && len(c.Args) > 0 {
			reply, _ := raw.Do(t.Context(), append([]any{c.Name}, rediskv.Anys(c.Args)...)...).Val().([]any)
			if len(reply) > 4 && reply[0] == "taken" {
				t.Errorf("it takes %v", reply)
			}
		}
	}
}
