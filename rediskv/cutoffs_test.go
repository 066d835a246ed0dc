package rediskv_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// captured reads the captures of the first account in a window.
func (f *fixture) captured(t testing.TB, from, to tollgate.Instant) (all []tollgate.CapturedAmount) {
	t.Helper()
	err := f.Captured(t.Context(), f.Caller, f.MerchantAccount(t).ID, tollgate.PreviewWindow{From: from, To: to}, func(c tollgate.CapturedAmount) error {
		all = append(all, c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Captures come with their fees taken off, whatever was committed between them
// and wherever a batch of reading ends: each automatic payment is three
// transactions, so a batch ends between a capture and its fee.
func TestCaptured(t *testing.T) {
	f := newFixture(t)
	random := rand.New(rand.NewPCG(4, 4))
	begin := f.Now()
	var want []tollgate.CapturedAmount
	for n := range 400 {
		f.Clock.Advance(time.Duration(random.IntN(3000)) * time.Second)
		amount := eur(1 + random.Int64N(100_000))
		at := f.Now()
		switch n % 9 {
		case 3: // never captured
			f.Pay(t, amount, tollgate.CaptureManual)
			continue
		case 5: // captured in parts, the rest is released
			amount.Minor += 1000
			p := f.Pay(t, amount, tollgate.CaptureManual)
			for i, part := range []int64{400, 500} {
				f.Clock.Advance(time.Minute)
				if err := f.Capture(t.Context(), p.ID, part, i == 1); err != nil {
					t.Fatal(err)
				}
				want = append(want, f.expect(t, f.Now(), eur(part), i+1))
			}
			continue
		}
		f.Pay(t, amount, tollgate.CaptureAutomatic)
		want = append(want, f.expect(t, at, amount, 1))
	}
	if got := f.captured(t, begin, f.Now()+1); !slices.Equal(got, want) {
		t.Fatalf("%d captures, want %d; the first are %v, want %v", len(got), len(want), got[:3], want[:3])
	}
	for range 20 { // any window: from is in it, to is not
		from := want[random.IntN(len(want))].At
		to := max(want[random.IntN(len(want))].At, from+1)
		var inside []tollgate.CapturedAmount
		for _, c := range want {
			if c.At >= from && c.At < to {
				inside = append(inside, c)
			}
		}
		if got := f.captured(t, from, to); !slices.Equal(got, inside) {
			t.Errorf("from %v to %v: %d captures, want %d", from, to, len(got), len(inside))
		}
	}
	if got := f.captured(t, f.Now()+1, f.Now()+2); len(got) != 0 {
		t.Errorf("the future has %v", got)
	}
}

// expect is a capture of now, after the fee that price takes.
func (f *fixture) expect(t testing.TB, at tollgate.Instant, amount tollgate.Money, capture int) tollgate.CapturedAmount {
	t.Helper()
	fee := tollgate.FeeTotal(f.Price(amount, capture).Lines, amount.Currency)
	a := f.MerchantAccount(t)
	return tollgate.CapturedAmount{At: at, Currency: amount.Currency, Net: amount.Minor - fee.Minor, SalesDay: a.Cutoffs.SalesDay(at, a.Closed)}
}

func TestCapturedStops(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(100), tollgate.CaptureAutomatic)
	f.Pay(t, eur(200), tollgate.CaptureAutomatic)
	window := tollgate.PreviewWindow{From: f.Now() - 1000, To: f.Now() + 1000}
	full, seen := errors.New("full"), 0
	err := f.Captured(t.Context(), f.Caller, f.MerchantAccount(t).ID, window, func(tollgate.CapturedAmount) error {
		seen++
		return full
	})
	if !errors.Is(err, full) || seen != 1 {
		t.Errorf("after %d captures: %v", seen, err)
	}
	// Another account of the organization has its own.
	err = f.Captured(t.Context(), f.Caller, f.Config.MerchantAccounts[1].ID, window, func(c tollgate.CapturedAmount) error {
		t.Errorf("the other account has %v", c)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// A grant that has been changed since reads nothing.
	stranger := f.Caller
	stranger.GrantVersion++
	err = f.Captured(t.Context(), stranger, f.MerchantAccount(t).ID, window, func(c tollgate.CapturedAmount) error {
		t.Errorf("a changed grant reads %v", c)
		return nil
	})
	if err == nil {
		t.Error("a changed grant reads")
	}
}

// What was captured before sales days were kept has no batch.
func TestCapturedBeforeSalesDays(t *testing.T) {
	f := newFixture(t)
	f.Pay(t, eur(100), tollgate.CaptureAutomatic)
	raw := rawClient(t, f.URL)
	k := f.Space(f.Caller.Organization)
	for _, x := range f.allTransactions(t, ledger.TransactionQuery{Limit: 100}) {
		for _, field := range []string{"bd", "av"} {
			testkit.SetTransaction(t, raw, k, testkit.TransactionOf(t, raw, k, x.ID), field, "")
		}
	}
	got := f.captured(t, f.Now()-1000, f.Now()+1000)
	if len(got) != 1 || got[0].Net != 99 || got[0].SalesDay != (tollgate.SalesDay{}) {
		t.Errorf("%v", got)
	}
}

// What is older than the window is not looked at, however much it is, and
// neither is what is later.
func TestCapturedLooksAtTheWindow(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	f := newFixtureAt(t, wire.URL)
	var window tollgate.PreviewWindow
	for n := range 700 {
		f.Clock.Advance(time.Hour)
		switch n {
		case 290:
			window.From = f.Now()
		case 300:
			window.To = f.Now()
		}
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	}
	wire.Reset()
	got := f.captured(t, window.From, window.To)
	if sent := wire.Counts(); len(got) != 10 || sent["EVALSHA"] != 1 || sent["HMGET"]-sent["ZRANGE"] > 500 || sent["ZRANGE"] > 100 {
		t.Errorf("%d captures, and sent %v", len(got), sent)
	}
}

// Far from Redis a preview needs few round trips, however many transactions the
// account has.
func TestCapturedFarAway(t *testing.T) {
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	for range 700 {
		f.Clock.Advance(time.Minute)
		f.Pay(t, eur(100), tollgate.CaptureAutomatic)
	}
	from := f.Now().Add(-30 * time.Minute)
	wire := redistest.Proxy(t, server.Addr)
	far := f.with(t, rediskv.Options{URL: wire.URL, Timeout: rediskv.OperationTimeout})
	wire.Delay(100 * time.Millisecond)
	if got := far.captured(t, from, f.Now()+1); len(got) != 31 {
		t.Errorf("%d captures, want 31", len(got))
	}
	wire.Delay(0) // the store closes
}

// ending is a context whose time is over when the test says so.
type ending struct {
	context.Context
	over chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// When the time of a request is not enough for a window, a shorter one is: that
// is what the answer says, not that Redis is away.
func TestCapturedTakesTooLong(t *testing.T) {
	f := newFixture(t)
	begin := f.Now()
	for range 170 { // more than one batch
		f.Pay(t, eur(100), tollgate.CaptureAutomatic)
	}
	ctx := ending{t.Context(), make(chan struct{})}
	over := sync.OnceFunc(func() { close(ctx.over) })
	window := tollgate.PreviewWindow{From: begin, To: f.Now() + 1}
	err := f.Captured(ctx, f.Caller, f.MerchantAccount(t).ID, window, func(tollgate.CapturedAmount) error {
		over()
		return nil
	})
	if code(err) != string(tollgate.CodeCutoffInvalid) {
		t.Errorf("the time is over: %v", err)
	}
	// A request that could read nothing says nothing about its window.
	if err := f.Captured(ctx, f.Caller, f.MerchantAccount(t).ID, window, func(tollgate.CapturedAmount) error { return nil }); code(err) != string(tollgate.CodeStoreUnavailable) {
		t.Errorf("no time from the start: %v", err)
	}
}
