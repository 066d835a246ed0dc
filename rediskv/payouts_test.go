package rediskv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payouts"
)

// settle does what the worker does until nothing is due in the fixture's
// partition; pay is the payout step. It stops at the first error.
func (f *fixture) settle(ctx context.Context, pay func(*tollgate.Payout) tollgate.PayoutOutcome) error {
	for {
		work := 0
		for p := range f.Partitions() {
			due, err := f.DueAccounts(ctx, p, 100)
			if err != nil {
				return err
			}
			for _, d := range due {
				if _, err := f.CloseDays(ctx, d.Organization, d.ID); err != nil {
					return err
				}
			}
			work += len(due)
			payouts, err := f.DuePayouts(ctx, p, 100)
			if err != nil {
				return err
			}
			for _, d := range payouts {
				if err := f.carryOn(ctx, d, pay); err != nil {
					return err
				}
			}
			work += len(payouts)
		}
		if work == 0 {
			return nil
		}
	}
}

func (f *fixture) carryOn(ctx context.Context, d payouts.Due, pay func(*tollgate.Payout) tollgate.PayoutOutcome) error {
	for more := true; more; {
		var err error
		if more, err = f.MovePayout(ctx, d.Organization, d.ID); err != nil {
			return err
		}
	}
	p, err := f.BeginPayout(ctx, d.Organization, d.ID, time.Minute)
	if err != nil || p == nil {
		return err
	}
	return f.endPayout(ctx, p, pay(p))
}

func paid(*tollgate.Payout) tollgate.PayoutOutcome { return tollgate.PayoutOutcome{} }

// days moves the clock over the cutoff of n sales days.
func (f *fixture) days(n int) { f.Clock.Advance(time.Duration(n) * 24 * time.Hour) }

// The way of two captures: pending until their payout date is over, then
// available, paid, settled; each step to be seen in lists and events.
func TestPayout(t *testing.T) {
	f := newFixture(t)
	// Saturday 2026-11-21 12:00 UTC: the sales day of the day, paid two business
	// days after Monday.
	f.Pay(t, eur(10_000), tollgate.CaptureAutomatic)
	f.Pay(t, eur(5_000), tollgate.CaptureAutomatic)
	captures := f.allTransactions(t, ledger.TransactionQuery{Types: []tollgate.TransactionType{tollgate.TransactionCapture, tollgate.TransactionFee}, Limit: 100})
	for _, x := range captures {
		if *x.BatchDate != "2026-11-21" || *x.AvailableOn != "2026-11-25" || x.Status != tollgate.TransactionPending {
			t.Errorf("captured: %+v", x)
		}
	}
	f.Clock.Set(time.Date(2026, 11, 25, 15, 59, 59, 999e6, time.UTC))
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 0 {
		t.Fatalf("%d payouts before the cutoff of their date", n)
	}
	f.Clock.Advance(time.Millisecond)
	f.mustSettle(t)
	payouts := f.payouts(t)
	if len(payouts) != 1 {
		t.Fatalf("%d payouts", len(payouts))
	}
	p := payouts[0]
	if p.Amount != eur(15_000-150) || p.Status != "paid" || *p.BatchDate != "2026-11-25" || *p.AvailableOn != "2026-11-25" ||
		p.ID != tollgate.PayoutTransactionOf(*p.PayoutID) {
		t.Errorf("payout %+v", p)
	}
	for _, order := range []bool{false, true} {
		own := f.allTransactions(t, ledger.TransactionQuery{PayoutID: *p.PayoutID, Descending: order, Limit: 2})
		if len(own) != 5 {
			t.Errorf("%d transactions of the payout", len(own))
		}
		for _, x := range own {
			if x.Type != tollgate.TransactionPayout && x.Status != tollgate.TransactionSettled {
				t.Errorf("paid, and still %+v", x)
			}
		}
	}
	f.checkMoney(t)
	f.days(10)
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 1 {
		t.Errorf("%d payouts after idle days", n)
	}
}

