package rediskv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/redistest"
)

// meanwhile is the fixture with a store in which something else happens, once,
// right after an operation.
func (f *fixture) meanwhile(t testing.TB, operation string, happens func()) *fixture {
	t.Helper()
	return &fixture{f.Through(f.observed(t, f.URL, func(done string) {
		if now := happens; done == operation && now != nil {
			happens = nil
			now()
		}
	})), f.tag}
}

// A worker that dies between closing a day and making its payout leaves the
// account to the next.
func TestPayoutOfAWorkerThatDied(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.days(7)
	ctx, die := context.WithCancel(t.Context())
	defer die()
	if err := f.meanwhile(t, "close_day", die).settle(ctx, paid); err == nil {
		t.Fatal("it went on")
	}
	if n := len(f.payouts(t)); n != 0 {
		t.Fatalf("%d payouts", n)
	}
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 1 {
		t.Errorf("%d payouts", n)
	}
	f.checkMoney(t)
}

// What is captured while a worker makes up its mind about an account is seen.
func TestCaptureWhileDaysAreClosed(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.days(7)
	reads := 0
	watched := f.observed(t, f.URL, func(done string) {
		if done == "read_payable" {
			if reads++; reads == 2 {
				f.Pay(t, eur(3000), tollgate.CaptureAutomatic)
			}
		}
	})
	if _, err := watched.CloseDays(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID); err != nil {
		t.Fatal(err)
	}
	if reads < 3 {
		t.Errorf("it was read %d times, and did not see the capture", reads)
	}
	f.days(7)
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 2 {
		t.Errorf("%d payouts", n)
	}
	f.checkMoney(t)
}

// A capture that still makes it into a day, by a clock that is behind, is in
// the payout that was being computed.
func TestCaptureBeforeTheDayIsClosed(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	late, ans := f.Draft(t, f.MerchantAccount(t), eur(2000), "shop.example", tollgate.CaptureAutomatic)
	f.days(7)
	other := f.meanwhile(t, "read_payable", func() {
		if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key("late"), f.MerchantAccount(t), late, ans); err != nil {
			t.Error(err)
		}
	})
	if err := other.settle(t.Context(), paid); err != nil {
		t.Fatal(err)
	}
	if list := f.payouts(t); len(list) != 1 || list[0].Amount != eur(2970) {
		t.Errorf("payouts %+v", list)
	}
	f.checkMoney(t)
}

