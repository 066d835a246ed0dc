package worker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

// An event becomes one delivery, its body is the event's JSON as it is listed,
// and the attempt keeps what happened.
func TestDelivery(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	metrics := observe()
	s.work(t, worker.Config{Observer: metrics})
	s.pay(t, 1000)
	d := s.settled(t, hook, tollgate.DeliverySucceeded, 1)
	events, _, _, err := s.Events(t.Context(), s.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{"payment.*"}, Limit: 10})
	if err != nil || len(events) != 1 {
		t.Fatal(len(events), err)
	}
	got := in.all()
	if len(got) != 1 || got[0].body != string(events[0]) || got[0].header.Get("Webhook-Id") != d.EventID {
		t.Errorf("%v; want %s", got, events[0])
	}
	sum := sha256.Sum256(events[0])
	a := s.attempts(t, d)[0]
	if a.Number != 1 || a.Status != tollgate.AttemptSucceeded || a.Trigger != tollgate.TriggeredBySchedule || a.DeliveryID != d.ID || a.URL != in.url ||
		a.Request.BodySHA256 != hex.EncodeToString(sum[:]) || a.Request.BodyBytes != len(events[0]) || a.Response.StatusCode != 200 || a.Error != nil ||
		!slices.Equal(a.SigningKeys, []tollgate.AttemptKey{{Version: 1, Scheme: "v1"}}) || a.NextAttemptAt != 0 || a.DurationMS == nil || a.Timing.ConnectMS == nil {
		t.Errorf("%+v", a)
	}
	if *d.LastStatusCode != 200 || d.CompletedAt == 0 || d.FailureReason != nil && *d.FailureReason != "" {
		t.Errorf("%+v", d)
	}
	until(t, "the metric", func() bool { return metrics.of("attempted succeeded") == 1 })
}

// Ten attempts at the times of the table, within the jitter; the next time is
// computed once, kept and shown; every body is that of the first attempt, also
// that of a replay a week later.
func TestRetryClock(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	in.answers(status(http.StatusInternalServerError))
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.pay(t, 1000)
	s.work(t, worker.Config{})
	waits := delivery.DefaultBackoff.Waits
	for n := 1; n < len(waits); n++ {
		d := s.settled(t, hook, tollgate.DeliveryRetrying, n)
		wait := d.NextAttemptAt.Time().Sub(d.LastAttemptAt.Time())
		if wait < waits[n]*8/10-time.Millisecond || wait > waits[n]*12/10 {
			t.Errorf("attempt %d is %s after the one before; the table says %s", n+1, wait, waits[n])
		}
		if a := s.attempts(t, d); len(a) != n || a[n-1].NextAttemptAt != d.NextAttemptAt || a[n-1].Status != tollgate.AttemptFailed || a[n-1].Number != n {
			t.Errorf("attempt %d: %+v", n, a)
		}
		s.Clock.Set(d.NextAttemptAt.Time().Add(-time.Millisecond))
		s.looked(t)
		if len(in.all()) != n {
			t.Fatalf("attempt %d came too early: %d requests, %+v", n+1, len(in.all()), s.deliveries(t, hook))
		}
		s.Clock.Advance(time.Millisecond)
	}
	d := s.settled(t, hook, tollgate.DeliveryFailed, len(waits))
	if d.FailureReason == nil || *d.FailureReason != "http_500" || d.CompletedAt == 0 || d.NextAttemptAt != 0 {
		t.Errorf("%+v", d)
	}
	s.Clock.Advance(7 * 24 * time.Hour)
	in.answers(nil)
	r, err := tollgate.ReplayDelivery(s.NewID, s.Origin(s.Caller), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CommitReplay(t.Context(), s.Caller, nil, r, rediskv.Answer{Status: 202}); err != nil {
		t.Fatal(err)
	}
	d = s.settled(t, hook, tollgate.DeliverySucceeded, len(waits)+1)
	last := s.attempts(t, d)[len(waits)]
	if last.Trigger != tollgate.TriggeredByReplay || last.ReplayID == nil || *last.ReplayID != r.Replay.ID {
		t.Errorf("%+v", last)
	}
	stamps := map[string]bool{}
	for _, r := range in.all() {
		if first := in.all()[0]; r.body != first.body || r.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") {
			t.Errorf("%s", r.body)
		}
		stamps[r.header.Get("Webhook-Timestamp")] = true
	}
	if len(stamps) != len(waits)+1 {
		t.Errorf("timestamps %v", stamps)
	}
}

// The keys that live at the moment of the attempt sign it, and are written
// down with it.
func TestRotation(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	first, second, asymmetric := newKey(t, 1, tollgate.SignatureV1), newKey(t, 2, tollgate.SignatureV1), newKey(t, 2, tollgate.SignatureV1a)
	hook := s.hook(t, in.url, map[int]tollgate.Instant{1: s.Now().Add(time.Hour)}, first, second, asymmetric)
	s.work(t, worker.Config{})
	verifies := func(r received, k tollgate.WebhookKey) bool {
		hook, err := standardwebhooks.NewWebhook(k.Text())
		if err != nil {
			t.Fatal(err)
		}
		return hook.VerifyIgnoringTimestamp([]byte(r.body), r.header) == nil
	}
	for i, want := range []struct {
		first    bool
		versions int
	}{{true, 3}, {false, 2}} {
		s.pay(t, 1000)
		until(t, "the delivery", func() bool { return len(in.all()) == i+1 })
		r := in.all()[i]
		if verifies(r, first) != want.first || !verifies(r, second) {
			t.Errorf("%d: first %t, second %t", i, verifies(r, first), verifies(r, second))
		}
		verifyV1a(t, asymmetric, r.header, []byte(r.body))
		d := s.deliveries(t, hook)[0]
		until(t, "the attempt", func() bool { return s.deliveries(t, hook)[0].State == tollgate.DeliverySucceeded })
		if a := s.attempts(t, d); len(a) != 1 || len(a[0].SigningKeys) != want.versions {
			t.Errorf("%d: %+v", i, a)
		}
		s.Clock.Advance(time.Hour)
	}
}

