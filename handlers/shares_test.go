package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers"
	queues "tollgate/handlers/share"
	"tollgate/rediskv"
	"tollgate/rediskv/testkit"
)

// hoarder has all turns of a resource and always wants more. It ends one when
// the test says so.
type hoarder struct {
	end        chan struct{}
	got, ended atomic.Int64
}

func hoard(q *queues.Queue, clients int) (*hoarder, func()) { return hoardAs(q, "org_greedy", clients) }

func hoardAs(q *queues.Queue, organization string, clients int) (g *hoarder, leave func()) {
	g = &hoarder{end: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for {
				done, err := q.Turn(ctx, organization, fmt.Sprint("cli_", i))
				if err != nil {
					return
				}
				g.got.Add(1)
				select {
				case <-g.end:
				case <-ctx.Done():
				}
				done()
			}
		})
	}
	return g, func() { cancel(); all.Wait() }
}

func (g *hoarder) held() int { return int(g.got.Load() - g.ended.Load()) }

// TestTurnsGoRound: beside an organization that wants every turn at a resource,
// another's request is served within one round: for each turn that it waits for,
// the greedy one has at most one.
func TestTurnsGoRound(t *testing.T) {
	w := newWorld(t)
	modest := w.vars["org"]
	hook := w.get(w.want(w.hook(""), 201, ""), "id")
	w.want(w.pay("p", fmt.Sprintf(payWide, w.vars["eur"])), 201, "")
	_, event, _ := strings.Cut(w.want(w.call("GET", "/v1/events?types=payment.*", ""), 200, "").text, `"id":"evt_`)
	rule := func(n int) string {
		return w.newPublication(fmt.Sprintf("rule:modest_fee@v%d", n), "1", "team").body(t)
	}
	none := func(int) string { return "" }
	preview := func(int) string {
		return fmt.Sprintf(`{"merchant_account_id":%q,"proposed":{"cutoff_time":"12:00"}}`, w.vars["eur"])
	}
	for _, one := range []struct {
		resource, method, path string
		body                   func(n int) string
		atOnce, status, turns  int // turns: that the request takes, one after the other
	}{
		{"reads", "GET", "/v1/transactions?status=authorized,available&payee=other.example", none, 2, 200, 2},
		{"reads", "GET", "/v1/events?types=payment.*", none, 2, 200, 1},
		{"reads", "GET", "/v1/events?wait=1&types=payment.*", none, 2, 200, 1},
		{"reads", "GET", "/v1/events/evt_" + event[:26], none, 2, 200, 1},
		{"reads", "GET", "/v1/events/evt_" + strings.Repeat("0", 26), none, 2, 404, 3},
		{"reads", "GET", "/v1/webhooks", none, 2, 200, 1},
		{"reads", "GET", "/v1/merchant-accounts", none, 2, 200, 1},
		{"reads", "GET", "/v1/exports", none, 2, 200, 2},
		{"reads", "GET", "/v1/webhooks/" + hook + "/deliveries", none, 2, 200, 1},
		{"reads", "GET", "/v1/rules", none, 2, 200, 1},
		{"reads", "GET", "/v1/shadows", none, 2, 200, 1},
		{"reads", "GET", w.aFile(), none, 2, 200, 1},
		{"reads", "POST", "/v1/cutoffs/preview", preview, 2, 200, 2},
		{"examining", "POST", "/v1/rules", rule, 1, 201, 1},
	} {
		t.Run(one.resource+" "+one.path, func(t *testing.T) {
			q := w.server.Queue(one.resource, modest)
			// Where nobody else waits, each turn that ends is the request's. It waits for
			// none that is free before the other client asks again.
			alone := w.turns(t, q, w.request(one.method, one.path, one.body(1)), one.status, one.atOnce, one.atOnce)
			if alone == 0 || alone > one.turns {
				t.Fatalf("the request waits for %d turns; it takes %d", alone, one.turns)
			}
			beside := w.turns(t, q, w.request(one.method, one.path, one.body(2)), one.status, one.atOnce, 8*one.atOnce)
			if beside > 2*one.turns {
				t.Errorf("%d turns ended until the request had its %d", beside, one.turns)
			}
		})
	}
}

