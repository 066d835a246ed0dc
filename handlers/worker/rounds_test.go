package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
)

// apart are two organizations of different partitions, the one of the first
// partition first. Both have a payout that is due; so may others have, which
// were made on the way and came to the same partition.
func apart(t *testing.T, url string) (first, second *shop) {
	t.Helper()
	for shops := make([]*shop, partitions); ; {
		s := newShop(t, url)
		s.sell(t, 1000)
		s.Clock.Advance(24 * time.Hour)
		p := s.partition(t)
		for other := range shops {
			switch {
			case shops[other] == nil || other == p:
			case other < p:
				return shops[other], s
			default:
				return s, shops[other]
			}
		}
		shops[p] = s
	}
}

// partition is where the shop is; something has to be due there.
func (s *shop) partition(t *testing.T) int {
	t.Helper()
	for p := range partitions {
		due, err := s.DueAccounts(t.Context(), p, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range due {
			if d.Organization == s.Caller.Organization {
				return p
			}
		}
	}
	t.Fatal("nothing is due")
	return 0
}

// payouts counts payouts by what became of them.
func (s *shop) payouts(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	for _, x := range s.moved(t, tollgate.TransactionPayout) {
		count[x.Status]++
	}
	return count
}

// runs lets a worker work until the test ends.
func runs(t *testing.T, w *worker.Worker) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// What cannot be done for one organization is left undone, reported, and tried
// again; all others go on, however often that is, and the worker is ready.
func TestRoundGoesOnPastAFailure(t *testing.T) {
	server := redistest.Fresh(t)
	broken, sound := apart(t, server.URL)
	key := fmt.Sprintf("{p%02d}:%s:%s", broken.partition(t), broken.Caller.Organization, broken.account)
	if err := server.Command("HSET", key, "cutoffs", "unreadable"); err != nil {
		t.Fatal(err)
	}
	metrics := observe()
	w := newWorker(t, worker.Config{
		Store: sound.Store, Clock: sound.Clock.Now, Observer: metrics, Interval: 10 * time.Millisecond, Concurrency: 1,
	})
	if _, err := w.PayoutRound(t.Context()); err == nil {
		t.Error("nothing is reported")
	}
	if got := sound.payouts(t); got["paid"] != 1 {
		t.Errorf("one round pays %v", got)
	}
	sound.sell(t, 1000)
	sound.Clock.Advance(24 * time.Hour)
	runs(t, w)
	until(t, "failures", func() bool { return metrics.of("failed payouts") > 2 })
	until(t, "the second payout", func() bool { return sound.payouts(t)["paid"] == 2 })
	until(t, "readiness", func() bool { return w.Ready() == nil })
	if got := broken.payouts(t); len(got) != 0 {
		t.Errorf("of the unreadable account: %v", got)
	}
}

// A payout step that does not know what became of its payout ends no other's.
func TestPayoutStepsAreApart(t *testing.T) {
	url := redistest.URL(t)
	unsure, slow := apart(t, url)
	metrics := observe()
	begun, failed := make(chan struct{}), make(chan struct{})
	w := newWorker(t, worker.Config{
		Store: slow.Store, Clock: slow.Clock.Now, Observer: metrics, Interval: 10 * time.Millisecond,
		Pay: func(ctx context.Context, p tollgate.Payout) (tollgate.PayoutOutcome, error) {
			switch p.OrganizationID {
			default:
				return tollgate.PayoutOutcome{}, nil
			case unsure.Caller.Organization:
				select {
				case <-begun:
				case <-ctx.Done():
				}
				return tollgate.PayoutOutcome{}, errors.New("not known yet")
			case slow.Caller.Organization:
			}
			close(begun)
			select {
			case <-failed:
				return tollgate.PayoutOutcome{}, nil
			case <-ctx.Done():
				t.Error("another organization's payout step ended this one")
				return tollgate.PayoutOutcome{}, ctx.Err()
			}
		},
	})
	runs(t, w)
	free := sync.OnceFunc(func() { close(failed) })
	t.Cleanup(free)
	until(t, "the failure", func() bool { return metrics.of("failed payouts") > 0 })
	free()
	until(t, "the slow payout", func() bool { return slow.payouts(t)["paid"] == 1 })
	if got := unsure.payouts(t); got["in_transit"] != 1 {
		t.Errorf("what is not known: %v", got)
	}
}

// A payout step that takes its time holds up no other partition, not even when
// a single one may be at work, and is no reason to take the worker for stuck.
func TestSlowPayoutHoldsUpNobody(t *testing.T) {
	url := redistest.URL(t)
	slow, quick := apart(t, url)
	begun, finish := make(chan struct{}), make(chan struct{})
	w := newWorker(t, worker.Config{
		Store: quick.Store, Clock: quick.Clock.Now, Interval: 10 * time.Millisecond, Concurrency: 1,
		Pay: func(_ context.Context, p tollgate.Payout) (tollgate.PayoutOutcome, error) {
			if p.OrganizationID == slow.Caller.Organization {
				close(begun)
				<-finish
			}
			return tollgate.PayoutOutcome{}, nil
		},
	})
	runs(t, w)
	free := sync.OnceFunc(func() { close(finish) })
	t.Cleanup(free)
	<-begun
	for day := range 3 {
		until(t, "the other's payout", func() bool { return quick.payouts(t)["paid"] == day+1 })
		quick.sell(t, 1000)
		quick.Clock.Advance(24 * time.Hour)
		until(t, "readiness", func() bool { return w.Ready() == nil })
	}
	if got := slow.payouts(t); got["in_transit"] != 1 {
		t.Errorf("the slow payout: %v", got)
	}
	free()
	until(t, "the slow payout", func() bool { return slow.payouts(t)["paid"] == 1 })
}

// A partition with much to do lets the others that wait for a slot have their
// turn in between.
func TestPartitionsTakeTurns(t *testing.T) {
	address := redistest.URL(t)
	first, second := apart(t, address)
	var calls atomic.Int64
	later := func() time.Time { // each time is another, so that what happens has an order
		return first.Clock.Now().Add(72*time.Hour + time.Duration(calls.Add(1))*time.Millisecond)
	}
	store := openWith(t, rediskv.Options{URL: address, Clock: later})
	w := newWorker(t, worker.Config{Store: store, Clock: later, PageSize: 1, Concurrency: 1})
	looked := map[*shop]eventlog.Position{}
	span := func(s *shop) (begin, end string) {
		q := eventlog.EventQuery{Types: tollgate.TypeFilter{string(tollgate.PaymentExpired)}, Limit: 100, After: looked[s]}
		page, next, _, err := s.Events(t.Context(), s.Caller, q)
		if err != nil || len(page) != 40 {
			t.Fatal(len(page), err)
		}
		looked[s] = next
		var at [2]struct {
			CreatedAt string `json:"created_at"`
		}
		for i, e := range []jsontext.Value{page[0], page[39]} {
			if err := json.Unmarshal(e, &at[i]); err != nil {
				t.Fatal(err)
			}
		}
		return at[0].CreatedAt, at[1].CreatedAt
	}
	for range 3 { // one may be done before the other's goroutine runs at all
		for range 40 {
			first.pay(t, 1000)
			second.pay(t, 1000)
		}
		round(t, w)
		begin, end := span(first)
		otherBegin, otherEnd := span(second)
		if begin < otherEnd && otherBegin < end {
			return
		}
		t.Logf("one after the other: %s to %s, %s to %s", begin, end, otherBegin, otherEnd)
	}
	t.Error("each time one after the other")
}
