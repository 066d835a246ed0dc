package worker_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
)

// on sends a command for a key of each partition.
func on(t testing.TB, server *redistest.Server, command func(tag string) []any) {
	t.Helper()
	for p := range partitions {
		_ = server.Command(command(fmt.Sprintf("{p%02d}", p))...) // partitions that have no such key say so
	}
}

// A delivery whose event is no longer in the log fails for good, as an attempt
// of its own, and nothing is sent.
func TestEventExpired(t *testing.T) {
	server := redistest.Fresh(t)
	s := newShop(t, server.URL)
	in := newInbox(t)
	in.answers(status(http.StatusInternalServerError))
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.work(t, worker.Config{})
	s.pay(t, 1000)
	d := s.settled(t, hook, tollgate.DeliveryRetrying, 1)
	on(t, server, func(tag string) []any {
		return []any{"XTRIM", tag + ":" + s.Caller.Organization + ":events", "MAXLEN", "0"}
	})
	s.Clock.Set(d.NextAttemptAt.Time())
	d = s.settled(t, hook, tollgate.DeliveryFailed, 2)
	if *d.FailureReason != "event_expired" || d.NextAttemptAt != 0 || d.CompletedAt == 0 {
		t.Errorf("%+v", d)
	}
	a := s.attempts(t, d)
	if len(a) != 2 || a[1].Status != tollgate.AttemptFailed || a[1].Error == nil || a[1].Error.Code != "event_expired" || a[1].Response != nil {
		t.Errorf("%+v", a)
	}
	if len(in.all()) != 1 {
		t.Errorf("%d requests", len(in.all()))
	}
	if e := s.webhook(t, hook); e.Failures != 0 {
		t.Errorf("%d failures of the endpoint's", e.Failures)
	}
}

