package rediskv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/redistest"
)

// limited gives the accounts a perimeter with these constraints.
func (f *fixture) limited(t testing.TB, constraints string) {
	t.Helper()
	p := tollgate.PerimeterDocument{ID: f.Config.Perimeters[0].ID, Version: f.Config.Perimeters[len(f.Config.Perimeters)-1].Version + 1, Constraints: jsontext.Value(constraints)}
	f.Config.Perimeters = append(f.Config.Perimeters, p)
	for i := range f.Config.MerchantAccounts {
		f.Config.MerchantAccounts[i].Perimeter.Version = p.Version
	}
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
}

// spend makes a payment; reason says which limit had no room for it.
func (f *fixture) spend(t testing.TB, key string, amount tollgate.Money, payee string) (p *tollgate.Payment, reason tollgate.Reason) {
	t.Helper()
	ch, ans := f.Draft(t, f.MerchantAccount(t), amount, payee, tollgate.CaptureManual)
	_, err := f.CreatePayment(t.Context(), f.Caller, f.Key(key), f.MerchantAccount(t), ch, ans)
	if full, ok := errors.AsType[*payments.BudgetError](err); ok {
		return nil, full.Reservation.Reason
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch.Payment, ""
}

// left asks what a quote asks.
func (f *fixture) left(t testing.TB, amount tollgate.Money, payee string) tollgate.Reason {
	t.Helper()
	a := f.MerchantAccount(t)
	full, err := f.Exceeded(t.Context(), f.Caller.Organization, a.Perimeter.Reservations(a.ID, amount, parsePayee(t, payee), f.Clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if full == nil {
		return ""
	}
	return full.Reason
}

// However many pay at once, a budget and a frequency are never exceeded, and
// what is refused leaves nothing behind.
func TestRacingPaymentsNeverExceedLimits(t *testing.T) {
	for constraints, want := range map[string]int64{
		`{"budgets":[{"window":"day","currency":"EUR","amount":"10.00","per":"merchant_account"}]}`:                                             6,
		`{"frequency":[{"window":"month","count":5,"per":"payee"}]}`:                                                                            5,
		`{"budgets":[{"window":"day","currency":"EUR","amount":"10.00","per":"payee"}],"frequency":[{"window":"day","count":4,"per":"payee"}]}`: 4,
	} {
		f := newFixture(t)
		f.limited(t, constraints)
		f.MerchantAccount(t) // before the race
		var done atomic.Int64
		var g sync.WaitGroup
		for n := range 32 {
			g.Go(func() {
				if p, _ := f.spend(t, fmt.Sprint(n), eur(150), "shop.example"); p != nil {
					done.Add(1)
				}
			})
		}
		g.Wait()
		if done.Load() != want {
			t.Errorf("%s: %d payments, want %d", constraints, done.Load(), want)
		}
		if all := f.allTransactions(t, ledger.TransactionQuery{Limit: 100}); len(all) != int(want) {
			t.Errorf("%s: %d transactions", constraints, len(all))
		}
		f.audit(t)
	}
}

// A payment is counted once, whatever is repeated, and by every version of its
// perimeter.
func TestLimitsCountOnce(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"3.00","per":"merchant_account"}]}`)
	for range 5 {
		if p, reason := f.spend(t, "again", eur(150), "shop.example"); p == nil {
			t.Fatal(reason)
		}
	}
	if reason := f.left(t, eur(150), "shop.example"); reason != "" {
		t.Errorf("1.50 of 3.00 is left: %s", reason)
	}
	if reason := f.left(t, eur(151), "shop.example"); reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("more than is left: %q", reason)
	}
	if reason := f.left(t, tollgate.Money{Minor: 1000, Currency: "JPY"}, "shop.example"); reason != "" {
		t.Errorf("another currency: %s", reason)
	}
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"2.00","per":"merchant_account"}],"review_above":"0.10"}`)
	if reason := f.left(t, eur(51), "shop.example"); reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("under the next version: %q", reason)
	}
	if _, reason := f.spend(t, "more", eur(51), "shop.example"); reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("under the next version: %q", reason)
	}
}

