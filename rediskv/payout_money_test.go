package rediskv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/testkit"
)

// checkMoney reads everything back: per account and currency what was captured
// less fees is pending, available or settled, what is settled is paid, and each
// capture is in one payout that did not fail, on the date of its sales day by
// the account's cutoffs. It returns how many captures came too late for theirs.
func (f *fixture) checkMoney(t testing.TB) (late int) {
	t.Helper()
	testkit.Consistent(t, f.Store)
	f.Refresh(f.Caller.Organization)
	type purse struct {
		account  string
		currency tollgate.Currency
	}
	type sums struct{ net, pending, available, settled, paid int64 }
	all := map[purse]*sums{}
	payouts := map[string]tollgate.Transaction{}
	inside := map[string]int64{}
	list := f.allTransactions(t, ledger.TransactionQuery{Limit: 100})
	for _, x := range list {
		if x.Type == tollgate.TransactionPayout {
			payouts[*x.PayoutID] = x
		}
	}
	for _, x := range list {
		at := purse{x.MerchantAccountID, x.Currency}
		if all[at] == nil {
			all[at] = new(sums)
		}
		s, amount := all[at], x.Amount.Minor
		switch x.Type {
		case tollgate.TransactionPayout:
			if x.Status == "paid" {
				s.paid += amount
			}
			if amount <= 0 {
				t.Errorf("a payout of %s", x.Amount)
			}
			continue
		case tollgate.TransactionFee, tollgate.TransactionRefund:
			amount = -amount
		case tollgate.TransactionCapture:
		default:
			continue
		}
		s.net += amount
		a, err := f.Account(t.Context(), f.Caller.Organization, x.MerchantAccountID)
		if err != nil {
			t.Fatal(err)
		}
		day, err := tollgate.ParseDate(*x.BatchDate)
		if err != nil {
			t.Fatal(err)
		}
		if *x.AvailableOn != a.Cutoffs.PayoutDate(day).String() || day < a.Cutoffs.SalesDate(x.CreatedAt) {
			t.Errorf("%s of %s: batch date %s, payout date %s", x.ID, x.CreatedAt, *x.BatchDate, *x.AvailableOn)
		}
		if day > a.Cutoffs.SalesDate(x.CreatedAt) {
			late++
		}
		switch x.Status {
		case tollgate.TransactionPending:
			s.pending += amount
		case tollgate.TransactionAvailable:
			s.available += amount
		case tollgate.TransactionSettled:
			s.settled += amount
			if x.PayoutID == nil || payouts[*x.PayoutID].Status != "paid" {
				t.Errorf("%s is settled by a payout that is not paid", x.ID)
			}
		default:
			t.Errorf("%s is %s", x.ID, x.Status)
		}
		if x.PayoutID != nil && payouts[*x.PayoutID].Status != "failed" {
			inside[*x.PayoutID] += amount
		}
	}
	for at, s := range all {
		if s.net != s.pending+s.available+s.settled || s.paid != s.settled {
			t.Errorf("%v: captures less refunds and fees %d, pending %d, available %d, settled %d, paid %d", at, s.net, s.pending, s.available, s.settled, s.paid)
		}
	}
	for id, amount := range inside {
		if payouts[id].Amount.Minor != amount {
			t.Errorf("%s is of %s and has %d in it", id, payouts[id].Amount, amount)
		}
	}
	return late
}

// pass moves the clock, and ends what a worker that stopped had leased: by Redis'
// time, which tests do not move, its lease would outlast the test.
func (f *fixture) pass(t testing.TB, by time.Duration) {
	t.Helper()
	for _, p := range f.payouts(t) {
		if p.Status == string(tollgate.PayoutStatusInTransit) {
			f.DiedPaying(t, *p.PayoutID, 0)
		}
	}
	f.Clock.Advance(by)
}