// TestRequestsOfOneOrganization: of what one organization sends beside others only
// so much is carried out at once. The others' requests wait for none of it.
func TestRequestsOfOneOrganization(t *testing.T) {
	w := newWorld(t)
	pay := func(account string) string { return fmt.Sprintf(payWide, w.vars[account]) }
	preview := func(account string) string {
		return fmt.Sprintf(`{"merchant_account_id":%q,"proposed":{"cutoff_time":"12:00"}}`, w.vars[account])
	}
	none := func(string) string { return "" }
	rule := func(string) string { return `{"rule":"rule:nobodys_fee@v1","adds":true}` }
	for _, one := range []struct {
		resource, method, path string
		body                   func(account string) string
		status                 int
	}{
		{"quotes", "POST", "/v1/quotes", pay, 200},
		{"requests", "POST", "/v1/payments", pay, 201},
		{"requests", "GET", "/v1/merchant-accounts/$wide", none, 200},
		{"changes of rules", "POST", "/v1/rule-sets/$wide_rules/activations", rule, 404},
		{"publications", "POST", "/v1/rules", func(string) string { return `{}` }, 400},
		{"searches", "GET", "/v1/payments", none, 200},
		{"previews", "POST", "/v1/cutoffs/preview", preview, 200},
		{"events", "GET", "/v1/events?wait=1&order=desc", none, 200},
		{"refusals", "GET", "/v1/payments/pay_nobodys", none, 404},
	} {
		t.Run(one.resource+" "+one.path, func(t *testing.T) {
			ask := func(prefix string) *http.Request {
				path := strings.NewReplacer("$wide_rules", w.vars[prefix+"wide_rules"], "$wide", w.vars[prefix+"wide"]).Replace(one.path)
				headers := []string{"Authorization", "Bearer " + w.token(prefix+"all", "")}
				if path == "/v1/payments" && one.method == "POST" {
					headers = append(headers, "Idempotency-Key", prefix+"one")
				}
				return w.request(one.method, path, one.body(prefix+"wide"), headers...)
			}
			greedy, modest := ask("other_"), ask("")
			const clients = 200
			q := w.server.Queue(one.resource, w.vars["other_org"])
			passes(t, q, w.vars["org"])
			g, leave := hoardAs(q, w.vars["other_org"], clients)
			defer leave()
			testkit.Eventually(t, "all turns of the greedy one are taken", func() bool { return g.held() > 0 && g.held()+q.Waiting(w.vars["other_org"]) == clients })
			waiting := q.Waiting(w.vars["other_org"])
			answered := make(chan reply, 1)
			greedy.Close = one.resource == "quotes" // on a connection whose owner is known they wait where they arrive
			w.client.CloseIdleConnections()
			go func() {
				r, err := w.try(greedy)
				if err != nil {
					t.Error(err)
				}
				answered <- r
			}()
			testkit.Eventually(t, "the greedy one's request waits", func() bool { return q.Waiting(w.vars["other_org"]) > waiting || len(answered) > 0 })
			r, err := w.try(modest)
			if err != nil || r.StatusCode != one.status {
				t.Errorf("%d %s, %v", r.StatusCode, r.text, err)
			}
			if len(answered) > 0 {
				t.Error("the greedy one's request did not wait")
			}
			leave()
			if r := <-answered; r.StatusCode != one.status {
				t.Errorf("%d %s", r.StatusCode, r.text)
			}
		})
	}
}

// TestDownloadsUnderWay: a download is part of its client's share until its last
// byte is sent.
func TestDownloadsUnderWay(t *testing.T) {
	w := newWorld(t)
	const share = 16
	w.want(w.pay("p", fmt.Sprintf(payWide, w.vars["wide"])), 201, "")
	file := w.aFile()
	q := w.server.Queue("reads", w.vars["org"])
	g, leave := hoard(q, 8)
	defer leave()
	testkit.Eventually(t, "all turns are taken", func() bool { return g.held() == 2 })
	var all sync.WaitGroup
	defer all.Wait()
	defer leave()
	for range share {
		req := w.request("GET", file, "")
		all.Go(func() {
			if r, err := w.try(req); err != nil || r.StatusCode != 200 {
				t.Errorf("%d %s, %v", r.StatusCode, r.text, err)
			}
		})
	}
	testkit.Eventually(t, "the downloads wait for their turns", func() bool { return q.Waiting(w.vars["org"]) == share })
	w.want(w.call("GET", file, ""), 429, "share_exhausted")
}