// What waits is counted, and how long the oldest has been due: an endpoint that
// keeps the only slot makes another one wait.
func TestQueueGauges(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	busy, next := newInbox(t), newInbox(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	busy.answers(func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	s.hook(t, busy.url, nil, newKey(t, 1, tollgate.SignatureV1))
	metrics := observe()
	s.work(t, worker.Config{Slots: 1, Observer: metrics})
	s.pay(t, 1000)
	<-arrived
	s.hook(t, next.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.pay(t, 1000)
	until(t, "three deliveries that wait or are sent", func() bool { return metrics.all("waiting") == 3 })
	if running := metrics.of("attempting"); running != 1 {
		t.Errorf("%v attempts run", running)
	}
	s.Clock.Advance(7 * time.Second)
	until(t, "seconds", func() bool { return metrics.all("oldest") == 7 })
	free()
	until(t, "empty queues", func() bool {
		return metrics.all("waiting") == 0 && metrics.all("oldest") == 0
	})
	until(t, "their count", func() bool { return metrics.of("attempted succeeded") == 3 })
	if n := len(next.all()); n != 1 {
		t.Errorf("%d at the second", n)
	}
}

// The worker carries a recovery out, and clears away what a deleted endpoint
// leaves behind.
func TestJobs(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	since := s.Now()
	s.commit(t)(tollgate.DisableWebhook(s.NewID, s.Origin(s.Caller), *s.webhook(t, hook), "gone"))
	metrics := observe()
	s.work(t, worker.Config{Observer: metrics})
	for range 3 {
		s.pay(t, 1000)
	}
	until(t, "held deliveries", func() bool {
		all := s.deliveries(t, hook)
		return len(all) == 3 && !slices.ContainsFunc(all, func(d tollgate.Delivery) bool { return d.State != tollgate.DeliveryHeld })
	})
	s.change(t, hook, func(e *tollgate.WebhookEndpoint) { e.Status = tollgate.WebhookActive })
	recovery, err := tollgate.RecoverWebhook(s.NewID, s.Origin(s.Caller), hook, since)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CommitRecovery(t.Context(), s.Caller, nil, recovery, rediskv.Answer{Status: 202}); err != nil {
		t.Fatal(err)
	}
	until(t, "the deliveries", func() bool { return len(in.all()) == 3 })
	until(t, "the recovery's end", func() bool {
		r, err := s.Recovery(t.Context(), s.Caller, hook, recovery.ID)
		return err == nil && r.State == "succeeded" && r.Looked == 3 && r.Queued == 3
	})
	until(t, "their records", func() bool { return metrics.of("attempted succeeded") == 3 })
	if d := s.deliveries(t, hook)[0]; s.attempts(t, d)[0].Trigger != tollgate.TriggeredByRecovery {
		t.Errorf("%+v", s.attempts(t, d))
	}

	in.answers(status(http.StatusInternalServerError))
	s.NextMilli(t)
	s.pay(t, 1000)
	until(t, "a delivery that is tried again", func() bool { return s.deliveries(t, hook)[0].State == tollgate.DeliveryRetrying })
	until(t, "its gauge", func() bool { return metrics.all("waiting") == 1 })
	s.remove(t, hook)
	until(t, "an empty queue", func() bool { return metrics.all("waiting") == 0 })
	s.Clock.Advance(time.Minute)
	s.looked(t)
	if len(in.all()) != 4 {
		t.Errorf("%d requests; a deleted endpoint gets no more", len(in.all()))
	}
	if metrics.of("rounds jobs") == 0 || metrics.of("failed jobs") != 0 {
		t.Error("the rounds are not counted, or fail")
	}
}

// A worker that starts trims the log of what is old and delivered, and of
// nothing else.
func TestTrimming(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	s.Clock.Set(time.Now()) // places in the log are Redis' time
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	stop := s.work(t, worker.Config{})
	s.pay(t, 1000)
	s.settled(t, hook, tollgate.DeliverySucceeded, 1)
	in.answers(status(http.StatusInternalServerError))
	s.pay(t, 1000)
	until(t, "a delivery that is tried again", func() bool { return s.deliveries(t, hook)[0].State == tollgate.DeliveryRetrying })
	stop()
	trimmed := func(want int) {
		t.Helper()
		metrics := observe()
		stop := s.work(t, worker.Config{Observer: metrics, KeepEvents: time.Hour})
		until(t, "a look at each partition", func() bool { return metrics.of("rounds trim") == partitions })
		stop()
		if metrics.of("failed trim") != 0 {
			t.Error("the round failed")
		}
		events, _, _, err := s.Events(t.Context(), s.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{"payment.authorized"}, Limit: 10})
		if err != nil || len(events) != want {
			t.Errorf("%d events are left, %v; want %d", len(events), err, want)
		}
	}
	trimmed(2) // they are young
	s.Clock.Advance(2 * time.Hour)
	trimmed(2) // one is not delivered, and what is near it stays as well
	in.answers(nil)
	s.Clock.Advance(2 * time.Hour)
	stop = s.work(t, worker.Config{KeepEvents: 24 * time.Hour})
	until(t, "the second delivery", func() bool { return s.deliveries(t, hook)[0].State == tollgate.DeliverySucceeded })
	stop()
	trimmed(1) // the newest, with its delivery
	if n := len(s.deliveries(t, hook)); n != 1 {
		t.Errorf("%d deliveries are listed", n)
	}
}

// A worker that joins has work at once, though another one is there; what one
// that left had taken and not handed on is taken over within seconds.
func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	server := redistest.Fresh(t)
	s := newShop(t, server.URL)
	in := newInbox(t)
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	in.answers(func(_ http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-req.Context().Done():
		}
	})
	s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	stop := s.work(t, worker.Config{Slots: 1})
	for range 4 {
		s.pay(t, 1000)
	}
	<-arrived // the first worker has all it can do
	joined := time.Now()
	leave := s.work(t, worker.Config{Slots: 1, Store: open(t, server.URL, s.Clock), Grace: time.Millisecond})
	<-arrived
	if took := time.Since(joined); took > 30*time.Second {
		t.Errorf("a worker that joined had its first attempt after %s", took)
	}
	if len(in.all()) != 2 {
		t.Errorf("%d requests at once", len(in.all()))
	}
	free()
	in.answers(nil)
	until(t, "the others", func() bool { return len(in.all()) == 4 })
	leave()
	stop()

	// A reader that took events and is gone.
	s.pay(t, 1000)
	left := time.Now()
	on(t, server, func(tag string) []any {
		return []any{"XREADGROUP", "GROUP", "workers", "gone", "COUNT", "10", "STREAMS", tag + ":dispatch", ">"}
	})
	s.work(t, worker.Config{Store: open(t, server.URL, s.Clock)})
	until(t, "what the dead reader had", func() bool { return len(in.all()) == 5 })
	if took := time.Since(left); took < time.Second || took > 30*time.Second {
		t.Errorf("taken over after %s", took)
	}
}

// A log that grows is cut again and again, and not once at each look at all logs.
func TestGrowingLogIsCutAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.Single(t).URL)
	log := s.Space(s.Caller.Organization).Audit()
	begun := time.Now()
	for round := range 4 {
		for range 600 {
			if err := s.Redis.Do(t.Context(), "XADD", log, "*", "b", "entry").Err(); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			s.work(t, worker.Config{})
		}
		until(t, "what is older is in segments", func() bool { return s.Redis.XLen(t.Context(), log).Val() <= 512 })
	}
	if took := time.Since(begun); took > 80*time.Second {
		t.Errorf("four times took %s: the log was looked at with all others", took)
	}
}
