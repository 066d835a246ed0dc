package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// A payment is one script on the wire, a quote is nothing (design, "How a
// payment travels").
func TestCommandsOnTheWire(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	i.authenticate()
	pay := func(key string) {
		t.Helper()
		i.want(i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", key), 201, "")
	}
	pay("warm") // fills the cache
	wire.Reset()
	pay("counted")
	if got := wire.Counts(); len(got) != 1 || got["EVALSHA"] != 1 {
		t.Errorf("a payment sent %v", got)
	}
	wire.Reset()
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
	if got := wire.Counts(); len(got) != 0 {
		t.Errorf("a quote sent %v", got)
	}

	// What a client is denied is recorded; what a stranger is denied is only
	// counted.
	wire.Reset()
	i.want(i.call("GET", "/v1/organizations/org_other", ""), 404, "not_found")
	if got := wire.Counts(); len(got) != 1 || got["EVALSHA"] != 1 {
		t.Errorf("a denied access sent %v", got)
	}
	wire.Reset()
	i.token = ""
	i.want(i.call("GET", "/v1/organizations/org_other", ""), 401, "token_missing")
	got := wire.Counts()
	i.Close()
	if uncounted := strings.Contains(i.log.String(), "refusal not counted"); got["EVALSHA"] != 0 || (got["HINCRBY"] != 1 && !uncounted) {
		t.Errorf("a stranger's request sent %v", got)
	}
}

// A panic is one request's affair, and what it says is for the log.
func TestPanic(t *testing.T) {
	i := start(t)
	i.authenticate()
	looks := 0
	tick := func() {
		if looks++; looks == 2 { // the first is where the request begins
			panic("the clock has stopped")
		}
	}
	i.tick.Store(&tick)
	r := i.call("GET", "/v1/events", "")
	i.tick.Store(nil)
	i.want(r, 500, "internal")
	if strings.Contains(r.text, "clock") {
		t.Errorf("%s", r.text)
	}
	i.want(i.call("GET", "/v1/events", ""), 200, "")
	i.Close()
	if log := i.log.String(); !strings.Contains(log, "the clock has stopped") || !strings.Contains(log, r.Header.Get("Request-Id")) {
		t.Errorf("%s", log)
	}
}

// With Redis down, commits and reads say so in time, quotes go on, and all of
// it recovers by itself.
func TestRedisDown(t *testing.T) {
	t.Parallel() // it waits most of its time
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startWith(t, rediskv.Options{URL: wire.URL, Clock: time.Now, Timeout: rediskv.OperationTimeout})
	i.authenticate()
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() { i.handler.Follow(ctx); close(followed) }()
	defer func() { cancel(); <-followed }()
	testkit.Within(t, "the instance is ready", 30*time.Second, func() bool { return i.call("GET", "/readyz", "").StatusCode == 200 })
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
	pay := func(key string) reply {
		return i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", key)
	}
	for name, outage := range map[string]struct{ down, up func() }{"refused": {wire.Refuse, wire.Accept}, "silent": {wire.Pause, wire.Resume}} {
		outage.down()
		for path, r := range map[string]func() reply{
			"payment": func() reply { return pay(name) },
			"events":  func() reply { return i.call("GET", "/v1/events?wait=5", "") },
			"token":   func() reply { return i.askToken(tokenForm(i.assertion())) },
		} {
			for tries := 1; ; tries++ { // the machine may stall
				begin := time.Now()
				got := r()
				took := time.Since(begin)
				if i.want(got, 503, "store_unavailable"); got.Header.Get("Retry-After") == "" || (took > 9*time.Second && tries == 3) {
					t.Errorf("%s, %s: Retry-After %q after %s", name, path, got.Header.Get("Retry-After"), took)
				}
				if took <= 9*time.Second || tries == 3 {
					break
				}
			}
		}
		i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
		i.want(i.call("GET", "/v1/events", "", "Authorization", "Bearer "+i.token), 401, "token_invalid") // two tokens
		testkit.Eventually(t, "/readyz says no while it is "+name, func() bool { return i.call("GET", "/readyz", "").StatusCode == 503 })
		if r := i.call("GET", "/readyz?for=quotes", ""); r.StatusCode != 200 || !strings.Contains(r.text, `"redis":"unreachable"`) {
			t.Errorf("%s: /readyz?for=quotes is %d %s", name, r.StatusCode, r.text)
		}
		i.want(i.call("GET", "/healthz", ""), 200, "")
		outage.up()
		testkit.Within(t, name+" is over", 30*time.Second, func() bool { return pay(name).StatusCode == 201 })
		testkit.Within(t, "another payment after "+name, 30*time.Second, func() bool { return pay(name+"-after").StatusCode == 201 })
		testkit.Within(t, "readiness after "+name, 30*time.Second, func() bool { return i.call("GET", "/readyz", "").StatusCode == 200 })
	}
}
