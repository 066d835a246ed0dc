package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/redistest"
)

// limited is a world whose instance has rate limits.
func limited(t *testing.T, text string) *world {
	t.Helper()
	w := newWorld(t)
	w.limit(text)
	return w
}

// limit starts an instance with other rate limits.
func (w *world) limit(text string) {
	w.t.Helper()
	limits, err := gcra.Parse(text)
	must(w.t, limits, err)
	w.serveWith(func(c *handlers.Config) { c.RateLimits = limits })
}

// rateLimit reads the headers of a limit, as structured fields (RFC 9651) of one item.
func rateLimit(t *testing.T, h http.Header) (kind string, quota, window, remaining, reset int) {
	t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		return must(t, n, err)
	}
	policy := regexp.MustCompile(`^"([a-z]+)";q=(\d+);w=(\d+)$`).FindStringSubmatch(h.Get("RateLimit-Policy"))
	left := regexp.MustCompile(`^"([a-z]+)";r=(\d+);t=(\d+)$`).FindStringSubmatch(h.Get("RateLimit"))
	if policy == nil || left == nil || policy[1] != left[1] {
		t.Fatalf("RateLimit-Policy: %q, RateLimit: %q", h.Get("RateLimit-Policy"), h.Get("RateLimit"))
	}
	return policy[1], number(policy[2]), number(policy[3]), number(left[2]), number(left[3])
}

// buckets are the rate limits that Redis keeps: how long each takes to be full, in steps
// of a limit of one an hour.
func (w *world) buckets() map[string]int {
	w.t.Helper()
	all := map[string]int{}
	for _, key := range w.operator.Redis.Keys(w.t.Context(), "*:rate:*").Val() {
		left := w.operator.Redis.PTTL(w.t.Context(), key).Val()
		all[key[strings.Index(key, ":rate:")+len(":rate:"):]] = int((left + 30*time.Minute) / time.Hour)
	}
	return all
}

// TestEachRequestCountsOnce: whatever an operation has Redis do, and how often, it
// counts once, in the limit of its kind.
func TestEachRequestCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	operations := w.operations()
	w.limit("tokens=off,writes=1/h,burst=9999,reads=1/h,burst=9999,quotes=1/h,burst=9999")
	for _, o := range operations {
		before := w.buckets()
		r := w.call(o.method, o.path, o.text(nil), o.headers()...)
		if r.Request.Header.Get("Authorization") == "" || strings.HasPrefix(o.path, "/oauth2/") {
			continue
		}
		counted := 0
		for bucket, n := range w.buckets() {
			if n != before[bucket] {
				counted += n - before[bucket]
			}
		}
		kind, _, _, _, _ := rateLimit(t, r.Header)
		want := 1
		if kind == "quotes" {
			want = 0
		}
		if counted != want {
			t.Errorf("%s: %d %s counted %d times in Redis (%s)", o.id, r.StatusCode, r.text, counted, kind)
		}
	}
}

// TestOneRequestTooMany: a burst is answered, and the next request is not carried out:
// 429, with when to come again. Then this instance says so without Redis.
func TestOneRequestTooMany(t *testing.T) {
	t.Parallel()
	w := limited(t, "writes=1/m,burst=2,reads=1/m,burst=3")
	for n := range 2 {
		r := w.want(w.pay(fmt.Sprint(n), `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`), 201, "")
		if kind, quota, window, left, reset := rateLimit(t, r.Header); kind != "writes" || quota != 2 || window != 120 || left != 1-n || reset > 60*(n+1) || reset < 60*n {
			t.Errorf("payment %d: %s %d %d %d %d", n, kind, quota, window, left, reset)
		}
	}
	before := len(w.auditOf("request.refused"))
	for n := range 5 {
		r := w.want(w.pay("more", `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`), 429, "rate_limited")
		after, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if _, _, _, left, _ := rateLimit(t, r.Header); err != nil || after < 50 || after > 60 || left != 0 {
			t.Errorf("request %d: Retry-After %q, %d left", n, r.Header.Get("Retry-After"), left)
		}
	}
	if entries := len(w.auditOf("request.refused")); entries != before+1 {
		t.Errorf("%d entries of five refusals, of which Redis saw one", entries-before)
	}
	w.clock.Advance(time.Minute) // Redis' own clock has not moved
	w.want(w.pay("more", `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`), 429, "rate_limited")
}

