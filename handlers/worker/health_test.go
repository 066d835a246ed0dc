package worker_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv/redistest"
)

// change writes an endpoint as its owner would.
func (s *shop) change(t testing.TB, hook string, how func(*tollgate.WebhookEndpoint)) {
	t.Helper()
	was := s.webhook(t, hook)
	want := was.WebhookEndpoint
	how(&want)
	s.commit(t)(tollgate.ChangeWebhook(s.NewID, s.Origin(s.Caller), tollgate.WebhookKeys{}, *was, want))
}

// holding answers the first so many requests together, when release is closed.
func (in *inbox) holding(count int32, status int) (arrived <-chan struct{}, release chan<- struct{}) {
	all, answer := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	in.answers(func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1) == count {
			close(all)
		}
		select {
		case <-answer:
		case <-req.Context().Done():
		}
		w.WriteHeader(status)
	})
	return all, answer
}

// What the old address answers says nothing about the new one: a 410 does not
// disable the endpoint, and a 503 does not make it pause.
func TestAnswersOfTheOldAddress(t *testing.T) {
	for _, code := range []int{http.StatusGone, http.StatusServiceUnavailable} {
		s := newShop(t, redistest.URL(t))
		before, after := newInbox(t), newInbox(t)
		arrived, release := before.holding(1, code)
		hook := s.hook(t, before.url, nil, newKey(t, 1, tollgate.SignatureV1))
		metrics := observe()
		s.work(t, worker.Config{Observer: metrics})
		s.pay(t, 1000)
		<-arrived
		s.change(t, hook, func(e *tollgate.WebhookEndpoint) { e.URL = after.url })
		close(release)
		until(t, "the old address' answer", func() bool {
			return metrics.of("attempted failed")+metrics.of("attempted retrying") == 1
		})
		s.pay(t, 1000)
		until(t, "the new address", func() bool { return len(after.all()) == 1 })
		if e := s.webhook(t, hook); e.Status != tollgate.WebhookActive || e.Failures != 0 {
			t.Errorf("%d: %s is %s, %d failures", code, e.URL, e.Status, e.Failures)
		}
	}
}

// Answers of 410 that were under way do not undo that the owner has enabled the
// endpoint again; all of them together disable it once.
func TestGoneIsCountedOnce(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	const under = 5
	arrived, release := in.holding(under, http.StatusGone)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	for range under {
		s.pay(t, 1000)
	}
	metrics := observe()
	stop := s.work(t, worker.Config{Observer: metrics})
	<-arrived
	close(release)
	until(t, "disabling", func() bool { return s.webhook(t, hook).Status == tollgate.WebhookDisabledStatus })
	stop() // and wait for the others
	if got := metrics.of("disabled gone"); got != 1 {
		t.Errorf("one endpoint was disabled; the metric says %v", got)
	}

	enable := func(e *tollgate.WebhookEndpoint) { e.Status = tollgate.WebhookActive }
	s.change(t, hook, enable)
	arrived, release = in.holding(1, http.StatusGone)
	stop = s.work(t, worker.Config{})
	s.pay(t, 1000)
	<-arrived
	s.change(t, hook, func(e *tollgate.WebhookEndpoint) { e.Status = tollgate.WebhookDisabledStatus })
	s.change(t, hook, enable)
	close(release)
	until(t, "the answer", func() bool { return s.deliveries(t, hook)[0].State == tollgate.DeliveryFailed })
	stop()
	if e := s.webhook(t, hook); e.Status != tollgate.WebhookActive {
		t.Errorf("enabled again, and %s", e.Status)
	}
}

// A pause is the address': it goes on when anything else changes, and ends when
// the endpoint moves.
func TestChangesAndThePause(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	in.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.work(t, worker.Config{})
	s.pay(t, 1000)
	s.settled(t, hook, tollgate.DeliveryRetrying, 1)
	text := "another description"
	s.change(t, hook, func(e *tollgate.WebhookEndpoint) { e.Description = &text })
	s.pay(t, 1000)
	until(t, "the second delivery", func() bool { return len(s.deliveries(t, hook)) == 2 })
	s.looked(t)
	if n := len(in.all()); n != 1 {
		t.Errorf("%d requests, in spite of Retry-After", n)
	}
	after := newInbox(t)
	s.change(t, hook, func(e *tollgate.WebhookEndpoint) { e.URL = after.url })
	until(t, "the new address", func() bool { return len(after.all()) == 1 })
}

// What a worker cannot sign is no fault of the endpoint's: it costs neither an
// attempt nor its health, and another worker delivers it.
func TestSigningFails(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	s.Clock.Advance(6 * 24 * time.Hour)
	s.pay(t, 1000)
	stop := s.work(t, worker.Config{Vault: newVault(t, 2)})
	const tries = 12
	for n := 1; n <= tries; n++ {
		d := s.settled(t, hook, tollgate.DeliveryRetrying, n)
		if wait := d.NextAttemptAt.Time().Sub(s.Clock.Now()); *d.FailureReason != "signing_failed" || wait < 5*time.Second || wait > 30*time.Minute {
			t.Fatalf("%+v", d)
		}
		if e := s.webhook(t, hook); e.Failures != 0 || e.Status != tollgate.WebhookActive {
			t.Fatalf("%s, %d failures", e.Status, e.Failures)
		}
		if n < tries {
			s.Clock.Set(d.NextAttemptAt.Time())
		}
	}
	stop()
	in.answers(status(http.StatusInternalServerError))
	s.work(t, worker.Config{})
	s.Clock.Set(s.deliveries(t, hook)[0].NextAttemptAt.Time())
	d := s.settled(t, hook, tollgate.DeliveryRetrying, tries+1)
	if wait := d.NextAttemptAt.Time().Sub(s.Clock.Now()); wait > 6*time.Second {
		t.Errorf("the endpoint's first failure is followed by a wait of %s", wait)
	}
	in.answers(nil)
	s.Clock.Set(d.NextAttemptAt.Time())
	d = s.settled(t, hook, tollgate.DeliverySucceeded, tries+2)
	if a := s.attempts(t, d); len(a) != tries+2 || slices.ContainsFunc(a[:tries], func(a tollgate.Attempt) bool {
		return a.Status != tollgate.AttemptFailed || a.Error == nil || a.Error.Code != "signing_failed"
	}) {
		t.Errorf("%+v", a)
	}
}
