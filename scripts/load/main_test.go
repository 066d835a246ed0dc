package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/cmd/sandbox"
	"tollgate/rediskv"
	"tollgate/rediskv/testkit"
)

// Two years of a shop with an archive: most of it is in there at the end, and all that is
// said of it was proved.
func TestYears(t *testing.T) {
	var off atomic.Int64
	redis := sandbox.NewRedis(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
	moved := func(by time.Duration) error {
		off.Store(int64(by))
		return nil
	}
	var said strings.Builder
	o := options{payments: 400, span: 2 * year, clients: 64, seed: 1, archiveDir: t.TempDir()}
	if err := yearsIn(t.Context(), &said, rediskv.Options{URL: "redis://sandbox", Dial: redis.Dial, Partitions: 1}, o, moved, nil); err != nil {
		t.Fatalf("%v, after\n%s", err, &said)
	}
	t.Log(said.String())
	for _, want := range []string{`(?m)^ +2 +18:30 +400 +\d+ .* card_fee 1, platform_fee 1$`, `and 3\d\d in the archive: 0 findings`, `1\d\d tickets of the first year, [1-9]\d\d evaluations`} {
		if !regexp.MustCompile(want).MatchString(said.String()) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// A small marketplace, read back as its merchants would: every payment is there in the
// state that its story ends in, and nothing disagrees with anything else.
func TestFill(t *testing.T) {
	const count = 500
	var off atomic.Int64
	redis := sandbox.NewRedis(func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
	moved := func(by time.Duration) error {
		off.Store(int64(by))
		return nil
	}
	m, err := open(t.Context(), rediskv.Options{URL: "redis://sandbox", Dial: redis.Dial, Partitions: 1}, options{payments: count, span: 30 * 24 * time.Hour, clients: 64, seed: 1}, moved)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if err := m.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	statuses, accounts, refunded, referenced := map[tollgate.PaymentStatus]int{}, map[string]int{}, 0, 0
	begin, end := time.Now().Add(-m.span), time.Now()
	for p := range list[tollgate.Payment](t, m, "/v1/payments") {
		statuses[p.Status]++
		accounts[p.MerchantAccountID]++
		if p.AmountRefunded.Minor > 0 {
			refunded++
		}
		if p.Reference != nil {
			referenced++
		}
		if at := p.CreatedAt.Time(); at.Before(begin) || at.After(end) {
			t.Errorf("%s was created at %s, not between %s and %s", p.ID, at, begin, end)
		}
	}
	if of(statuses) != count || len(accounts) != len(shops()) {
		t.Errorf("%d payments of %d accounts", of(statuses), len(accounts))
	}
	for status, bounds := range map[tollgate.PaymentStatus][2]int{
		tollgate.Captured: {425, 475}, tollgate.Canceled: {8, 40}, tollgate.Expired: {8, 40}, tollgate.Declined: {1, 20}, tollgate.RequiresReview: {0, 0},
	} {
		if n := statuses[status]; n < bounds[0] || n > bounds[1] {
			t.Errorf("%d are %s, want %v", n, status, bounds)
		}
	}
	if refunded < 5 || referenced < 370 || referenced > 430 {
		t.Errorf("%d are refunded, %d have a reference", refunded, referenced)
	}
	paid := 0
	for p := range list[payout](t, m, "/v1/payouts") {
		if p.Status == tollgate.PayoutStatusPaid {
			paid++
		}
	}
	if paid < 50 {
		t.Errorf("%d payouts are paid", paid)
	}
	testkit.Consistent(t, m.store)
}

type payout struct {
	Status tollgate.PayoutStatus `json:"status"`
}

func of(counts map[tollgate.PaymentStatus]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// list reads all pages of a list.
func list[T any](t *testing.T, m *market, path string) func(yield func(T) bool) {
	t.Helper()
	return func(yield func(T) bool) {
		query := url.Values{"limit": {"100"}}
		for {
			token, err := m.api.bearer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"?"+query.Encode(), nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			m.api.handler.ServeHTTP(w, r)
			var page struct {
				Data []T     `json:"data"`
				Next *string `json:"next_cursor"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s %v", w.Code, w.Body, err)
			}
			for _, row := range page.Data {
				if !yield(row) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			query.Set("cursor", *page.Next)
		}
	}
}

// Every payment is a little later than the one before, all within the span, and a noon
// has more of them than a night.
func TestMoments(t *testing.T) {
	const span, count = 30 * 24 * time.Hour, 30_000
	last, hours := -span, [24]int{}
	for n := range count {
		off := moment(span, n, count)
		if off <= last || off >= 0 {
			t.Fatalf("payment %d at %s, after %s", n, off, last)
		}
		last = off
		hours[int((span+off).Hours())%24]++
	}
	if hours[12] < 2*hours[0] {
		t.Errorf("by hour: %v", hours)
	}
}

// What the marketplace sells: one payee is great, most are small, and some currencies
// are rare. The same seed makes the same payments.
func TestSales(t *testing.T) {
	const count = 50_000
	s, again := newSales(7, shops()), newSales(7, shops())
	payees, currencies := map[string]int{}, map[tollgate.Currency]int{}
	most := 0
	for range count {
		made, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if same, _ := again.next(); same.body != made.body {
			t.Fatalf("%s and %s of one seed", made.body, same.body)
		}
		var body struct {
			Payee    string `json:"payee"`
			Currency string `json:"currency"`
		}
		if err := json.Unmarshal([]byte(made.body), &body); err != nil {
			t.Fatal(err)
		}
		payees[body.Payee]++
		most = max(most, payees[body.Payee])
		currencies[tollgate.Currency(body.Currency)]++
	}
	if part := float64(most) / count; part < 0.03 || part > 0.07 {
		t.Errorf("the greatest payee has %.3f of the payments", part)
	}
	if len(payees) < 10_000 || len(currencies) < 20 || currencies["EUR"] < count/3 || currencies["KWD"] > count/200 {
		t.Errorf("%d payees, currencies %v", len(payees), currencies)
	}
}

func TestRefusesOtherMachines(t *testing.T) {
	for _, address := range []string{"redis://redis.example:6379", "redis://192.0.2.1", "redis://127.0.0.1.example", "%"} {
		if err := loopback(address); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
	for _, address := range []string{"redis://localhost:6379", "redis://127.0.0.1", "redis://[::1]:1", "unix:///tmp/redis.sock"} {
		if err := loopback(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
}
