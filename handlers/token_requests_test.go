package handlers_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/attack"
	"tollgate/rediskv/redistest"
)

// askAs asks for a token as a client; more are further parameters, in pairs.
func (w *world) askAs(client string, more ...string) reply {
	w.t.Helper()
	form := tokenForm(w.assertion(client))
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return w.form("/oauth2/token", form.Encode())
}

// resigned is an access token of twin with other claims, which this server has signed.
func (w *world) resigned(change func(attack.Members) attack.Members) string {
	w.t.Helper()
	j, err := attack.Read(w.token("twin", ""), w.signing)
	check(w.t, err)
	j.Claims = change(j.Claims)
	return j.String()
}

// A token has no scope that its grant does not have, however the others are named with it.
func TestScopesBeyondTheGrant(t *testing.T) {
	w := newWorld(t)
	for _, scope := range []string{"payments:read", "tickets:read payments:read"} {
		r := w.want(w.askAs("reader", "scope", scope), 200, "")
		if got := strings.Fields(w.get(r, "scope")); len(got) != len(strings.Fields(scope)) {
			t.Errorf("%s: %s", scope, r.text)
		}
	}
	w.want(w.askAs("reader", "client_id", w.vars["client_reader"]), 200, "")
	w.want(w.askAs("reader", "client_id", w.vars["client_shop"]), 401, "token_invalid")
	for _, scope := range []string{"payments:write", "payments:read payments:write", "payments:read tickets:read access:write", "payments:read everything"} {
		if r := w.want(w.askAs("reader", "scope", scope), 400, "parameter_invalid"); r.body["error"] != "invalid_scope" {
			t.Errorf("%s: %s", scope, r.text)
		}
	}
}

// A token is of one active grant of its client, and ends with it.
func TestTokensOfGrants(t *testing.T) {
	w := newWorld(t)
	if r := w.want(w.askAs("brief"), 200, ""); r.body["expires_in"] != float64(300) {
		t.Errorf("a grant of five minutes: %s", r.text)
	}
	for _, c := range []struct {
		client, grant, says string
	}{
		{"revoked", "", "The client has no active grant."},
		{"early", "", "The client has no active grant."},
		{"revoked", "grant_revoked", "grant_id names one"},
		{"early", "grant_early", "grant_id names one"},
		{"shop", "", "grant_id names one"},
		{"shop", "grant_twin", "grant_id names one"},
	} {
		r := w.want(w.askAs(c.client, "grant_id", w.vars[c.grant]), 400, "parameter_invalid")
		if message, _ := r.body["message"].(string); !strings.HasPrefix(message, c.says) || r.body["param"] != "grant_id" {
			t.Errorf("%s, grant %q: %s", c.client, c.grant, r.text)
		}
	}
}

// A genuine token that names another client's grant, or none that there is, is refused also
// where Redis is not asked, and means nothing.
func TestTokensOfForeignGrants(t *testing.T) {
	w := newWorld(t)
	quote := func(text string) reply {
		return w.call("POST", "/v1/quotes", `{"merchant_account_id":"`+w.vars["eur"]+`",`+good+`}`, "Authorization", "Bearer "+text)
	}
	as := func(name, raw string) string {
		return w.resigned(func(m attack.Members) attack.Members { return m.With(name, raw) })
	}
	w.want(quote(w.resigned(slices.Clone[attack.Members])), 200, "")
	ended := func(m attack.Members) attack.Members {
		id := strconv.Quote(w.vars["client_revoked"])
		return m.With("client_id", id).With("sub", id).With("grant_id", strconv.Quote(w.vars["grant_revoked"]))
	}
	if r := quote(w.resigned(ended)); r.StatusCode != 401 {
		t.Errorf("a client's own that was revoked: %d %s", r.StatusCode, r.text)
	}
	for what, text := range map[string]string{
		"another client's": as("grant_id", strconv.Quote(w.vars["grant_all"])), "a revoked one": as("grant_id", strconv.Quote(w.vars["grant_revoked"])),
		"none that is there": w.resigned(func(m attack.Members) attack.Members { return m.With("grant_id", `"grt_nobody"`).Without("his") }),
		"an earlier version": as("gv", "0"),
		// A token of an earlier release does not say in which history it was issued.
		"a later version": w.resigned(func(m attack.Members) attack.Members { return m.With("gv", "99").Without("his") }),
	} {
		if r := quote(text); r.StatusCode != 401 || r.body["code"] != "token_invalid" {
			t.Errorf("%s: %d %s", what, r.StatusCode, r.text)
		}
		if r := w.want(w.own("/oauth2/introspect", "twin", text), 200, ""); r.text != `{"active":false}` {
			t.Errorf("%s: %s", what, r.text)
		}
	}
}

