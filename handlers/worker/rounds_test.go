package worker_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// hasty is a clock by which everything takes longer than its time.
func hasty(s *shop) func() time.Time {
	var calls atomic.Int64
	return func() time.Time { return s.clock.now().Add(time.Duration(calls.Add(1)) * time.Hour) }
}

// A partition that has much to do leaves the rest to the next round, which
// begins at once.
func TestRoundsAreShared(t *testing.T) {
	const interval = 24 * time.Hour // as good as never, for a test
	t.Run("expiry", func(t *testing.T) {
		s := newShop(t, redistest.URL(t))
		const payments, batch = 20, 7
		for range payments {
			s.pay(t, 1000)
		}
		s.clock.advance(72 * time.Hour)
		w := newWorker(t, worker.Config{Store: s.Store, Clock: s.clock.now, Wall: hasty(s), Batch: batch, Interval: time.Minute})
		if n, err := w.Round(t.Context()); n != batch || err != nil {
			t.Errorf("%d in the first round, %v", n, err)
		}
		s.work(t, worker.Config{Wall: hasty(s), Batch: batch, Interval: interval})
		until(t, "the others", func() bool { return len(s.events(t, tollgate.PaymentExpired)) == payments })
	})
	t.Run("payouts", func(t *testing.T) {
		s := newShop(t, redistest.URL(t))
		s.sell(t, 1000)
		s.clock.advance(24 * time.Hour)
		captured := func() string { return s.moved(t, tollgate.TransactionCapture)[0].Status }
		w := newWorker(t, worker.Config{Store: s.Store, Clock: s.clock.now, Wall: hasty(s), Interval: time.Minute})
		if _, err := w.PayoutRound(t.Context()); err != nil || captured() != tollgate.TransactionAvailable {
			t.Errorf("%s after the first round, %v", captured(), err)
		}
		s.work(t, worker.Config{Wall: hasty(s), Interval: interval})
		until(t, "the end", func() bool { return captured() == tollgate.TransactionSettled })
	})
	t.Run("jobs", func(t *testing.T) {
		s := newShop(t, redistest.URL(t))
		in := newInbox(t)
		in.answers(status(http.StatusInternalServerError))
		hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
		const missed = 510 // two batches
		for range missed {
			s.pay(t, 1000)
		}
		for p := range s.Partitions() {
			for range missed/64 + 2 { // the first makes the group
				if n, err := s.FanOut(t.Context(), p, "a", time.Millisecond); err != nil {
					t.Fatal(n, err)
				}
			}
		}
		r := tollgate.Recovery{Object: "recovery", ID: s.Mint(tollgate.PrefixRecovery), CreatedAt: s.Now(), WebhookID: hook, Since: s.Now()}
		if _, err := s.Recover(t.Context(), s.caller, nil, hook, r, rediskv.Answer{Status: 202}); err != nil {
			t.Fatal(err)
		}
		looked := func() int64 {
			r, err := s.Recovery(t.Context(), s.caller, hook, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			return r.Looked
		}
		w := newWorker(t, worker.Config{Store: s.Store, Clock: s.clock.now, Wall: hasty(s), Interval: time.Minute})
		if n, err := w.JobsRound(t.Context()); n != 500 || err != nil || looked() != 500 {
			t.Errorf("%d in the first round, %v", n, err)
		}
		s.work(t, worker.Config{Wall: hasty(s), Interval: interval})
		until(t, "the end", func() bool { return looked() == missed })
	})
}