// auditOf are the entries of a type.
func (w *world) auditOf(kind string) []string {
	w.t.Helper()
	var list []string
	for _, key := range w.operator.Redis.Keys(w.t.Context(), "*:audit").Val() {
		for _, m := range w.operator.Redis.XRange(w.t.Context(), key, "-", "+").Val() {
			if body, _ := m.Values["b"].(string); strings.Contains(body, `"`+kind+`"`) {
				list = append(list, body)
			}
		}
	}
	return list
}

// TestRefusalsCount: what is refused before it is counted counts apart: it takes nothing
// from the client.
func TestRefusalsCount(t *testing.T) {
	t.Parallel()
	w := limited(t, "writes=1/h,burst=9999,reads=1/h,burst=9999")
	r := w.want(w.call("POST", "/v1/payments", `{`+good+`}`, "Authorization", "Bearer "+w.token("reader", ""), "Idempotency-Key", "x"), 403, "scope_missing")
	if kind, quota, window, left, _ := rateLimit(t, r.Header); kind != "refused" || quota != 400 || window != 2 || left != 399 {
		t.Errorf("%s %d %d %d", kind, quota, window, left)
	}
	for bucket := range w.buckets() {
		if !strings.HasSuffix(bucket, ":refused") && !strings.HasSuffix(bucket, ":tokens") {
			t.Errorf("it counted in %s", bucket)
		}
	}
}

// TestTokensAreCounted: a token counts when it is issued.
func TestTokensAreCounted(t *testing.T) {
	t.Parallel()
	w := limited(t, "tokens=1/m,burst=2")
	ask := func() reply {
		form := tokenForm(w.assertion("kiosk")).Encode()
		return w.call("POST", "/oauth2/token", form, "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")
	}
	for n := range 2 {
		if kind, _, _, left, _ := rateLimit(t, w.want(ask(), 200, "").Header); kind != "tokens" || left != 1-n {
			t.Errorf("token %d: %s %d", n, kind, left)
		}
	}
	for range 3 {
		if r := w.want(ask(), 429, "rate_limited"); r.Header.Get("Retry-After") == "" || r.body["error"] == nil {
			t.Errorf("%v", r.text)
		}
	}
}

// TestQuotesAreCountedHere: each instance counts its own.
func TestQuotesAreCountedHere(t *testing.T) {
	t.Parallel()
	w := limited(t, "quotes=1/m,burst=2")
	quote := func(w *world) reply {
		return w.call("POST", "/v1/quotes", `{`+good+`,"merchant_account_id":"`+w.vars["eur"]+`"}`)
	}
	for n := range 2 {
		if kind, _, _, left, _ := rateLimit(t, w.want(quote(w), 200, "").Header); kind != "quotes" || left != 1-n {
			t.Errorf("quote %d: %s %d", n, kind, left)
		}
	}
	w.want(quote(w), 429, "rate_limited")
	other := *w
	other.limit("quotes=1/m,burst=2")
	w.want(quote(&other), 200, "")
	w.advance(time.Minute)
	w.want(quote(w), 200, "")
	for bucket := range w.buckets() {
		if !strings.HasSuffix(bucket, ":tokens") {
			t.Errorf("Redis counts in %s", bucket)
		}
	}
}

// TestOwnLimits: a client's limits are those of its grants, and a grant's own come first
// and have a bucket of their own.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.configs[""]
	at := slices.IndexFunc(c.Clients, func(c tollgate.Client) bool { return c.Name == "reader" })
	c.Clients[at].RateLimits = "reads=1/m,burst=7"
	w.grant("twin").RateLimits = "reads=1/m,burst=5"
	w.apply("")
	w.limit("reads=1/m,burst=3")
	for client, quota := range map[string]int{"reader": 7, "twin": 5, "all": 3} {
		r := w.want(w.call("GET", "/v1/payments", "", "Authorization", "Bearer "+w.token(client, "")), 200, "")
		if kind, q, _, left, _ := rateLimit(t, r.Header); kind != "reads" || q != quota || left != quota-1 {
			t.Errorf("%s: %s %d %d", client, kind, q, left)
		}
	}
	if _, ok := w.buckets()[w.vars["grant_twin"]+":reads"]; !ok {
		t.Errorf("the grant has no bucket: %v", w.buckets())
	}
}

