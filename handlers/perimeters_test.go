package handlers_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
)

// A page of perimeters takes as few round trips to Redis as one of them does,
// but for what is too much for one batch.
func TestPerimetersInFewRoundTrips(t *testing.T) {
	w := newWorld(t)
	c := w.configs[""]
	const more = 100
	for n := range more {
		per, account := w.store.NewID(tollgate.PrefixPerimeter), c.MerchantAccounts[0]
		c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{ID: per, Version: 1, Constraints: jsontext.Value(
			`{"budgets":[{"window":"day","currency":"EUR","amount":"10.00","per":"merchant_account"}],"frequency":[{"window":"day","count":3,"per":"payee"}]}`)})
		account.ID, account.Name = w.store.NewID(tollgate.PrefixMerchantAccount), fmt.Sprint("shop ", n)
		account.Perimeter = tollgate.PerimeterRef{ID: per, Version: 1}
		c.MerchantAccounts = append(c.MerchantAccounts, account)
	}
	w.apply("")
	var mu sync.Mutex
	trips := map[string]int{}
	i := w.aloneWith(rediskv.Options{Observe: func(operation string, _ time.Duration, _ error) {
		mu.Lock()
		defer mu.Unlock()
		trips[operation]++
	}})
	i.want(i.call("GET", "/v1/perimeters?limit=1", ""), 200, "") // the token, the grant
	count := func(path string) (n int, all string) {
		mu.Lock()
		clear(trips)
		mu.Unlock()
		r := i.want(i.call("GET", path, ""), 200, "")
		mu.Lock()
		defer mu.Unlock()
		for _, times := range trips {
			n += times
		}
		if want := 100; strings.HasSuffix(path, "=100&payee=shop.example") && (entries(r) != want || strings.Count(r.text, `"used":"0`) < 2*(want-len(accountForms))) {
			t.Errorf("%d entries: %.300s", entries(r), r.text)
		}
		return n, fmt.Sprint(trips)
	}
	one, _ := count("/v1/perimeters?limit=1&payee=shop.example")
	page, how := count("/v1/perimeters?limit=100&payee=shop.example")
	// 100 documents are one batch, 200 counters two.
	if page > one+2 {
		t.Errorf("a page took %d round trips, one perimeter %d: %s", page, one, how)
	}
}
