package rediskv_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/accounts"
)

const (
	// previewCases is how many random cases are tried; TOLLGATE_TEST_PREVIEWS
	// makes it another number. `make test-server` tries a thousand.
	previewCases = 40
	// previewsAtOnce is how many have one organization and one clock: what is
	// done for all of an organization costs as much as many cases do.
	previewsAtOnce = 100
)

// What a preview says is what then happens: of two accounts with the same
// captures one changes its cutoff before them; the preview for the other says
// what both are then paid, to the cent and to the date.
func TestPreviewIsWhatHappens(t *testing.T) {
	cases, _ := strconv.Atoi(os.Getenv("TOLLGATE_TEST_PREVIEWS"))
	if cases == 0 {
		cases = previewCases
	}
	r := rand.New(rand.NewPCG(5, 6))
	moved, checked := int64(0), 0
	for start := 0; start < cases; start += previewsAtOnce {
		m, n := previewRound(t, r, min(previewsAtOnce, cases-start))
		moved, checked = moved+m, checked+n
	}
	t.Logf("%d cases, %d captures moved, %d payouts compared", cases, moved, checked)
	if moved == 0 || checked < cases {
		t.Errorf("%d captures moved, %d payouts were compared", moved, checked)
	}
}

// randomCutoff is any cutoff, with odd zones among them.
func randomCutoff(r *rand.Rand) tollgate.Cutoff {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	return tollgate.Cutoff{
		CutoffTime: pick("00:00", "02:30", "09:15", "17:00", "23:59"),
		TimeZone: pick("Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Honolulu", "Asia/Kathmandu",
			"Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago", "UTC"),
		SettlementDelayDays: r.IntN(6), Calendar: pick("none", "target", "us_fed", "uk"), Interval: pick("daily", "daily", "weekly", "monthly"),
	}
}

// previewRound tries n cases at once, on one clock. It returns how many captures
// the previews move and how many payouts were compared.
func previewRound(t *testing.T, r *rand.Rand, n int) (moved int64, checked int) {
	f := newFixture(t)
	f.Clock.Set(time.Date(2022+r.IntN(5), 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(365 * 24 * time.Hour)))))
	model := f.Config.MerchantAccounts[0]
	accounts := make([]tollgate.MerchantAccount, 2*n) // the even ones change
	for i := 0; i < 2*n; i += 2 {
		model.Cutoff = randomCutoff(r)
		for j := range 2 {
			accounts[i+j] = model
			accounts[i+j].ID = f.NewID(tollgate.PrefixMerchantAccount)
		}
	}
	f.Config.MerchantAccounts = accounts
	f.provision(t)
	f.Clock.Advance(time.Duration(r.Int64N(int64(24 * time.Hour))))
	before := f.Now()
	f.Config.Effective = map[string]tollgate.Date{}
	for i := 0; i < 2*n; i += 2 {
		open := f.accountOf(t, accounts[i].ID).Cutoffs.SalesDate(before)
		accounts[i].Cutoff = randomCutoff(r)
		f.Config.Effective[accounts[i].ID] = open + tollgate.Date(1+r.IntN(6))
	}
	f.provision(t)
	for range 8 {
		f.Clock.Advance(time.Duration(r.Int64N(int64(70 * time.Hour))))
		for i := 0; i < 2*n; i += 2 {
			if r.IntN(4) == 0 {
				continue
			}
			amount := tollgate.Money{Minor: 2 + r.Int64N(5_000), Currency: []tollgate.Currency{"EUR", "JPY"}[r.IntN(2)]}
			for j := range 2 {
				f.sell(t, accounts[i+j].ID, amount)
			}
		}
		if r.IntN(3) == 0 {
			f.mustSettle(t) // at any time between
		}
	}
	f.Clock.Advance(time.Millisecond)
	previews := make([]*tollgate.CutoffPreview, n)
	for i := range previews {
		previews[i] = f.preview(t, f.accountOf(t, accounts[2*i+1].ID), accounts[2*i].Cutoff, f.Config.Effective[accounts[2*i].ID], tollgate.PreviewWindow{From: before, To: f.Now()})
	}
	for range 3 {
		f.days(30)
		f.mustSettle(t)
	}
	paid := map[string][]string{}
	for _, x := range f.payouts(t) {
		paid[x.MerchantAccountID] = append(paid[x.MerchantAccountID], fmt.Sprintf("%s %s %s", *x.AvailableOn, x.Amount, x.Currency))
	}
	for i, p := range previews {
		var changed, same []string
		for _, row := range p.Payouts {
			if row.AmountProposed.Minor != 0 {
				changed = append(changed, fmt.Sprintf("%s %s %s", row.PayoutDate, row.AmountProposed, row.Currency))
			}
			if row.AmountCurrent.Minor != 0 {
				same = append(same, fmt.Sprintf("%s %s %s", row.PayoutDate, row.AmountCurrent, row.Currency))
			}
		}
		for j, want := range [][]string{changed, same} {
			got := paid[accounts[2*i+j].ID]
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("from %+v to %+v on %s: the preview says %v, paid is %v (changed: %t)",
					accounts[2*i+1].Cutoff, accounts[2*i].Cutoff, p.EffectiveDate, want, got, j == 0)
			}
			checked += len(got)
		}
		moved += p.Summary.CapturesMoved
	}
	f.checkMoney(t)
	return moved, checked
}

func (f *fixture) provision(t testing.TB) {
	t.Helper()
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) accountOf(t testing.TB, id string) *accounts.Account {
	t.Helper()
	a, err := f.Account(t.Context(), f.Caller.Organization, id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sell makes a payment on an account that is captured at once.
func (f *fixture) sell(t testing.TB, account string, amount tollgate.Money) {
	t.Helper()
	a := f.accountOf(t, account)
	ch, ans := f.Draft(t, a, amount, "shop.example", tollgate.CaptureAutomatic)
	if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key(f.NewID("")), a, ch, ans); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) preview(t testing.TB, a *accounts.Account, proposed tollgate.Cutoff, from tollgate.Date, w tollgate.PreviewWindow) *tollgate.CutoffPreview {
	t.Helper()
	p, err := tollgate.NewCutoffPreviewer(tollgate.CutoffQuestion{
		MerchantAccountID: a.ID, Current: a.Cutoffs, Closed: a.Closed, Proposed: proposed, EffectiveDate: from, Window: w, Now: f.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Captured(t.Context(), f.Caller, a.ID, p.Window(), p.Add); err != nil {
		t.Fatal(err)
	}
	return p.Preview()
}