func TestGone(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	in.answers(status(http.StatusGone))
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	metrics := observe()
	s.work(t, worker.Config{Observer: metrics})
	s.pay(t, 1000)
	d := s.settled(t, hook, tollgate.DeliveryFailed, 1)
	if *d.FailureReason != "http_410" {
		t.Errorf("%+v", d)
	}
	until(t, "disabling", func() bool { return s.webhook(t, hook).Status == tollgate.WebhookDisabledStatus })
	if e := s.webhook(t, hook); *e.DisabledReason != "gone" {
		t.Errorf("%s", *e.DisabledReason)
	}
	until(t, "the metric", func() bool { return metrics.of("disabled gone") == 1 })
	s.pay(t, 1000)
	until(t, "a held delivery", func() bool {
		all := s.deliveries(t, hook)
		return len(all) == 2 && all[0].State == tollgate.DeliveryHeld
	})
	if len(in.all()) != 1 {
		t.Error("a disabled endpoint was asked")
	}
}

// Ten deliveries given up are not enough, five days without success are not
// enough: both are.
func TestFailingForDays(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	in.answers(status(http.StatusNotFound))
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.work(t, worker.Config{Backoff: delivery.Backoff{Waits: []time.Duration{0}}})
	fail := func() {
		t.Helper()
		before := s.webhook(t, hook).Failures
		s.pay(t, 1000)
		until(t, "a failure", func() bool { return s.webhook(t, hook).Failures == before+1 })
	}
	s.Clock.Advance(6 * 24 * time.Hour)
	for range 9 {
		fail()
	}
	in.answers(nil)
	s.pay(t, 1000)
	until(t, "a success", func() bool { return s.webhook(t, hook).LastSuccess == s.Now() })
	in.answers(status(http.StatusNotFound))
	for range 11 {
		fail()
	}
	s.Clock.Advance(5*24*time.Hour - time.Millisecond)
	fail()
	s.looked(t)
	if s.webhook(t, hook).Status != tollgate.WebhookActive {
		t.Fatal("disabled too early")
	}
	s.Clock.Advance(time.Millisecond)
	fail()
	until(t, "disabling", func() bool { return s.webhook(t, hook).Status == tollgate.WebhookDisabledStatus })
	if e := s.webhook(t, hook); *e.DisabledReason != "failing" {
		t.Errorf("%s", *e.DisabledReason)
	}
}

// An attempt whose worker died stays unknown, and costs no retry.
func TestDeadWorker(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	in.answers(status(http.StatusInternalServerError))
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.pay(t, 1000)
	// A worker that takes the event and then the delivery, and is gone.
	var taken []webhooks.Work
	for p := range s.Partitions() {
		for range 2 { // the first call makes the consumer group
			if _, err := s.FanOut(t.Context(), p, "dead", time.Millisecond, nil); err != nil {
				t.Fatal(err)
			}
		}
		work, _, err := s.TakeDue(t.Context(), p, reserveAll, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, work...)
	}
	if len(taken) != 1 {
		t.Fatalf("%d taken", len(taken))
	}
	s.work(t, worker.Config{})
	s.looked(t)
	if len(in.all()) != 0 {
		t.Fatal("the lease does not hold")
	}
	s.Died(t, 30*time.Second)
	d := s.settled(t, hook, tollgate.DeliveryRetrying, 2)
	a := s.attempts(t, d)
	if len(a) != 2 || a[0].Status != tollgate.AttemptUnknown || a[1].Status != tollgate.AttemptFailed {
		t.Fatalf("%+v", a)
	}
	if wait := d.NextAttemptAt.Time().Sub(s.Clock.Now()); wait > 6*time.Second {
		t.Errorf("the next attempt is in %s, as if one more had failed", wait)
	}
}

// A delivery that cannot be signed or must not go where it should is a
// recorded, failed attempt, and nothing is sent.
func TestNothingIsSent(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	for code, c := range map[string]struct {
		url   string
		vault byte
		keys  []tollgate.WebhookKey
	}{
		"egress_blocked": {strings.Replace(in.url, "127.0.0.1", "10.0.0.1", 1), 1, []tollgate.WebhookKey{newKey(t, 1, tollgate.SignatureV1)}},
		"signing_failed": {in.url, 2, []tollgate.WebhookKey{newKey(t, 1, tollgate.SignatureV1)}},
	} {
		t.Run(code, func(t *testing.T) {
			hook := s.hook(t, c.url, nil, c.keys...)
			stop := s.work(t, worker.Config{Vault: newVault(t, c.vault)})
			s.pay(t, 1000)
			d := s.settled(t, hook, tollgate.DeliveryRetrying, 1)
			a := s.attempts(t, d)
			if len(a) != 1 || a[0].Status != tollgate.AttemptFailed || a[0].Error == nil || a[0].Error.Code != code || *d.FailureReason != code {
				t.Errorf("%+v", a)
			}
			stop()
			s.remove(t, hook)
		})
	}
	if len(in.all()) != 0 {
		t.Errorf("%d requests were sent", len(in.all()))
	}
}