// TestDownloadsSendInTurns: a piece of a file is sent when its organization may
// compute beside others.
func TestDownloadsSendInTurns(t *testing.T) {
	w := newWorld(t)
	w.want(w.pay("p", fmt.Sprintf(payWide, w.vars["wide"])), 201, "")
	req := w.request("GET", w.aFile(), "")
	q := w.server.Queue("sending", w.vars["org"])
	done, err := q.Turn(t.Context(), "org_other", "cli_a")
	check(t, err)
	done()
	var ends []func()
	for range max(1, runtime.GOMAXPROCS(0)-1) {
		done, err = q.Turn(t.Context(), w.vars["org"], "cli_b")
		check(t, err)
		ends = append(ends, done)
	}
	answered := make(chan reply, 1)
	go func() {
		r, err := w.try(req)
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	testkit.Eventually(t, "the piece waits for its turn", func() bool { return q.Waiting(w.vars["org"]) == 1 })
	for _, end := range ends {
		end()
	}
	if r := <-answered; r.StatusCode != 200 || r.text == "" {
		t.Errorf("%d %q", r.StatusCode, r.text)
	}
}

// aFile makes an export and says where its file is.
func (w *world) aFile() string {
	w.t.Helper()
	r := w.want(w.call("POST", "/v1/exports/preview", `{"dataset":"transactions","format":"ndjson"}`), 202, "")
	check(w.t, w.exports())
	return "/v1/exports/" + w.get(r, "id") + "/file"
}

// turns is how many turns end until a request is answered, beside so many
// clients of another organization that take all of them.
func (w *world) turns(t *testing.T, q *queues.Queue, req *http.Request, status, atOnce, clients int) (ended int) {
	t.Helper()
	g, leave := hoard(q, clients)
	defer leave()
	testkit.Eventually(t, "all turns are taken", func() bool { return g.held() == atOnce })
	answered := make(chan reply, 1)
	go func() {
		r, err := w.try(req)
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	for {
		testkit.Eventually(t, "the request waits, or is answered", func() bool {
			return len(answered) > 0 || (q.Waiting(w.vars["org"]) > 0 && g.held() == atOnce)
		})
		if len(answered) > 0 {
			break
		}
		ended++
		g.ended.Add(1)
		g.end <- struct{}{}
	}
	if r := <-answered; r.StatusCode != status {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	return ended
}

// TestSharesInUse: over its share a client is told so at once, and others are
// served.
func TestSharesInUse(t *testing.T) {
	w := newWorld(t)
	full := func(path string, share int) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var all sync.WaitGroup
		defer all.Wait()
		defer leave()
		for range share {
			req := w.request("GET", path, "").WithContext(ctx)
			all.Go(func() {
				for ctx.Err() == nil { // the asking below may have been first
					_, _ = w.try(req.Clone(ctx))
					time.Sleep(time.Millisecond)
				}
			})
		}
		var r reply
		testkit.Eventually(t, "the share of "+path+" is in use", func() bool {
			r = w.call("GET", "/v1/events?wait=1&order=desc&limit=1", "")
			return r.StatusCode != http.StatusOK
		})
		w.want(r, 429, "share_exhausted")
		if after := r.Header.Get("Retry-After"); after != "1" {
			t.Errorf("Retry-After: %q", after)
		}
		w.want(w.call("GET", "/v1/events?wait=1&order=desc", "", "Authorization", "Bearer "+w.token("other_all", "")), 200, "")
		w.want(w.call("GET", "/v1/transactions", ""), 200, "") // another resource
	}
	full("/v1/events?wait=20&types=payment.expired", 128)
}

// TestSharesOfAllOperations: every operation that has a share, as its document says, answers
// 429 at once when its client, or the client's organization, has its share in
// use, and nobody else does.
func TestSharesOfAllOperations(t *testing.T) {
	w := newWorld(t)
	w.publish("rule:shares_fee@v1", "1.37") // no other test's, whose module would do
	w.want(w.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", `{"rule":"rule:shares_fee@v1","adds":true}`), 201, "")
	w.advance(tollgate.InstanceGrace)
	w.activated()
	limited := make(map[string]bool)
	for _, o := range w.recorder.Unseen() {
		if id, ok := strings.CutSuffix(o, " 429"); ok {
			limited[id] = true
		}
	}
	type asking struct{ id, method, path, body string }
	// What prices is over its share where a module is not there.
	asked := []asking{
		{"createQuote", "POST", "/v1/quotes", fmt.Sprintf(payWide, w.vars["wide"])},
		{"createPayment", "POST", "/v1/payments", fmt.Sprintf(payManual, w.vars["wide"])},
		{"capturePayment", "POST", "", ""},
		{"refundPayment", "POST", "", ""},
		{"publishRule", "POST", "/v1/rules", w.newPublication("rule:late_fee@v1", "1", "team").body(t)},
		{"readMerchantAccount", "GET", "/v1/merchant-accounts/" + w.vars["wide"], ""},
		{"listEvents", "GET", "/v1/events?wait=1", ""},
	}
	for _, o := range w.operations() {
		there := slices.ContainsFunc(asked[:6], func(a asking) bool { return a.id == o.id })
		if method, path, _ := strings.Cut(routeOf(t, o.method, o.path), " "); !handlers.Shared(method, path) {
			delete(limited, o.id) // it has a rate limit alone
		}
		if limited[o.id] && o.id != "createExport" && !there {
			asked = append(asked, asking{o.id, o.method, o.path, o.text(nil)})
		}
	}
	for _, user := range []string{"client_shop", ""} {
		captured := w.get(w.want(w.pay("captured"+user, fmt.Sprintf(strings.Replace(payManual, "manual", "automatic", 1), w.vars["wide"])), 201, ""), "id")
		held := w.get(w.want(w.pay("held"+user, fmt.Sprintf(payManual, w.vars["wide"])), 201, ""), "id")
		asked[2].path = "/v1/payments/" + held + "/captures"
		asked[3].path = "/v1/payments/" + captured + "/refunds"
		i := w.alone()
		ask := func(a asking) reply { return i.call(a.method, a.path, a.body, "Idempotency-Key", "429"+user) }
		leave := i.server.UseUp(w.vars["org"], w.vars[user])
		for _, a := range asked {
			r := ask(a)
			if r.StatusCode != 429 || r.body["code"] != "share_exhausted" || r.Header.Get("Retry-After") != "1" {
				t.Errorf("%s: %d %s", a.id, r.StatusCode, r.text)
			}
		}
		i.want(i.call("GET", "/v1/transactions", "", "Authorization", "Bearer "+i.token("other_all", "")), 200, "")
		leave()
		i.want(ask(asked[0]), 200, "")
		i.want(ask(asked[2]), 201, "")
	}
	full := w.aloneWith(rediskv.Options{ExportBytes: -1}) // whatever there is, is too much
	w.want(full.call("POST", "/v1/exports/preview", `{"dataset":"events"}`), 429, "rate_limited")
	for _, o := range w.recorder.Unseen() {
		if id, ok := strings.CutSuffix(o, " 429"); ok && limited[id] {
			t.Errorf("nobody was answered %s", o)
		}
	}
}

const payManual = `{"merchant_account_id":%q,"amount":"100.00","currency":"EUR","payee":"shop.example","capture_method":"manual"}`

// TestNobodyCompilesInATurn: a list whose rows need modules that are not loaded
// waits for them, and keeps nobody from looking at Redis meanwhile.
func TestNobodyCompilesInATurn(t *testing.T) {
	w := newWorld(t)
	w.publish("rule:turns_fee@v1", "1.41") // no other test's
	w.ruleSet("eur", []string{"card_fee@v2", "turns_fee@v1", "sandbox@v1"})
	w.store.Refresh(w.vars["org"])
	i := w.alone()
	compiling, reads := i.server.Queue("compiling", ""), i.server.Queue("reads", w.vars["org"])
	g, leave := hoard(compiling, runtime.GOMAXPROCS(0))
	testkit.Eventually(t, "all turns at compiling are taken", func() bool { return g.held() == runtime.GOMAXPROCS(0) })
	listed := make(chan reply, 1)
	req := i.request("GET", "/v1/merchant-accounts?limit=100", "")
	go func() {
		r, err := i.try(req)
		if err != nil {
			t.Error(err)
		}
		listed <- r
	}()
	testkit.Eventually(t, "the list waits for a module", func() bool { return compiling.Waiting(w.vars["org"]) > 0 })

	ctx, cancel := context.WithCancel(t.Context())
	turns := make(chan func(), 2)
	for range cap(turns) { // as many as there are at once
		go func() {
			if done, err := reads.Turn(ctx, "org_other", "cli_other"); err == nil {
				turns <- done
			}
		}()
	}
	testkit.Eventually(t, "the others have their turns, or wait", func() bool { return len(turns) == cap(turns) || reads.Waiting("org_other") > 0 })
	if len(turns) < cap(turns) {
		t.Error("a list that waits for a module has a turn at Redis")
	}
	cancel()
	for range len(turns) {
		(<-turns)()
	}
	leave()
	i.want(<-listed, 200, "")
}

// TestTurnThatDoesNotCome: Redis is there, and others have it; the client is told
// that, not that the store is away.
func TestTurnThatDoesNotCome(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.server.Turn(ctx, w.vars["org"], w.vars["client_shop"])
	if e, ok := errors.AsType[*tollgate.Error](err); !ok || e.Code != tollgate.CodeShareExhausted {
		t.Errorf("%v", err)
	}
}