// counted is a payment as a slow second computation knows it.
type counted struct {
	id, payee  string
	at         time.Time
	amount     int64
	captured   int64
	open, gone bool // gone: at its end
}

// After any sequence of payments, captures, cancellations, reviews and jumps of
// the clock a payment is taken just if the sums over all payments have room.
func TestLimitsAreWhatWasSpent(t *testing.T) {
	f := newFixture(t)
	const day, month = 2000, 4000
	f.limited(t, `{"review_above":"5.00","budgets":[
		{"window":"day","time_zone":"Europe/Berlin","currency":"EUR","amount":"20.00","per":"merchant_account"},
		{"window":"month","currency":"EUR","amount":"40.00","per":"payee"}],
		"frequency":[{"window":"day","count":6,"per":"merchant_account"},{"window":"month","time_zone":"Asia/Tokyo","count":9,"per":"payee"}]}`)
	random := rand.New(rand.NewPCG(3, 5))
	zone := func(name string) *time.Location {
		l, err := tollgate.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	berlin, tokyo := zone("Europe/Berlin"), zone("Asia/Tokyo")
	var all []*counted
	predict := func(amount int64, payee string) tollgate.Reason {
		now := f.Clock.Now()
		var ofDay, ofMonth, today, thisMonth int64
		for _, c := range all {
			spent, times := c.amount, int64(1)
			if c.gone {
				if spent = c.captured; c.captured == 0 {
					times = 0
				}
			}
			if c.at.In(berlin).Format(time.DateOnly) == now.In(berlin).Format(time.DateOnly) {
				ofDay += spent
			}
			if c.at.UTC().Format("2006-01") == now.UTC().Format("2006-01") && strings.EqualFold(c.payee, payee) {
				ofMonth += spent
			}
			if c.at.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
				today += times
			}
			if c.at.In(tokyo).Format("2006-01") == now.In(tokyo).Format("2006-01") && strings.EqualFold(c.payee, payee) {
				thisMonth += times
			}
		}
		switch {
		case ofDay+amount > day, ofMonth+amount > month:
			return tollgate.ReasonBudgetExhausted
		case today+1 > 6, thisMonth+1 > 9:
			return tollgate.ReasonFrequencyExceeded
		}
		return ""
	}
	reasons := map[tollgate.Reason]int{}
	for step := range 600 {
		switch op := random.IntN(10); {
		case op < 6:
			amount, payee := 1+random.Int64N(700), []string{"shop.example", "SHOP.example", "other.example"}[random.IntN(3)]
			want := predict(amount, payee)
			if got := f.left(t, eur(amount), payee); got != want {
				t.Fatalf("step %d: a quote of %d says %q, want %q", step, amount, got, want)
			}
			p, got := f.spend(t, fmt.Sprint("step-", step), eur(amount), payee)
			if got != want {
				t.Fatalf("step %d: %d to %s: %q, want %q", step, amount, payee, got, want)
			}
			reasons[got]++
			if p != nil {
				all = append(all, &counted{id: p.ID, payee: payee, at: f.Clock.Now(), amount: amount, open: true})
			}
		case op < 9 && len(all) > 0:
			f.moveCounted(t, random, all[len(all)-1-random.IntN(min(len(all), 8))])
		default:
			f.Clock.Advance(time.Duration(random.IntN(20)) * time.Hour)
			for _, c := range all {
				if p, _ := f.Read(t, c.id); c.open && p.Deadline() != 0 && f.Now() >= p.Deadline() {
					if err := f.ExpirePayment(t.Context(), f.Caller.Organization, c.id); err != nil {
						t.Fatal(err)
					}
					c.open, c.gone = false, true
				}
			}
		}
	}
	if reasons[""] < 50 || reasons[tollgate.ReasonBudgetExhausted] < 20 || reasons[tollgate.ReasonFrequencyExceeded] < 20 {
		t.Errorf("%v", reasons)
	}
	f.audit(t)
}

