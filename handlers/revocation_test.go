package handlers_test

import (
	"fmt"
	"testing"

	"tollgate/rediskv/record"
	"tollgate/rediskv/redistest"
)

// own asks about a token, as a client that signs with its key.
func (w *world) own(path, client, token string) reply {
	w.t.Helper()
	return w.form(path, ownTokenForm(w.assertion(client), token).Encode())
}

func (w *world) form(path, form string) reply {
	w.t.Helper()
	return w.send(w.request("POST", path, form, "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
}

// active says whether a token works, as its client is told.
func (w *world) active(client, token string) bool {
	w.t.Helper()
	is, _ := w.want(w.own("/oauth2/introspect", client, token), 200, "").body["active"].(bool)
	return is
}

// What is asked of a stranger's token is answered as of nonsense, and does nothing. An
// assertion is used up by each answer.
func TestOthersTokens(t *testing.T) {
	w := newWorld(t)
	token := w.token("all", "events:read")
	quote := `{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `}`
	for _, client := range []string{"kiosk", "other_shop"} {
		for _, of := range []string{token, "nonsense", w.assertion("shop"), token + "x"} {
			for path, answer := range map[string]string{"/oauth2/revoke": "{}", "/oauth2/introspect": `{"active":false}`} {
				if r := w.want(w.own(path, client, of), 200, ""); r.text != answer {
					t.Errorf("%s by %s: %s", path, client, r.text)
				}
			}
		}
	}
	w.want(w.call("GET", "/v1/events", "", "Authorization", "Bearer "+token), 200, "")
	w.want(w.call("POST", "/v1/quotes", quote), 200, "")

	// Who signs for another client ends nothing, and asks nothing.
	forged := ownTokenForm(w.forged("kiosk", func(c map[string]any) { c["iss"], c["sub"] = w.vars["client_shop"], w.vars["client_shop"] }), token).Encode()
	used := w.assertion("shop")
	w.want(w.form("/oauth2/introspect", ownTokenForm(used, token).Encode()), 200, "")
	for _, path := range []string{"/oauth2/revoke", "/oauth2/introspect"} {
		w.want(w.form(path, forged), 401, "token_invalid")
		w.want(w.form(path, ownTokenForm(used, token).Encode()), 401, "token_invalid")
	}
	if !w.active("shop", token) {
		t.Error("the token has ended")
	}
	w.want(w.own("/oauth2/revoke", "shop", token), 200, "")
	if w.active("shop", token) {
		t.Error("the token is still active")
	}
	w.want(w.call("GET", "/v1/events", "", "Authorization", "Bearer "+token), 401, "token_invalid")
	w.want(w.call("GET", "/v1/events", ""), 200, "") // another one of the same grant
}

// A token whose client or organization has ended is not active; nor is its client
// heard.
func TestIntrospectionOfTheEnded(t *testing.T) {
	for name, end := range accessEnds {
		if name == "revoked token" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			token := w.token("all", "")
			end(t, w, w.configs[""])
			w.apply("")
			w.store.Refresh(w.vars["org"])
			for _, path := range []string{"/oauth2/revoke", "/oauth2/introspect"} {
				w.want(w.own(path, "shop", token), 401, "token_invalid")
			}
		})
	}
}

// Twenty use a token while it is revoked, on two instances: once the revocation is
// answered, nobody pays with it any more.
func TestRevokedWhileUsed(t *testing.T) {
	w := newWorld(t)
	other := w.alone()
	token := w.token("all", "")
	form := ownTokenForm(w.assertion("shop"), token).Encode()
	body := `{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `}`
	pay := func(key string) (method, path, text string, headers []string) {
		return "POST", "/v1/payments", body, []string{"Idempotency-Key", key, "Authorization", "Bearer " + token}
	}
	replies := w.atOnce(20, func(i int) (string, string, string, []string) {
		if i == 7 {
			return "POST", "/oauth2/revoke", form, []string{"Authorization", "", "Content-Type", "application/x-www-form-urlencoded"}
		}
		return pay(fmt.Sprint("before-", i))
	})
	for i, r := range replies {
		if code := r.body["code"]; !(r.StatusCode < 300 || r.StatusCode == 401 && code == "token_invalid") {
			t.Errorf("request %d: %d %s", i, r.StatusCode, r.text)
		}
	}
	for _, instance := range []*world{w, other} {
		for i, r := range instance.atOnce(20, func(i int) (string, string, string, []string) { return pay(fmt.Sprint("after-", i)) }) {
			if r.StatusCode != 401 {
				t.Errorf("request %d after it: %d %s", i, r.StatusCode, r.text)
			}
		}
	}
}

// A revocation whose reply is lost is carried out once: the script knows its own run.
func TestReplyLostToRevocations(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	revoke := func() reply {
		i.authenticate()
		return i.askAt("/oauth2/revoke", ownTokenForm(i.assertion(), i.token))
	}
	i.want(revoke(), 200, "")
	check := lose(t, wire, lastScript(t, wire), 1)
	i.want(revoke(), 200, "")
	check()
	i.want(i.call("GET", "/v1/events", ""), 401, "token_invalid")
}

// A grant whose list of revoked tokens is damaged lets nobody in. Who reads it for the
// first time says why.
func TestDamagedRevocations(t *testing.T) {
	w := newWorld(t)
	w.want(w.own("/oauth2/revoke", "shop", w.token("all", "events:read")), 200, "")
	w.want(w.call("GET", "/v1/events", ""), 200, "")
	key := ""
	for k := range dump(t, w.redis) {
		if record.KindOf(k) != nil && len(k) > 30 && k[len(k)-30:] == w.vars["grant_all"] {
			key = k
		}
	}
	check(t, command(t, w.redis, "HSET", key, "revoked=", "tok_x:1"))
	token := w.token("all", "")
	read := func(w *world) reply {
		return w.call("GET", "/v1/organizations/"+w.vars["org"], "", "Authorization", "Bearer "+token)
	}
	w.want(read(w), 401, "token_invalid")
	w.want(read(w.alone()), 500, "record_damaged")
	w.want(w.alone().own("/oauth2/introspect", "shop", token), 500, "record_damaged")
	w.want(w.own("/oauth2/revoke", "shop", token), 500, "record_damaged")
}

// A sandbox that is a day ahead keeps what was revoked: tokens live by real time.
func TestRevokedInASandboxThatIsAhead(t *testing.T) {
	w := newWorld(t)
	w.want(w.call("POST", "/v1/sandbox/clock", `{"advance":"26h"}`), 200, "")
	clear(w.tokens)
	first, second := w.token("all", "events:read"), w.token("all", "quotes:read")
	used := w.assertion("shop")
	w.want(w.form("/oauth2/revoke", ownTokenForm(used, first).Encode()), 200, "")
	w.want(w.own("/oauth2/revoke", "shop", second), 200, "")
	if w.active("shop", first) || w.active("shop", second) {
		t.Error("a revoked token is active again")
	}
}