// A payout that fails is paid by the next one, on another date, with what is
// due then; fees that eat up what was captured wait too.
func TestFailedPayoutIsPaidByTheNext(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(1), tollgate.CaptureAutomatic) // its fee is as high
	f.days(7)
	f.mustSettle(t)
	if n := len(f.payouts(t)); n != 0 {
		t.Fatalf("%d payouts of nothing", n)
	}
	f.Pay(t, eur(10_000), tollgate.CaptureAutomatic)
	f.days(7)
	failing := func(*tollgate.Payout) tollgate.PayoutOutcome {
		return tollgate.PayoutOutcome{Failure: "account closed"}
	}
	if err := f.settle(t.Context(), failing); err != nil {
		t.Fatal(err)
	}
	failed := f.payouts(t)
	if len(failed) != 1 || failed[0].Status != "failed" || failed[0].Amount != eur(9_900) {
		t.Fatalf("failed: %+v", failed)
	}
	f.checkMoney(t)
	f.Pay(t, eur(300), tollgate.CaptureAutomatic)
	f.days(3) // Tuesday: Monday's payouts are due
	f.mustSettle(t)
	again := f.payouts(t)
	if len(again) != 2 || again[1].Status != "paid" || again[1].Amount != eur(9_900) || *again[1].PayoutID == *failed[0].PayoutID {
		t.Fatalf("the next day: %+v", again)
	}
	f.days(7)
	f.mustSettle(t)
	if all := f.payouts(t); len(all) != 3 || all[2].Amount != eur(297) {
		t.Fatalf("the week after: %+v", all)
	}
	if own := f.allTransactions(t, ledger.TransactionQuery{PayoutID: *failed[0].PayoutID, Limit: 100}); len(own) != 1 {
		t.Errorf("the failed payout still has %d transactions", len(own))
	}
	f.checkMoney(t)
}

// A capture that was computed before its sales day was closed does not slip
// into it, whatever the clocks say.
func TestNothingJoinsAClosedDay(t *testing.T) {
	f := newFixture(t)
	before := f.MerchantAccount(t)
	late, ans := f.Draft(t, before, eur(700), "shop.example", tollgate.CaptureAutomatic)
	manual := f.Pay(t, eur(900), tollgate.CaptureManual)
	p, ticket := f.Read(t, manual.ID)
	capture, err := tollgate.CapturePayment(f.NewID, f.Origin(f.Caller), p, ticket, tollgate.CaptureRequest{
		Amount: eur(900), Final: true, SalesDay: before.Cutoffs.SalesDay(f.Now(), before.Closed),
	}, f.Price(eur(900), 1))
	if err != nil {
		t.Fatal(err)
	}
	f.days(1)
	if _, err := f.CloseDays(t.Context(), f.Caller.Organization, before.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key("late"), before, late, ans); !errors.Is(err, rediskv.ErrStale) {
		t.Errorf("a payment of a closed day: %v", err)
	}
	if _, err := f.Transition(t.Context(), f.Caller, nil, before, capture, ans); !errors.Is(err, rediskv.ErrStale) {
		t.Errorf("a capture of a closed day: %v", err)
	}
	f.Refresh(f.Caller.Organization)
	f.Clock.Advance(-24 * time.Hour) // the clock of another instance
	if err := f.Capture(t.Context(), p.ID, 900, true); err != nil {
		t.Fatal(err)
	}
	for _, x := range f.allTransactions(t, ledger.TransactionQuery{PaymentID: p.ID, Limit: 10}) {
		if x.Type == tollgate.TransactionCapture && *x.BatchDate != "2026-11-22" {
			t.Errorf("captured on %s, after that of 2026-11-21 was closed", *x.BatchDate)
		}
	}
	if late := f.checkMoney(t); late != 2 {
		t.Errorf("%d transactions came too late for their sales day, not the capture and its fee", late)
	}
}

func (f *fixture) mustSettle(t testing.TB) {
	t.Helper()
	if err := f.settle(t.Context(), paid); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) payouts(t testing.TB) []tollgate.Transaction {
	t.Helper()
	return f.allTransactions(t, ledger.TransactionQuery{Types: []tollgate.TransactionType{tollgate.TransactionPayout}, Limit: 100})
}