// moveCounted does what can be done next to a payment.
func (f *fixture) moveCounted(t *testing.T, random *rand.Rand, c *counted) {
	t.Helper()
	if !c.open {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	p, _ := f.Read(t, c.id)
	var err error
	switch {
	case p.Status == tollgate.RequiresReview && random.IntN(2) == 0:
		err = f.Move(ctx, c.id, tollgate.TriggerReject)
		c.open, c.gone = false, true
	case p.Status == tollgate.RequiresReview:
		err = f.Move(ctx, c.id, tollgate.TriggerApprove)
	case random.IntN(3) == 0:
		err = f.Move(ctx, c.id, tollgate.TriggerCancel)
		c.open, c.gone = false, true
	default:
		part, final := 1+random.Int64N(p.AmountCapturable.Minor), random.IntN(2) == 0
		err = f.Capture(ctx, c.id, part, final)
		c.captured += part
		c.open = !final && part < p.AmountCapturable.Minor
		c.gone = !c.open // what a final capture releases comes back, too
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Of a payment that was captured in part and then canceled a budget gets back
// what was not captured, and a frequency nothing. What outlived its window
// comes back to nobody.
func TestLimitsGetBackWhatWasNotCaptured(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"3.00","per":"merchant_account"}],"frequency":[{"window":"month","count":2,"per":"payee"}]}`)
	p, _ := f.spend(t, "part", eur(150), "shop.example")
	if err := f.Capture(t.Context(), p.ID, 50, false); err != nil {
		t.Fatal(err)
	}
	if err := f.Move(t.Context(), p.ID, tollgate.TriggerCancel); err != nil {
		t.Fatal(err)
	}
	if in, over := f.left(t, eur(250), "shop.example"), f.left(t, eur(251), "shop.example"); in != "" || over != tollgate.ReasonBudgetExhausted {
		t.Errorf("2.50: %q, 2.51: %q", in, over)
	}
	last, _ := f.spend(t, "late", eur(150), "shop.example")
	if reason := f.left(t, eur(1), "shop.example"); reason != tollgate.ReasonFrequencyExceeded {
		t.Errorf("a third of two: %q", reason)
	}
	f.Clock.Advance(24 * time.Hour)
	if err := f.Move(t.Context(), last.ID, tollgate.TriggerCancel); err != nil {
		t.Fatal(err)
	}
	if in, over := f.left(t, eur(300), "shop.example"), f.left(t, eur(301), "shop.example"); in != "" || over != tollgate.ReasonBudgetExhausted {
		t.Errorf("the next day 3.00: %q, 3.01: %q", in, over)
	}
}

// A refund comes back to the budgets that counted the payment, where the perimeter
// says so and while their window is kept, and never to a frequency.
func TestLimitsGetBackWhatIsRefunded(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"3.00","per":"merchant_account"}],"frequency":[{"window":"month","count":2,"per":"payee"}]}`)
	p, _ := f.spend(t, "first", eur(150), "shop.example")
	must(t, f.Capture(t.Context(), p.ID, 150, true))
	check := func(what string, most int64) {
		t.Helper()
		if in, over := f.left(t, eur(most), "other.example"), f.left(t, eur(most+1), "other.example"); in != "" || over != tollgate.ReasonBudgetExhausted {
			t.Errorf("%s: %d is %q, %d is %q", what, most, in, most+1, over)
		}
	}
	check("captured", 150)
	must(t, f.GiveBack(t.Context(), p.ID, 100, false))
	check("refunded, and nothing is restored", 150)
	must(t, f.GiveBack(t.Context(), p.ID, 40, true))
	check("refunded and restored", 190)
	f.spend(t, "second", eur(10), "shop.example")
	if reason := f.left(t, eur(1), "shop.example"); reason != tollgate.ReasonFrequencyExceeded {
		t.Errorf("a third of two: %q", reason)
	}
	f.Clock.Advance(24 * time.Hour)
	must(t, f.GiveBack(t.Context(), p.ID, 10, true))
	check("the next day", 300)
}

