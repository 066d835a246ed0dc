package rediskv_test

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// loaded is the Redis that `make load` has filled.
const loaded = "TOLLGATE_TEST_LOADED"

// searched is an organization with very many payments, and some of what they have.
type searched struct {
	*store.Store
	rediskv.Caller
	frequent, rare *tollgate.Payment // of a payee that many have, and that few have
}

func loadedMarket(b *testing.B) *searched {
	url := os.Getenv(loaded)
	if url == "" {
		b.Skip("searches among what make load has made: " + loaded + "=redis://127.0.0.1:6395, see the page of performance")
	}
	s := &searched{Store: testkit.Open(b, rediskv.Options{URL: url, Clock: time.Now})}
	for p := range s.Partitions() {
		orgs, err := s.OrganizationsIn(b.Context(), p)
		must(b, err)
		for _, org := range orgs {
			s.Organization = org
			for n, begin := 1, time.Now(); n > 0; {
				n, err = s.PostTransactions(b.Context(), p)
				if must(b, err); n > 0 {
					b.Logf("posted %d transactions in %s", n, time.Since(begin))
				}
			}
		}
	}
	rows, _, _, err := s.Payments(b.Context(), s.Caller, ledger.TransactionQuery{Limit: 1000})
	must(b, err)
	count := map[string]int{}
	for _, p := range rows {
		count[string(p.Payee)]++
	}
	slices.SortStableFunc(rows, func(x, y tollgate.Payment) int { return cmp.Compare(count[string(x.Payee)], count[string(y.Payee)]) })
	s.rare, s.frequent = &rows[0], &rows[len(rows)-1]
	return s
}

// BenchmarkSearches: a page of a search, as a multiple of the page of the newest payments,
// which is read by its place. Both are measured in turn.
func BenchmarkSearches(b *testing.B) {
	s := loadedMarket(b)
	newest, _, _, err := s.Payments(b.Context(), s.Caller, ledger.TransactionQuery{Limit: 1, Descending: true})
	must(b, err)
	end := newest[0].CreatedAt
	reference := func(p *tollgate.Payment) string {
		if p.Reference == nil {
			return "none"
		}
		return *p.Reference
	}
	for name, q := range map[string]ledger.TransactionQuery{
		"payee/frequent":           {Payee: string(s.frequent.Payee)},
		"payee/rare":               {Payee: string(s.rare.Payee)},
		"payee/none":               {Payee: "nobody.example"},
		"reference":                {Reference: reference(s.rare)},
		"currency":                 {Currency: "EUR"},
		"currency/none":            {Currency: "CLF"},
		"status":                   {Statuses: []string{"expired"}},
		"dates/old":                {CreatedBefore: end.Add(-25 * 24 * time.Hour)},
		"dates/week":               {CreatedAfter: end.Add(-20 * 24 * time.Hour), CreatedBefore: end.Add(-13 * 24 * time.Hour)},
		"payee+currency":           {Payee: string(s.frequent.Payee), Currency: "EUR"},
		"payee+currency/none":      {Payee: string(s.frequent.Payee), Currency: "CLF"},
		"payee+status":             {Payee: string(s.frequent.Payee), Statuses: []string{"expired"}},
		"payee/rare+status":        {Payee: string(s.rare.Payee), Statuses: []string{"captured"}},
		"payee+reference/disjoint": {Payee: string(s.frequent.Payee), Reference: reference(s.rare)},
		"currency+status":          {Currency: "EUR", Statuses: []string{"canceled"}},
		"currency+dates":           {Currency: "EUR", CreatedBefore: end.Add(-25 * 24 * time.Hour)},
		"payee+status+dates":       {Payee: string(s.frequent.Payee), Statuses: []string{"captured"}, CreatedBefore: end.Add(-10 * 24 * time.Hour)},
	} {
		q.Limit, q.Descending = 20, true
		b.Run(name, func(b *testing.B) { s.measure(b, q) })
		for range 500 {
			_, next, more, err := s.Payments(b.Context(), s.Caller, q)
			must(b, err)
			if q.After = next; !more {
				break
			}
		}
		b.Run(name+"/page500", func(b *testing.B) { s.measure(b, q) })
	}
}

func (s *searched) measure(b *testing.B, q ledger.TransactionQuery) {
	by := ledger.TransactionQuery{Limit: q.Limit, Descending: true}
	var took [2][]time.Duration
	rows := 0
	for b.Loop() {
		for i, one := range []ledger.TransactionQuery{by, q} {
			begin := time.Now()
			found, _, _, err := s.Payments(b.Context(), s.Caller, one)
			took[i] = append(took[i], time.Since(begin))
			must(b, err)
			rows = len(found)
		}
	}
	at := func(list []time.Duration, share float64) float64 {
		slices.Sort(list)
		return float64(list[int(share*float64(len(list)-1))])
	}
	b.ReportMetric(at(took[1], 0.5)/at(took[0], 0.5), "p50/page")
	b.ReportMetric(at(took[1], 0.99)/at(took[0], 0.99), "p99/page")
	b.ReportMetric(float64(rows), "rows")
}

// tookText finds what Redis has spent on commands. Those of scripts are in evalsha as well.
var tookText = regexp.MustCompile(`cmdstat_(?:evalsha|hgetall|hmget|get):calls=\d+,usec=(\d+)`)

// BenchmarkPageOfOne: what Redis does for a page of one payment, as a part of what it does
// for one of a hundred.
func BenchmarkPageOfOne(b *testing.B) {
	s := loadedMarket(b)
	raw := rawClient(b, os.Getenv(loaded))
	spent := func() (usec float64) {
		text, err := raw.Info(b.Context(), "commandstats").Result()
		must(b, err)
		for _, m := range tookText.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.ParseFloat(m[1], 64)
			usec += n
		}
		return usec
	}
	var took [2]float64
	for b.Loop() {
		for i, limit := range []int{1, 100} {
			before := spent()
			for range 20 {
				_, _, _, err := s.Transactions(b.Context(), s.Caller, ledger.TransactionQuery{Limit: limit, Descending: true})
				must(b, err)
			}
			took[i] += spent() - before
		}
	}
	b.ReportMetric(took[0]/took[1], "one/hundred")
}
