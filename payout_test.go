package tollgate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tollgate"
)

// One payout for each date on which something is due, of all that is due by
// then; what fees eat up waits for the next, and what is not due stays.
func TestPlanPayouts(t *testing.T) {
	payable := func(due, date tollgate.Date, c tollgate.Currency, captured, fees int64) tollgate.Payable {
		return tollgate.Payable{Due: due, Currency: c, PayoutGroup: tollgate.PayoutGroup{Date: date, Captures: captured, Fees: fees, Count: 1}}
	}
	refunded := func(p tollgate.Payable, refunds int64) tollgate.Payable { p.Refunds = refunds; return p }
	for name, test := range map[string]struct {
		payable []tollgate.Payable
		want    string
	}{
		"nothing":           {nil, ""},
		"not due":           {[]tollgate.Payable{payable(11, 11, "EUR", 100, 1)}, ""},
		"due":               {[]tollgate.Payable{payable(10, 10, "EUR", 100, 1)}, "10 EUR 99 [10]"},
		"two dates":         {[]tollgate.Payable{payable(10, 10, "EUR", 100, 1), payable(8, 8, "EUR", 50, 0)}, "8 EUR 50 [8], 10 EUR 99 [10]"},
		"two currencies":    {[]tollgate.Payable{payable(10, 10, "USD", 7, 0), payable(10, 10, "EUR", 100, 1)}, "10 EUR 99 [10], 10 USD 7 [10]"},
		"all fees":          {[]tollgate.Payable{payable(9, 9, "EUR", 5, 5)}, ""},
		"fees carried":      {[]tollgate.Payable{payable(9, 9, "EUR", 1, 5), payable(10, 10, "EUR", 100, 1)}, "10 EUR 95 [9 10]"},
		"fees carried on":   {[]tollgate.Payable{payable(8, 8, "EUR", 1, 50), payable(9, 9, "EUR", 10, 0), payable(10, 10, "EUR", 100, 1)}, "10 EUR 60 [8 9 10]"},
		"failed before":     {[]tollgate.Payable{payable(10, 3, "EUR", 100, 1), payable(10, 10, "EUR", 20, 0), payable(12, 4, "EUR", 1, 0)}, "10 EUR 119 [3 10]"},
		"refunds":           {[]tollgate.Payable{refunded(payable(10, 10, "EUR", 100, 1), 20)}, "10 EUR 79 [10]"},
		"refunds alone":     {[]tollgate.Payable{refunded(payable(9, 9, "EUR", 0, 0), 20)}, ""},
		"refunds carried":   {[]tollgate.Payable{refunded(payable(9, 9, "EUR", 0, 2), 20), payable(10, 10, "EUR", 100, 1)}, "10 EUR 77 [9 10]"},
		"refunds above":     {[]tollgate.Payable{refunded(payable(9, 9, "EUR", 10, 0), 500), payable(10, 10, "EUR", 100, 1)}, ""},
		"fees of the other": {[]tollgate.Payable{payable(9, 9, "EUR", 1, 5), payable(10, 10, "USD", 100, 1)}, "10 USD 99 [10]"},
	} {
		var got []string
		for _, p := range tollgate.PlanPayouts("org_1", "ma_1", test.payable, 10) {
			var dates []int
			for _, g := range p.Groups {
				dates = append(dates, int(g.Date))
			}
			got = append(got, fmt.Sprint(int(p.Date), " ", p.Currency, " ", p.Amount().Minor, " ", dates))
			if p.ID != tollgate.PayoutOf("org_1", "ma_1", p.Currency, p.Date, p.Groups...) {
				t.Errorf("%s: id %s", name, p.ID)
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), test.want)
		}
	}
}

// An id stands for one account, currency and date.
func TestPayoutIDs(t *testing.T) {
	seen := map[string]string{}
	group := tollgate.PayoutGroup{Date: 20000, Captures: 1, Fees: 2, Refunds: 3, Count: 4}
	for i, change := range []func(*tollgate.PayoutGroup){
		func(*tollgate.PayoutGroup) {},
		func(g *tollgate.PayoutGroup) { g.Date++ },
		func(g *tollgate.PayoutGroup) { g.Captures++ },
		func(g *tollgate.PayoutGroup) { g.Fees++ },
		func(g *tollgate.PayoutGroup) { g.Refunds++ },
		func(g *tollgate.PayoutGroup) { g.Count++ },
	} {
		g := group
		change(&g)
		for _, groups := range [][]tollgate.PayoutGroup{{g}, {g, g}} {
			id := tollgate.PayoutOf("org_1", "ma_1", "EUR", 20000, groups...)
			if was, ok := seen[id]; ok {
				t.Errorf("another amount has the same id: %d and %s", i, was)
			}
			seen[id] = fmt.Sprint(i)
		}
	}
	for _, org := range []string{"org_1", "org_2"} {
		for _, account := range []string{"ma_1", "ma_2"} {
			for _, c := range []tollgate.Currency{"EUR", "USD"} {
				for d := tollgate.Date(20000); d < 20050; d++ {
					id := tollgate.PayoutOf(org, account, c, d)
					what := fmt.Sprint(org, account, c, d)
					if was, ok := seen[id]; ok || !tollgate.ValidID(id) || !strings.HasPrefix(id, "po_") || len(id) != 29 {
						t.Errorf("%s is %s and %s", id, was, what)
					}
					seen[id] = what
				}
			}
		}
	}
}

// NextPayoutDate is the first payout date after a day, as a search from the
// beginning finds it.
func TestNextPayoutDate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		c := tollgate.Cutoff{
			CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: r.IntN(21), Version: 1,
			Calendar: []string{"none", "target", "us_fed", "uk"}[r.IntN(4)], Interval: []string{"daily", "weekly", "monthly"}[r.IntN(3)],
		}
		line, err := tollgate.NewTimeline([]tollgate.CutoffVersion{{Cutoff: c}})
		if err != nil {
			t.Fatal(err)
		}
		after := tollgate.Date(20000 + r.IntN(2000))
		want := tollgate.Date(1 << 30)
		for d := after - 120; d <= after+1; d++ {
			if on := line.PayoutDate(d); on > after {
				want = min(want, on)
			}
		}
		if got := line.NextPayoutDate(after); got != want {
			t.Errorf("%+v after %s: %s, want %s", c, after, got, want)
		}
	}
}