// A capture whose sales day was computed by an older cutoff is computed again.
func TestCaptureByAnOlderCutoff(t *testing.T) {
	f := newFixture(t)
	payment := f.Pay(t, eur(1000), tollgate.CaptureManual)
	before := f.MerchantAccount(t)
	p, ticket := f.Read(t, payment.ID)
	capture, err := tollgate.CapturePayment(f.NewID, f.Origin(f.Caller), p, ticket, tollgate.CaptureRequest{
		Amount: eur(1000), Final: true, SalesDay: before.Cutoffs.SalesDay(f.Now(), before.Closed),
	}, f.Price(eur(1000), 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.changeCutoff(t, "09:00", tollgate.NoDate); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Transition(t.Context(), f.Caller, nil, before, capture, rediskv.Answer{Status: 201}); !errors.Is(err, rediskv.ErrStale) {
		t.Errorf("by the cutoff before: %v", err)
	}
	if err := f.Capture(t.Context(), p.ID, 1000, true); err != nil {
		t.Error(err)
	}
}

// begun is a payout of one capture that a worker has begun to pay.
func (f *fixture) begun(t testing.TB) *tollgate.Payout {
	t.Helper()
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.days(7)
	account := f.Config.MerchantAccounts[0].ID
	if _, err := f.CloseDays(t.Context(), f.Caller.Organization, account); err != nil {
		t.Fatal(err)
	}
	id := *f.payouts(t)[0].PayoutID
	if more, err := f.MovePayout(t.Context(), f.Caller.Organization, id); more || err != nil {
		t.Fatal(more, err)
	}
	p, err := f.BeginPayout(t.Context(), f.Caller.Organization, id, time.Minute)
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	return p
}

// Once a loss is found, by whomever, nothing is paid until it is accepted: a worker that did
// not know of it begins no payout, and neither does one that learns of it in between.
func TestNoPayoutAfterALoss(t *testing.T) {
	for _, goOn := range []bool{false, true} {
		server := redistest.Fresh(t)
		f := newFixtureAt(t, server.URL)
		ctx, org, account := t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		f.days(7)
		if made, err := f.CloseDays(ctx, org, account); made != 1 || err != nil {
			t.Fatal(made, err)
		}
		id := *f.payouts(t)[0].PayoutID
		if more, err := f.MovePayout(ctx, org, id); more || err != nil {
			t.Fatal(more, err)
		}
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		f.days(7)
		finder := f.with(t, rediskv.Options{URL: server.URL, GoOn: goOn})
		known, err := finder.HistoryFor(ctx, org)
		must(t, err)
		_ = finder.SuspectHistory(ctx, org, known.ID, history.Token, 2, 1)
		for range 2 { // it does not know, and then it does
			if p, _ := f.BeginPayout(ctx, org, id, time.Minute); p != nil {
				t.Errorf("writes go on: %v: %s is to be paid", goOn, p.ID)
			}
			if made, _ := f.CloseDays(ctx, org, account); made != 0 {
				t.Errorf("writes go on: %v: %d payouts are made", goOn, made)
			}
			_, err := f.RereadHistory(ctx, org)
			must(t, err)
		}
		_, err = finder.Histories.Accept(ctx, f.Space(org).Partition, false, 0)
		must(t, err)
		_, err = f.RereadHistory(ctx, org)
		must(t, err)
		if made, err := f.CloseDays(ctx, org, account); made != 1 || err != nil {
			t.Errorf("accepted: %d payouts are made, %v", made, err)
		}
		if p, err := f.BeginPayout(ctx, org, id, time.Minute); p == nil || err != nil {
			t.Errorf("accepted: %v %v", p, err)
		}
	}
}

// A payout is asked for by one worker as long as its lease, which Redis' time ends: one
// whose clock is an hour ahead does not take it, and looks again when it can be over. And
// one whose lease is over does not put off what another worker asks for.
func TestPayoutLeaseByRedisTime(t *testing.T) {
	f := newFixture(t)
	ctx, org := t.Context(), f.Caller.Organization
	first := f.begun(t)
	f.Clock.Advance(time.Hour)
	if again, err := f.BeginPayout(ctx, org, first.ID, time.Minute); again != nil || err != nil {
		t.Fatal("taken twice", again, err)
	}
	if due, err := f.DuePayouts(ctx, f.Space(org).Partition, 10); len(due) != 0 || err != nil {
		t.Error("looked at again at once:", due, err)
	}
	f.DiedPaying(t, first.ID, time.Minute)
	if due, err := f.DuePayouts(ctx, f.Space(org).Partition, 10); len(due) != 1 || err != nil {
		t.Error("not looked at again:", due, err)
	}
	second, err := f.BeginPayout(ctx, org, first.ID, time.Minute)
	if second == nil || err != nil {
		t.Fatal("after the lease:", second, err)
	}
	must(t, f.DelayPayout(ctx, first, f.Now()))
	if third, err := f.BeginPayout(ctx, org, first.ID, time.Minute); third != nil || err != nil {
		t.Fatal("put off by who does not have it:", third, err)
	}
	must(t, f.DelayPayout(ctx, second, f.Now()))
	if third, err := f.BeginPayout(ctx, org, first.ID, time.Minute); third == nil || err != nil {
		t.Error("put off until now:", third, err)
	}
}

// Of two workers that asked for one payout the first record counts.
func TestFirstRecordOfAPayoutCounts(t *testing.T) {
	f := newFixture(t)
	first := f.begun(t)
	if again, err := f.BeginPayout(t.Context(), f.Caller.Organization, first.ID, time.Minute); again != nil || err != nil {
		t.Fatal("taken twice", again, err)
	}
	f.DiedPaying(t, first.ID, time.Minute)
	second, err := f.BeginPayout(t.Context(), f.Caller.Organization, first.ID, time.Minute)
	if err != nil || second == nil {
		t.Fatal("after the lease:", second, err)
	}
	if err := f.endPayout(t.Context(), first, tollgate.PayoutOutcome{}); err != nil {
		t.Fatal(err)
	}
	if err := f.endPayout(t.Context(), second, tollgate.PayoutOutcome{Failure: "late"}); err != nil {
		t.Fatal(err)
	}
	f.days(30)
	f.mustSettle(t)
	if list := f.payouts(t); len(list) != 1 || list[0].Status != "paid" {
		t.Errorf("payouts %+v", list)
	}
	f.checkMoney(t)
}

// What a failed payout was to pay is never due on a day that was closed
// meanwhile.
func TestFailureWhileDaysAreClosed(t *testing.T) {
	f := newFixture(t)
	p := f.begun(t)
	var closed tollgate.Date
	other := f.meanwhile(t, "read_payable", func() {
		f.days(10)
		if _, err := f.CloseDays(t.Context(), f.Caller.Organization, p.MerchantAccountID); err != nil {
			t.Error(err)
		}
		f.Refresh(f.Caller.Organization)
		closed = f.MerchantAccount(t).Closed
	})
	if err := other.endPayout(t.Context(), p, tollgate.PayoutOutcome{Failure: "no such account"}); err != nil {
		t.Fatal(err)
	}
	f.days(10)
	f.mustSettle(t)
	list := f.payouts(t)
	if len(list) != 2 || list[1].Status != "paid" || *list[1].AvailableOn <= closed.String() {
		t.Errorf("closed up to %s, paid %+v", closed, list)
	}
	f.checkMoney(t)
}
