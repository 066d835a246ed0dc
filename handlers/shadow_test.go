package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
	"tollgate/wasm"
)

// TestShadowDelaysNobody: with a shadow a quote still asks Redis nothing, and
// when nobody compares, what waits is bounded and the rest is let go and counted.
func TestShadowDelaysNobody(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	begin := time.Now()
	i := startWith(t, rediskv.Options{URL: wire.URL, Clock: func() time.Time { return begin }}) // the cache does not age
	i.authenticate()
	made := i.call("POST", "/v1/shadows", `{"rule":"rule:card_fee@v1","against":"rule:card_fee@v2"}`)
	i.want(made, 201, "")
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "") // fills the cache
	wire.Reset()
	const quotes = 1100
	for range quotes {
		i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
	}
	if sent := wire.Counts(); len(sent) != 0 {
		t.Errorf("quotes have asked Redis: %v", sent)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { i.handler.Shadow(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	var totals map[string]any
	testkit.Within(t, "all are compared or let go", 20*time.Second, func() bool {
		totals = i.call("GET", "/v1/shadows/"+made.body["id"].(string), "").body["totals"].(map[string]any)
		return totals["compared"].(float64)+totals["dropped"].(float64) == quotes+1
	})
	if totals["compared"] != float64(1024) || totals["equal"].(float64)+totals["different"].(float64) != totals["compared"] {
		t.Errorf("%v", totals)
	}
}

// What waits when an instance stops is compared and written down.
func TestShadowEnds(t *testing.T) {
	i := start(t)
	i.authenticate()
	made := i.call("POST", "/v1/shadows", `{"rule":"rule:card_fee@v1","against":"rule:card_fee@v2"}`)
	i.want(made, 201, "")
	const quotes = 100 // more than are written at once
	for range quotes {
		i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.handler.Shadow(ctx)
	totals := i.call("GET", "/v1/shadows/"+made.body["id"].(string), "").body["totals"].(map[string]any)
	i.Close()
	if totals["compared"].(float64)+totals["dropped"].(float64) != quotes && !strings.Contains(i.log.String(), "not written at the end") { // after a stall
		t.Errorf("%v", totals)
	}
}

// shadow starts one and returns its totals as they are once a last quote has
// been compared.
func (i *instance) shadow() (totals func() map[string]any) {
	i.t.Helper()
	i.authenticate()
	made := i.call("POST", "/v1/shadows", `{"rule":"rule:card_fee@v1","against":"rule:card_fee@v2"}`)
	i.want(made, 201, "")
	path := "/v1/shadows/" + made.body["id"].(string)
	ctx, cancel := context.WithCancel(i.t.Context())
	ended := make(chan struct{})
	go func() { i.handler.Shadow(ctx); close(ended) }()
	i.t.Cleanup(func() { cancel(); <-ended })
	asked := 0
	return func() map[string]any {
		i.t.Helper()
		asked++
		last := fmt.Sprintf("%d.77", 700+asked)
		i.want(i.call("POST", "/v1/quotes", `{"amount":"`+last+`","currency":"EUR","payee":"shop.example"}`), 200, "")
		testkit.Within(i.t, "the last quote is compared", 20*time.Second, func() bool {
			return strings.Contains(i.call("GET", path+"/divergences", "").text, last)
		})
		return i.call("GET", path, "").body["totals"].(map[string]any)
	}
}

// TestShadowComparesAPaymentOnce: as often as it is asked for, in whatever way
// it is committed and captured; what is not made is not compared.
func TestShadowComparesAPaymentOnce(t *testing.T) {
	redis := redistest.URL(t)
	i := startOn(t, redis)
	totals := i.shadow()
	pay := func(key, amount, more string, status int) reply {
		t.Helper()
		r := i.call("POST", "/v1/payments", fmt.Sprintf(`{"amount":%q,"currency":"EUR","payee":"shop.example"%s}`, amount, more), "Idempotency-Key", key)
		if r.StatusCode != status {
			t.Fatalf("%s: %d %s", key, r.StatusCode, r.text)
		}
		return r
	}
	for range 6 {
		pay("repeated", "10.00", "", 201)
	}
	pay("captured", "20.00", `,"capture_method":"automatic"`, 201)
	i.want(i.call("POST", "/v1/payments/"+pay("in-parts", "30.00", "", 201).body["id"].(string)+"/captures", `{"amount":"5.00"}`), 201, "")
	i.want(i.call("POST", "/v1/payments", `{"amount":"40.00","currency":"EUR","payee":"refuse.test"}`, "Idempotency-Key", "refused"), 422, "rule_rejected")

	// Another instance changes the perimeter, of which this one has heard nothing
	// when it commits; and the second payment finds that it takes only one.
	other := openWith(t, rediskv.Options{URL: redis, Clock: time.Now})
	i.config.Perimeters = append(i.config.Perimeters, tollgate.PerimeterDocument{
		ID: i.config.Perimeters[0].ID, Version: 2, Constraints: jsontext.Value(`{"frequency":[{"window":"month","count":1,"per":"payee"}]}`),
	})
	i.config.MerchantAccounts[0].Perimeter.Version = 2
	if _, err := redistest.Provision(t.Context(), other, i.config, false); err != nil {
		t.Fatal(err)
	}
	pay("stale", "50.00", "", 201)
	pay("exhausted", "60.00", "", 403)

	const payments, quotes = 5, 1
	if got := totals(); got["compared"] != float64(payments+quotes) {
		t.Errorf("%v", got)
	}
}

// TestShadowWritesOnce: what was written, and nobody heard of it, is not
// written once more.
func TestShadowWritesOnce(t *testing.T) {
	t.Parallel() // it waits most of its time
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	totals := i.shadow()
	wire.Reset()
	first := totals()
	script := ""
	for _, c := range wire.Sent() {
		if c.Name == "EVALSHA" {
			script = "EVALSHA " + c.Arg
		}
	}
	lost := lose(t, wire, script, sends)
	second := totals()
	lost()
	third := totals()
	for n, got := range []map[string]any{first, second, third} {
		want := fmt.Sprintf("[map[amount:%.2f currency:EUR]]", 0.7*float64(n+1)) // each differs by as much
		if got["compared"] != float64(n+1) || fmt.Sprint(got["differences"]) != want {
			t.Errorf("after %d quotes: %v, want %s", n+1, got, want)
		}
	}
}

// TestShadowFailuresAreApart: a candidate that fails is nobody's failure. It is
// not among the runs of what is in force, and not in failing_rules, even where
// it cannot be loaded.
func TestShadowFailuresAreApart(t *testing.T) {
	w := newWorld(t)
	lost := w.publish("rule:shop_fee@v1", "1.5")
	engine, err := wasm.NewEngine(t.Context())
	must(t, engine, err)
	t.Cleanup(func() { check(t, engine.Close(context.Background())) })
	check(t, engine.LoadBuiltin(t.Context()))
	var mu sync.Mutex
	runs := map[string]int{}
	observe := func(of string) func(tollgate.RuleRef, time.Duration, error) {
		return func(ref tollgate.RuleRef, _ time.Duration, err error) {
			mu.Lock()
			defer mu.Unlock()
			outcome := " ok"
			if err != nil {
				outcome = " failed"
			}
			runs[of+ref.Rule.String()+outcome]++
		}
	}
	engine.Observe, engine.ObserveShadow = observe("payments "), observe("shadows ")
	w.serveWith(func(c *handlers.Config) { c.Rules = engine })
	var shadows []string
	for _, rule := range []string{"rule:sandbox@v1", "rule:shop_fee@v1"} {
		made := w.want(w.call("POST", "/v1/shadows", fmt.Sprintf(`{"rule":%q,"against":"rule:platform_fee@v1","merchant_account_ids":[%q]}`, rule, w.vars["wide"])), 201, "")
		shadows = append(shadows, made.body["id"].(string))
	}
	w.renameModule(lost, "", ":gone")
	const quotes = 6
	for range quotes {
		w.want(w.call("POST", "/v1/quotes", fmt.Sprintf(`{"merchant_account_id":%q,"amount":"100.00","currency":"EUR","payee":"trap.test"}`, w.vars["wide"])), 200, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.server.Shadow(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	for _, id := range shadows {
		testkit.Within(t, "all are compared", 20*time.Second, func() bool {
			return w.call("GET", "/v1/shadows/"+id, "").body["totals"].(map[string]any)["failed"] == float64(quotes)
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if runs["payments rule:sandbox@v1 failed"] != 0 || runs["shadows rule:sandbox@v1 failed"] != quotes || runs["payments rule:platform_fee@v1 ok"] != quotes {
		t.Errorf("%v", runs)
	}
	for of := range runs {
		if strings.HasPrefix(of, "payments ") && strings.Contains(of, "failed") {
			t.Errorf("%s", of)
		}
	}
	ready := w.call("GET", "/readyz", "", "Authorization", "")
	if ready.body["failing_rules"] != 0.0 {
		t.Errorf("%s", ready.text)
	}
}