// Damage of what a token is made of is said, and no token is issued; it makes a stranger
// of nobody.
func TestTokensOfDamagedRecords(t *testing.T) {
	for what, name := range map[string]string{"client": "client_reader", "organization": "org", "grant": "grant_reader"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			key := ""
			for k := range dump(t, w.redis) {
				if strings.HasSuffix(k, w.vars[name]) && strings.Contains(k, w.vars["org"]) {
					key = k
				}
			}
			check(t, command(t, w.redis, "HSET", key, "json", "{}"))
			w.want(w.alone().askAs("reader"), 500, "record_damaged")
		})
	}
}

// A grant that is not there is none of its client's; the others are.
func TestTokensOfLostGrants(t *testing.T) {
	w := newWorld(t)
	for key := range dump(t, w.redis) {
		if strings.HasSuffix(key, w.vars["grant_elsewhere"]) {
			check(t, command(t, w.redis, "DEL", key))
		}
	}
	other := w.alone()
	w.want(other.askAs("shop", "grant_id", w.vars["grant_elsewhere"]), 400, "parameter_invalid")
	w.want(other.askAs("shop", "grant_id", w.vars["grant_eur_only"]), 200, "")
}

// Nobody is a stranger to a Redis that has lost everything.
func TestTokensOfAnEmptiedRedis(t *testing.T) {
	w := newWorldOn(t, redistest.Fresh(t).URL, newRecorder(t))
	w.want(w.askAs("reader"), 200, "")
	check(t, w.store.Redis.FlushAll(t.Context()).Err())
	w.want(w.askAs("twin"), 503, "history_lost") // which this instance does not know
}

// What an instance refuses so that Redis need not, Redis hears nothing of: no count, no
// entry, no proof.
func TestRefusedWithoutRedis(t *testing.T) {
	w := newWorld(t)
	w.limit("tokens=off,writes=1/h,burst=2")
	p := w.newProver()
	body := `{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `}`
	n := 0
	forged := w.token("kiosk", "")
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	for what, send := range map[string]func() reply{
		"a write with a proof": func() reply {
			n++
			return p.with(w, p.proof("POST", "/v1/payments", p.token), "POST", "/v1/payments", body, "Idempotency-Key", fmt.Sprint(n))
		},
		"an assertion by another key": func() reply {
			text := w.forged("reader", func(c map[string]any) { c["iss"], c["sub"] = w.vars["client_shop"], w.vars["client_shop"] })
			return w.form("/oauth2/token", tokenForm(text).Encode())
		},
		"a wrong signature": func() reply {
			return w.call("GET", "/v1/events", "", "Authorization", "Bearer "+forged)
		},
	} {
		for tries := 0; send().StatusCode != 429; tries++ { // Redis says so, if only once
			if tries > 60 {
				t.Fatalf("%s is not limited", what)
			}
		}
		w.want(send(), 429, "rate_limited")
		before := dump(t, w.redis)
		w.want(send(), 429, "rate_limited")
		if changes := before.changes(dump(t, w.redis)); len(changes) > 0 {
			t.Errorf("%s: %s", what, strings.Join(changes, "\n"))
		}
		w.clock.Advance(3 * time.Second) // after which the address may send wrong signatures again
	}
}

// A proof is burned in Redis for writes alone: for reads, each instance remembers its own.
func TestProofsOfReads(t *testing.T) {
	w := newWorld(t)
	other, p := w.alone(), w.newProver()
	proof := p.proof("GET", "/v1/events", p.token)
	for _, on := range []*world{w, other} {
		w.want(p.with(on, proof, "GET", "/v1/events", ""), 200, "")
		p.want401("used before", badProof, p.with(on, proof, "GET", "/v1/events", ""))
	}
}