// TestForgedSignatures: an address that sends wrong signatures is refused before they are
// looked at; a token that the instance knows is answered all the same.
func TestForgedSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limit("tokens=off")
	genuine := w.token("all", "")
	w.want(w.call("GET", "/v1/payments", ""), 200, "")
	forged := genuine[:len(genuine)-8] + "AAAAAAAA"
	for range 40 {
		w.want(w.call("GET", "/v1/payments", "", "Authorization", "Bearer "+forged), 401, "token_invalid")
	}
	r := w.want(w.call("GET", "/v1/payments", "", "Authorization", "Bearer "+forged), 429, "rate_limited")
	if r.Header.Get("Retry-After") != "1" || r.Header.Get("RateLimit") != "" {
		t.Errorf("%v", r.Header)
	}
	w.want(w.call("GET", "/v1/payments", ""), 200, "")
	form := tokenForm(w.assertion("kiosk")).Encode()
	w.want(w.call("POST", "/oauth2/token", form, "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"), 429, "rate_limited")
	w.clock.Advance(time.Second)
	w.want(w.call("GET", "/v1/payments", "", "Authorization", "Bearer "+forged), 401, "token_invalid")
}

// TestForgedProofs: a token that the instance knows does not let anybody have it check
// proofs without end.
func TestForgedProofs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limit("tokens=off")
	w.want(w.call("GET", "/v1/payments", ""), 200, "")
	p := w.newProver()
	w.want(p.read(p.proof("GET", "/v1/events", p.token)), 200, "")
	proof := func() string {
		text := p.proof("GET", "/v1/events", p.token)
		return text[:len(text)-8] + "AAAAAAAA"
	}
	for range 40 {
		p.want401("forged", badProof, p.read(proof()))
	}
	w.want(p.read(proof()), 429, "rate_limited")
	w.want(p.read(p.proof("GET", "/v1/events", p.token)), 429, "rate_limited")
	w.want(w.call("GET", "/v1/payments", ""), 200, "") // a bearer token that it knows
	w.clock.Advance(time.Second)
	w.want(p.read(p.proof("GET", "/v1/events", p.token)), 200, "")
}

// TestStrangersAreCounted: a flood of requests that nobody stands behind is counted to
// the last one, and not written one by one.
func TestStrangersAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limit("tokens=60/m")
	before := dump(t, w.redis).refusals("token_missing")
	counted := func() int { return dump(t, w.redis).refusals("token_missing") - before }
	for range 250 {
		w.want(w.call("GET", "/v1/payments", "", "Authorization", ""), 401, "token_missing")
	}
	if n := counted(); n != 200 {
		t.Errorf("%d refusals are written one by one, want 200", n)
	}
	w.clock.Advance(10 * time.Millisecond)
	w.want(w.call("GET", "/v1/payments", "", "Authorization", ""), 401, "token_missing")
	if n := counted(); n != 251 {
		t.Errorf("%d refusals are written with the next one, want 251", n)
	}
	for range 5 {
		w.want(w.call("GET", "/v1/payments", "", "Authorization", ""), 401, "token_missing")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	w.server.Follow(stopped)
	if n := counted(); n != 256 {
		t.Errorf("%d refusals are written when the instance stops, want 256", n)
	}
}

// TestRefusedTooOften: who was refused without end is told so, in each form that an answer
// has, and in no other status.
func TestRefusedTooOften(t *testing.T) {
	t.Parallel()
	w := limited(t, "tokens=60/m")
	w.token("reader", "")
	token := func() reply {
		form := tokenForm(w.assertion("reader")).Encode() + "&scope=payments%3Awrite"
		return w.call("POST", "/oauth2/token", form, "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")
	}
	write := func() reply {
		return w.call("POST", "/v1/payments", `{`+good+`}`, "Authorization", "Bearer "+w.token("reader", ""), "Idempotency-Key", "x")
	}
	w.want(token(), 400, "parameter_invalid")
	w.want(write(), 403, "scope_missing")
	full := 0
	for _, key := range w.operator.Redis.Keys(t.Context(), "*:rate:*:refused").Val() {
		full++
		check(t, w.operator.Redis.Set(t.Context(), key, "9999999999999999", time.Hour).Err())
	}
	if full == 0 {
		t.Fatal("no refusal has counted")
	}
	for what, r := range map[string]reply{"token": token(), "write": write()} {
		if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" || !strings.Contains(r.text, "rate_limited") {
			t.Errorf("%s: %d, Retry-After %q, %s", what, r.StatusCode, r.Header.Get("Retry-After"), r.text)
		}
	}
}
