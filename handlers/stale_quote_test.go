package handlers_test

import (
	"context"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// behind is an instance of a world behind a wire that can be cut, which follows
// what changes until the test ends.
func behind(t *testing.T, most time.Duration) (w, i *world, wire *redistest.Wire) {
	t.Helper()
	w = newWorldOn(t, redistest.Single(t).URL, newRecorder(t))
	wire = redistest.Proxy(t, w.redis)
	i = w.aloneWith(rediskv.Options{URL: wire.URL, Timeout: rediskv.OperationTimeout})
	i.serveWith(func(c *handlers.Config) { c.MaxStaleness = most })
	i.tokens["all "] = w.token("all", "")
	ctx, cancel := context.WithCancel(t.Context())
	watched, followed := make(chan struct{}), make(chan struct{})
	go func() { i.store.Watch(ctx); close(watched) }()
	go func() { i.server.Follow(ctx); close(followed) }()
	t.Cleanup(func() { cancel(); <-watched; <-followed })
	return w, i, wire
}

// asked is a quote, and what it says of how current it is.
func (w *world) asked(account, token string) (r reply, asOf any) {
	r = w.call("POST", "/v1/quotes", `{"merchant_account_id":"`+w.vars[account]+`",`+good+`}`, "Authorization", "Bearer "+token)
	return r, r.body["as_of"]
}

// While Redis is away quotes go on, say since when nobody could confirm the
// configuration, and end when that is too long ago.
func TestQuotesWhileRedisIsAway(t *testing.T) {
	t.Parallel() // it waits most of its time
	w, i, wire := behind(t, time.Minute)
	token := w.token("all", "")
	current := func() bool {
		r, asOf := i.asked("eur", token)
		return r.StatusCode == 200 && asOf == nil
	}
	currentAgain := func() bool {
		w.clock.Advance(10 * time.Millisecond) // what could not be read is tried again after a second
		return current()
	}
	testkit.Within(t, "the configuration is known to be current", time.Minute, current)
	wire.Refuse()
	testkit.Within(t, "a quote says since when it is not", time.Minute, func() bool {
		r, asOf := i.asked("eur", token)
		return i.want(r, 200, "").StatusCode == 200 && asOf == tollgate.At(morning).String()
	})
	w.clock.Advance(time.Minute)
	if r, asOf := i.asked("eur", token); i.want(r, 200, "").StatusCode != 200 || asOf != tollgate.At(morning).String() {
		t.Errorf("a minute later: %s", r.text)
	}
	i.want(i.call("POST", "/v1/payments", `{"merchant_account_id":"`+w.vars["eur"]+`",`+good+`}`, "Idempotency-Key", "away", "Authorization", "Bearer "+token), 503, "store_unavailable")
	w.clock.Advance(time.Millisecond)
	if r, _ := i.asked("eur", token); i.want(r, 503, "store_unavailable").Header.Get("Retry-After") == "" {
		t.Errorf("too long: %s", r.text)
	}
	wire.Accept()
	testkit.Within(t, "the configuration is known to be current again", time.Minute, currentAgain)
}

// Without patience there is no quote that Redis cannot confirm; with it, a token
// is good until it expires.
func TestQuotesWithoutPatience(t *testing.T) {
	t.Parallel() // it waits most of its time
	w, i, wire := behind(t, -1)
	token := w.token("all", "")
	testkit.Within(t, "a quote", time.Minute, func() bool { r, _ := i.asked("eur", token); return r.StatusCode == 200 })
	wire.Refuse()
	testkit.Within(t, "none", time.Minute, func() bool { r, _ := i.asked("eur", token); return r.StatusCode == 503 })
	wire.Accept()
	testkit.Within(t, "a quote again", time.Minute, func() bool {
		w.clock.Advance(10 * time.Millisecond)
		r, _ := i.asked("eur", token)
		return r.StatusCode == 200
	})

	w, i, wire = behind(t, 0)
	token = w.token("all", "")
	testkit.Within(t, "a quote", time.Minute, func() bool { r, _ := i.asked("eur", token); return r.StatusCode == 200 })
	wire.Refuse()
	w.clock.Advance(10*time.Minute - time.Second)
	r, _ := i.asked("eur", token)
	i.want(r, 200, "")
	w.clock.Advance(time.Second)
	r, _ = i.asked("eur", token)
	i.want(r, 401, "token_expired")
}

// A grant that has ended while Redis was away is noticed with the first answer
// of Redis, not with the second quote.
func TestTokensEndWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	w, i, wire := behind(t, 0)
	token := w.token("all", "")
	testkit.Within(t, "a quote", time.Minute, func() bool { r, _ := i.asked("eur", token); return r.StatusCode == 200 })
	wire.Refuse()
	w.configs[""].Organization.Status = "suspended"
	w.apply("")
	testkit.Within(t, "a quote says that it may be old", time.Minute, func() bool { r, asOf := i.asked("eur", token); return r.StatusCode == 200 && asOf != nil })
	wire.Accept()
	testkit.Within(t, "the token has ended", time.Minute, func() bool {
		w.clock.Advance(10 * time.Millisecond)
		r, asOf := i.asked("eur", token)
		if r.StatusCode == 200 && asOf == nil {
			t.Fatalf("a quote says that it is current: %s", r.text)
		}
		return r.StatusCode == 401
	})
}

// While Redis is away quotes are made for every account of a grant that the
// instance has heard of, also where nobody has asked for a quote before, and for
// what changed while nobody asked. Budgets are the commit's to check.
func TestQuotesOfAccountsNeverPricedWhileRedisIsAway(t *testing.T) {
	t.Parallel() // it waits most of its time
	w, i, wire := behind(t, time.Minute)
	tokens := map[string]string{"eur": w.token("all", ""), "wide": w.token("usual", ""), "budgeted": w.token("all", "")}
	known := func() bool {
		for account, grant := range map[string]string{"eur": "all", "wide": "usual", "budgeted": "all"} {
			if _, current := i.store.AsOf(w.vars["org"], w.vars["grant_"+grant], w.vars[account]); !current {
				return false
			}
		}
		return true
	}
	testkit.Within(t, "the instance has read what quotes need", time.Minute, known)
	w.configs[""].MerchantAccounts[0].Name = "renamed"
	w.apply("")
	testkit.Within(t, "it has read what has changed", time.Minute, known)
	wire.Refuse()
	w.clock.Advance(time.Second)
	for account, token := range tokens {
		testkit.Within(t, "a quote says since when nobody could confirm it", time.Minute, func() bool {
			r, asOf := i.asked(account, token)
			return i.want(r, 200, "").StatusCode == 200 && asOf != nil
		})
	}
}