// Money is conserved whatever happens: payments, captures and cancellations
// between clocks that jump, cutoffs that change, payouts that fail, workers
// that are two at once and that stop at any call.
func TestMoneyIsConserved(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(7, 11))
	step := func(p *tollgate.Payout) tollgate.PayoutOutcome {
		if r.IntN(2) == 0 {
			return tollgate.PayoutOutcome{Failure: "no such account"}
		}
		return tollgate.PayoutOutcome{}
	}
	var open []string
	for range 300 {
		switch r.IntN(9) {
		case 8:
			for range 1 + r.IntN(3) {
				if len(open) > 0 {
					_ = f.GiveBack(t.Context(), open[r.IntN(len(open))], 1+r.Int64N(1_500), false)
				}
			}
		case 0, 1:
			method := []tollgate.CaptureMethod{tollgate.CaptureManual, tollgate.CaptureAutomatic}[r.IntN(2)]
			for range 1 + r.IntN(4) {
				open = append(open, f.Pay(t, eur(1+r.Int64N(2_000)), method).ID)
			}
		case 2, 3:
			if len(open) > 0 {
				_ = f.Capture(t.Context(), open[r.IntN(len(open))], 1+r.Int64N(500), r.IntN(3) == 0)
			}
		case 4:
			if len(open) > 0 {
				_ = f.Move(t.Context(), open[r.IntN(len(open))], tollgate.TriggerCancel)
			}
		case 5:
			f.pass(t, time.Duration(r.Int64N(int64(60*time.Hour))))
		case 6:
			c := &f.Config.MerchantAccounts[0].Cutoff
			c.CutoffTime = fmt.Sprintf("%02d:%02d", r.IntN(24), r.IntN(60))
			c.TimeZone = []string{"Europe/Berlin", "Pacific/Kiritimati", "America/New_York", "Asia/Kolkata"}[r.IntN(4)]
			c.SettlementDelayDays = r.IntN(4)
			c.Calendar = []string{"none", "target"}[r.IntN(2)]
			c.Interval = []string{"daily", "weekly"}[r.IntN(2)]
			if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
				t.Fatal(err)
			}
		case 7: // a worker that stops somewhere, or two at once
			if r.IntN(2) == 0 {
				var lock sync.Mutex
				locked := func(p *tollgate.Payout) tollgate.PayoutOutcome {
					lock.Lock()
					defer lock.Unlock()
					return step(p)
				}
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						if err := f.settle(t.Context(), locked); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				continue
			}
			ctx, stop := context.WithCancel(t.Context())
			calls := r.IntN(30)
			mortal := &fixture{f.Through(f.observed(t, f.URL, func(string) {
				if calls--; calls == 0 {
					stop()
				}
			})), f.tag}
			if err := mortal.settle(ctx, step); err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			stop()
		}
	}
	f.checkMoney(t)
	for range 60 { // drain: what failed is tried again and again, leases run out
		f.pass(t, 24*time.Hour)
		f.mustSettle(t)
	}
	if late := f.checkMoney(t); late > 0 {
		t.Errorf("%d captures are not in their sales day", late)
	}
	var left int64 // refunds and fees that ate up their captures can wait for ever
	for _, status := range []string{tollgate.TransactionPending, tollgate.TransactionAvailable} {
		for _, x := range f.allTransactions(t, ledger.TransactionQuery{Statuses: []string{status}, Limit: 100}) {
			if x.Type == tollgate.TransactionFee || x.Type == tollgate.TransactionRefund {
				left -= x.Amount.Minor
			} else {
				left += x.Amount.Minor
			}
		}
	}
	states := map[string]int{}
	for _, p := range f.payouts(t) {
		states[p.Status]++
	}
	t.Logf("payouts: %v", states)
	if left > 0 || states["paid"] < 3 || states["failed"] < 2 || states["in_transit"]+states["pending"] > 0 {
		t.Errorf("%d left after everything was paid; payouts %v", left, states)
	}
}
