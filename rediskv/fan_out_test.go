package rediskv_test

import (
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

// hand makes the deliveries of what is handed over, and leases up to so many at once.
func (f *fixture) hand(t *testing.T, most int) (work []webhooks.Work, queued int) {
	t.Helper()
	p, l := f.partition(t), &webhooks.Leasing{Reserve: upTo(most), For: lease}
	for {
		fanned, err := f.FanOut(t.Context(), p, "a", time.Millisecond, l)
		if err != nil {
			t.Fatal(err)
		}
		if fanned.Events == 0 {
			must(t, f.ReadBodies(t.Context(), work))
			return work, queued
		}
		work, queued = append(work, fanned.Work...), queued+fanned.Queued
	}
}

// An endpoint at which nothing waits gets what it has room for as the deliveries are made,
// in the order of the events. The rest lines up, and so does what comes behind it.
func TestFanOutLeases(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	const first = 8 // what an endpoint gets at once before it has answered
	for range first + 3 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	work, queued := f.hand(t, 100)
	if len(work) != first || queued != 3 {
		t.Fatalf("%d leased, %d queued", len(work), queued)
	}
	for i, w := range work {
		if w.Number != 1 || w.Run != 1 || w.Trigger != tollgate.TriggeredBySchedule || w.Body == nil || i > 0 && sequence(t, w.Body) <= sequence(t, work[i-1].Body) {
			t.Errorf("%d: %+v", i, w)
		}
		if d := f.delivery(t, w); d.State != tollgate.DeliverySending || d.AttemptCount != 1 {
			t.Errorf("%+v", d)
		}
	}
	if early := f.take(t, 100); len(early) != 0 {
		t.Errorf("%d more than the endpoint has room for", len(early))
	}
	for _, w := range work {
		if f.record(t, w, succeeded) {
			t.Error("late")
		}
	}
	f.Clock.Advance(time.Millisecond)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	if again, queued := f.hand(t, 100); len(again) != 0 || queued != 1 {
		t.Errorf("%d leased and %d queued beside others that are due", len(again), queued)
	}
	rest := f.take(t, 100)
	if len(rest) != 4 || sequence(t, rest[0].Body) <= sequence(t, work[first-1].Body) || sequence(t, rest[1].Body) <= sequence(t, rest[0].Body) || sequence(t, rest[2].Body) <= sequence(t, rest[1].Body) {
		t.Errorf("%+v", rest)
	}
}

// Nothing is leased for an endpoint that was changed, disabled or is paused: whoever takes
// from its queue sees to it.
func TestFanOutLeasesNothing(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *fixture, *tollgate.StoredWebhook){
		"it was changed by another instance": func(t *testing.T, f *fixture, w *tollgate.StoredWebhook) {
			raw, _ := f.raw(t) // but not what the fan-out knows of all
			must(t, raw.HIncrBy(t.Context(), f.Space(f.Caller.Organization).Object(w.ID), "v", 1).Err())
		},
		"it is paused": func(t *testing.T, f *fixture, w *tollgate.StoredWebhook) {
			o := retrying
			o.Next, o.Pause = f.Now().Add(time.Hour), f.Now().Add(time.Hour)
			f.Pay(t, eur(100), tollgate.CaptureManual)
			work, _ := f.hand(t, 100)
			f.record(t, work[0], o)
		},
		"no slot is free": func(t *testing.T, f *fixture, _ *tollgate.StoredWebhook) {},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			w := f.endpoint(t)
			f.Pay(t, eur(100), tollgate.CaptureManual)
			work, _ := f.hand(t, 100)
			f.record(t, work[0], succeeded)
			change(t, f, w)
			f.Pay(t, eur(100), tollgate.CaptureManual)
			most := 100
			if name == "no slot is free" {
				most = 0
			}
			if work, queued := f.hand(t, most); len(work) != 0 || queued != 1 {
				t.Errorf("%d leased, %d queued", len(work), queued)
			}
		})
	}
}