// However a payment ends, the budget gets back what was not captured, and no more.
func TestWhateverEndsAPaymentGivesBack(t *testing.T) {
	for name, c := range map[string]struct {
		captured int64
		end      func(f *fixture, id string) error
	}{
		"final capture of a part": {50, func(f *fixture, id string) error { return f.Capture(t.Context(), id, 50, true) }},
		"capture of all":          {150, func(f *fixture, id string) error { return f.Capture(t.Context(), id, 150, false) }},
		"final capture after a part": {60, func(f *fixture, id string) error {
			return errors.Join(f.Capture(t.Context(), id, 20, false), f.Capture(t.Context(), id, 40, true))
		}},
		"cancellation": {0, func(f *fixture, id string) error { return f.Move(t.Context(), id, tollgate.TriggerCancel) }},
		"cancellation after a part": {20, func(f *fixture, id string) error {
			return errors.Join(f.Capture(t.Context(), id, 20, false), f.Move(t.Context(), id, tollgate.TriggerCancel))
		}},
		"expiry after a part": {20, func(f *fixture, id string) error {
			err := f.Capture(t.Context(), id, 20, false)
			f.Clock.Advance(168 * time.Hour)
			return errors.Join(err, f.ExpirePayment(t.Context(), f.Caller.Organization, id))
		}},
		"a capture that comes too late": {20, func(f *fixture, id string) error {
			err := f.Capture(t.Context(), id, 20, false)
			f.Clock.Advance(168 * time.Hour)
			if late := f.Capture(t.Context(), id, 500, true); code(late) != string(tollgate.CodeAuthorizationExpired) {
				err = errors.Join(err, fmt.Errorf("too late: %w", late))
			}
			return err
		}},
		"rejection": {0, func(f *fixture, id string) error { return f.Move(t.Context(), id, tollgate.TriggerReject) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			review := ""
			if name == "rejection" {
				review = `,"review_above":"1.00"`
			}
			f.limited(t, `{"budgets":[{"window":"month","currency":"EUR","amount":"3.00","per":"merchant_account"}]`+review+`}`)
			p, _ := f.spend(t, "one", eur(150), "shop.example")
			if err := c.end(f, p.ID); err != nil {
				t.Fatal(err)
			}
			if in, over := f.left(t, eur(300-c.captured), "shop.example"), f.left(t, eur(301-c.captured), "shop.example"); in != "" || over != tollgate.ReasonBudgetExhausted {
				t.Errorf("%d captured: the rest of 3.00: %q, a cent more: %q", c.captured, in, over)
			}
		})
	}
}

// The counters of a payment keep its hash one block of memory: Redis gives a
// hash with a value of more than 64 bytes, or with many, several times as much.
func TestLimitsLeavePaymentsSmall(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[
		{"window":"day","time_zone":"America/Argentina/Buenos_Aires","currency":"EUR","amount":"20.00","per":"merchant_account"},
		{"window":"month","currency":"EUR","amount":"40.00","per":"payee"}],
		"frequency":[{"window":"day","count":6,"per":"merchant_account"},{"window":"month","count":9,"per":"payee"}]}`)
	p, _ := f.spend(t, "small", eur(150), strings.Repeat("s", 40)+".example")
	raw := rawClient(t, f.URL)
	keys := scanKeys(t, raw, "*:"+p.ID)
	if len(keys) != 1 {
		t.Fatal(keys)
	}
	for name, value := range raw.HGetAll(t.Context(), keys[0]).Val() {
		if len(value) > 64 {
			t.Errorf("%s has %d bytes: %s", name, len(value), value)
		}
	}
	if redistest.Kind(t) == redistest.Miniredis { // it has no encodings
		return
	}
	if encoding, err := raw.ObjectEncoding(t.Context(), keys[0]).Result(); err != nil || encoding != "listpack" {
		t.Errorf("%s, %v", encoding, err)
	}
}