// When no answer to a fan-out comes at all, what it leased is free with the next look.
func TestFanOutWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	p := f.partition(t)
	f.fanOutGroup(t, p)
	wire := redistest.Proxy(t, server.Addr)
	cut := openWith(t, rediskv.Options{URL: wire.URL, Clock: f.Clock.Now, Timeout: rediskv.OperationTimeout})
	lost := wire.SwallowReplyAfter("EVALSHA "+hashOf("fan_out"), wire.Refuse)
	fanned, err := cut.FanOut(t.Context(), p, "a", time.Millisecond, &webhooks.Leasing{Reserve: upTo(10), For: lease})
	if err == nil || len(fanned.Work) != 0 {
		t.Fatal(fanned, err)
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

// fanOutGroup has the consumer group of a partition made.
func (f *fixture) fanOutGroup(t *testing.T, p int) {
	t.Helper()
	must(t, rawClient(t, f.URL).XGroupCreateMkStream(t.Context(), rediskv.DispatchKey(p), rediskv.DispatchGroup, "0").Err())
}

// A replay between fan-out and lease, within the same millisecond, is what is sent: that
// the worker has made the delivery itself says nothing any more.
func TestReplayBeforeTheFirstAttempt(t *testing.T) {
	f := newFixture(t)
	w := f.sendable(t)
	list, _, _, err := f.Deliveries(t.Context(), f.Caller, w.ID, webhooks.DeliveryQuery{Limit: 10})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	id, err := f.replay(t, w.ID, list[0].ID)
	must(t, err)
	work := f.take(t, 1)
	if len(work) != 1 || work[0].Trigger != tollgate.TriggeredByReplay || work[0].ReplayID != id {
		t.Errorf("%+v", work)
	}
}

// An attempt that an earlier release began, and whose worker died, is written down with
// the address that this release finds where that has left it.
func TestTargetOfAnEarlierRelease(t *testing.T) {
	f := newFixture(t)
	w := f.sendable(t)
	d := f.take(t, 1)[0]
	raw, _ := f.raw(t)
	k := f.Space(f.Caller.Organization)
	const then = "https://then.example/hooks"
	must(t, raw.HDel(t.Context(), k.Object(d.DeliveryID), "to").Err())
	must(t, raw.HSet(t.Context(), k.Targets(w.ID), d.DeliveryID, then).Err())
	f.Died(t, lease)
	second := f.take(t, 1)[0]
	f.record(t, second, succeeded)
	if list := f.attempts(t, second); len(list) != 2 || list[0].URL != then || list[1].URL != w.URL {
		t.Errorf("%+v", list)
	}
	if n := raw.Exists(t.Context(), k.Targets(w.ID)).Val(); n != 0 {
		t.Error("the address is kept")
	}
}

// A worker has events in its hands that Redis has lost meanwhile, and it does not know yet:
// there are no deliveries of what is not there.
func TestFanOutOfWhatIsLost(t *testing.T) {
	f := newFixture(t)
	w := f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	p := f.Partition(f.Caller.Organization)
	_, err := f.FanOut(t.Context(), p, "a", time.Millisecond, nil) // the group is made
	must(t, err)
	raw, _ := f.raw(t)
	k := f.Space(f.Caller.Organization)
	made := raw.ZCard(t.Context(), k.Deliveries(w.ID)).Val()
	f.Pay(t, eur(100), tollgate.CaptureManual)
	handed, err := f.ReadAny(t.Context(), []int{p}, "a", time.Second)
	if err != nil || len(handed) != 1 || handed[0].Events() == 0 {
		t.Fatal(handed, err)
	}
	for _, m := range raw.XRange(t.Context(), k.Dispatch, "-", "+").Val() {
		must(t, raw.XAck(t.Context(), k.Dispatch, rediskv.DispatchGroup, m.ID).Err())
		must(t, raw.XDel(t.Context(), k.Dispatch, m.ID).Err())
	}
	fanned, err := f.FanOutHanded(t.Context(), handed[0], &webhooks.Leasing{Reserve: upTo(10), For: lease})
	if now := raw.ZCard(t.Context(), k.Deliveries(w.ID)).Val(); err != nil || len(fanned.Work) > 0 || made == 0 || now != made {
		t.Errorf("%+v, %v: %d deliveries, and before %d", fanned, err, now, made)
	}
}
