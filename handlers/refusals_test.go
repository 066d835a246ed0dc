package handlers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// Every refusal leaves one trace (interface §5): an entry in the audit record
// of a client that is known, else one more in the count of its reason. What is
// wrong with single parameters, headers and bodies is in TestBadInput and
// TestOddRequests.
func TestEachRefusalLeavesOneTrace(t *testing.T) {
	w := newWorld(t)
	account := func(name string) string { return fmt.Sprintf(`"merchant_account_id":%q`, w.vars[name]) }
	body := func(name, amount, currency, payee string) string {
		return fmt.Sprintf(`{%s,"amount":%q,"currency":%q,"payee":%q}`, account(name), amount, currency, payee)
	}
	key := 0
	pay := func(body string) reply {
		key++
		return w.pay(fmt.Sprintf("key-%d", key), body)
	}
	paid := pay(body("eur", "10.00", "EUR", "shop.example"))
	w.want(paid, 201, "")
	payment := "/v1/payments/" + paid.body["id"].(string)
	w.token("kiosk", "")
	w.token("all", "events:read")
	signed := func(change func(claims map[string]any), header ...string) string {
		return w.forged("kiosk", change, header...)
	}
	ask := func(assertion string, more ...string) reply {
		form := tokenForm(assertion)
		for i := 0; i < len(more); i += 2 {
			form[more[i]] = []string{more[i+1]}
		}
		return w.send(w.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
	}
	used := w.assertion("kiosk")
	ask(used)
	const entry, counted = "", "counted"
	for _, row := range []struct {
		name   string
		do     func() reply
		status int
		reason string // in the entry, or that is counted
		where  string
	}{
		{"more than capturable", func() reply { return w.call("POST", payment+"/captures", `{"amount":"10.01"}`) }, 422, "capture_amount_exceeds_capturable", entry},
		{"no review", func() reply { return w.call("POST", payment+"/reviews", `{"decision":"approve"}`) }, 409, "payment_state_invalid", entry},
		{"denied by the perimeter", func() reply { return pay(body("eur", "10.00", "EUR", "deny.test")) }, 403, "payee_blocked", entry},
		{"refused by a rule", func() reply { return pay(body("gated", "10.00", "KPW", "shop.example")) }, 422, "rule_rejected rule:currency_gate@v1", entry},
		{"a quote that a rule refuses", func() reply { return w.call("POST", "/v1/quotes", body("gated", "10.00", "KPW", "shop.example")) }, 422, "rule_rejected", entry},
		{"paused", func() reply { return pay(body("paused", "10.00", "EUR", "shop.example")) }, 409, "merchant_account_inactive", entry},
		{"closed", func() reply { return pay(body("closed", "10.00", "EUR", "shop.example")) }, 409, "merchant_account_inactive", entry},
		{"currency", func() reply { return pay(body("paused", "10.00", "USD", "shop.example")) }, 409, "merchant_account_inactive", entry},
		{"scale", func() reply { return pay(body("eur", "10.001", "EUR", "shop.example")) }, 422, "amount_scale_invalid", entry},
		{"a key used again", func() reply { return w.pay("key-1", body("eur", "11.00", "EUR", "shop.example")) }, 422, "idempotency_key_reused", entry},
		{"an account of others", func() reply {
			return w.call("POST", "/v1/quotes", `{"amount":"1.00","currency":"EUR","payee":"a.example","merchant_account_id":"`+w.vars["other_eur"]+`"}`)
		}, 404, "not_found", entry},
		{"an account beyond the grant", func() reply {
			return w.call("GET", "/v1/merchant-accounts/"+w.vars["eur"], "", "Authorization", "Bearer "+w.token("kiosk", ""))
		}, 403, "merchant_account_forbidden", entry},
		{"scope", func() reply {
			return w.call("GET", payment, "", "Authorization", "Bearer "+w.token("all", "events:read"))
		}, 403, "scope_missing", entry},
		{"cursor", func() reply { return w.call("GET", "/v1/events?cursor=AAAA", "") }, 400, "cursor_invalid", entry},
		{"JSON", func() reply { return w.call("POST", "/v1/quotes", `{`) }, 400, "invalid_json", entry},

		{"no token", func() reply { return w.call("GET", payment, "", "Authorization", "") }, 401, "token_missing", counted},
		{"nonsense for a token", func() reply { return w.call("GET", payment, "", "Authorization", "Bearer a.b.c") }, 401, "malformed", counted},
		{"an assertion for a token", func() reply { return w.call("GET", payment, "", "Authorization", "Bearer "+w.assertion("kiosk")) }, 401, "type", counted},
		{"no address", func() reply { return w.call("GET", "/v1/nothing", "") }, 404, "not_found", counted},
		{"no method", func() reply { return w.call("DELETE", payment, "") }, 405, "method_not_allowed", counted},
		{"media type", func() reply { return w.call("GET", payment, "", "Accept", "text/html") }, 406, "not_acceptable", counted},
		{"long address", func() reply { return w.call("GET", "/v1/events?x="+strings.Repeat("x", 4096), "") }, 414, "uri_too_long", counted},
		{"headers", func() reply { return w.call("GET", payment, "", "X-A", strings.Repeat("x", 17<<10)) }, 431, "headers_too_large", counted},

		{"used assertion", func() reply { return ask(used) }, 401, "replayed", entry},
		{"audience", func() reply { return ask(signed(func(c map[string]any) { c["aud"] = "https://elsewhere.example" })) }, 401, "audience", entry},
		{"expired", func() reply { return ask(signed(func(c map[string]any) { c["exp"] = w.now().Add(-time.Hour).Unix() })) }, 401, "expired", entry},
		{"no jti", func() reply { return ask(signed(func(c map[string]any) { delete(c, "jti") })) }, 401, "jti", entry},
		{"scope of a token", func() reply { return ask(w.assertion("kiosk"), "scope", "everything") }, 400, "invalid_scope", entry},
		{"grant of a token", func() reply { return ask(w.assertion("kiosk"), "grant_id", w.vars["grant_all"]) }, 400, "invalid_request", entry},
		{"no active grant", func() reply { return ask(w.assertion("revoked")) }, 400, "invalid_request", entry},
		{"another's signature", func() reply {
			return ask(w.forged("shop", func(c map[string]any) { c["iss"], c["sub"] = w.vars["client_kiosk"], w.vars["client_kiosk"] }))
		}, 401, "signature", counted},
		{"unknown client", func() reply {
			return ask(signed(func(c map[string]any) { c["iss"], c["sub"] = "cli_nobody", "cli_nobody" }))
		}, 401, "unknown_client", counted},
		{"algorithm", func() reply { return ask(signed(nil, "alg", "EdDSA")) }, 401, "algorithm", counted},
		{"nonsense for an assertion", func() reply { return ask("a.b.c") }, 401, "malformed", counted},
		{"no assertion", func() reply { return ask("") }, 400, "invalid_request", counted},
		{"grant type", func() reply { return ask(w.assertion("kiosk"), "grant_type", "password") }, 400, "unsupported_grant_type", counted},
	} {
		before := dump(t, w.redis)
		r := row.do()
		after := dump(t, w.redis)
		if r.StatusCode != row.status {
			t.Errorf("%s: %d %s, want %d", row.name, r.StatusCode, r.text, row.status)
		}
		entries, counts := added(before.stream(":audit"), after.stream(":audit")), after.refusals("")-before.refusals("")
		if row.where == counted {
			if len(entries) != 0 || counts != 1 || after.refusals(row.reason)-before.refusals(row.reason) != 1 {
				t.Errorf("%s: %d entries, %d counted: %s", row.name, len(entries), counts, strings.Join(after.changes(before), "\n"))
			}
			continue
		}
		var e struct {
			Reason, Outcome string
			Request         struct {
				ID     string
				Status int
			}
			Actor struct {
				ClientID string `json:"client_id"`
			}
		}
		if len(entries) != 1 || counts != 0 {
			t.Errorf("%s: %d counted, entries %q", row.name, counts, entries)
			continue
		}
		check(t, json.Unmarshal([]byte(entries[0]), &e, json.MatchCaseInsensitiveNames(true)))
		if e.Reason != row.reason || e.Request.ID != r.Header.Get("Request-Id") || e.Request.Status != row.status || e.Actor.ClientID == "" {
			t.Errorf("%s: %s", row.name, entries[0])
		}
	}
}

// added is what is in one list and not in another.
func added(before, after []string) []string {
	return slices.DeleteFunc(after, func(s string) bool { return slices.Contains(before, s) })
}

// forged is an assertion of a client with other claims, correctly signed; header
// are pairs of its own.
func (w *world) forged(client string, change func(claims map[string]any), header ...string) string {
	w.t.Helper()
	var key struct {
		D string `json:"d"`
	}
	check(w.t, json.Unmarshal(w.private[client], &key))
	scalar, err := base64.RawURLEncoding.DecodeString(key.D)
	check(w.t, err)
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	check(w.t, err)
	head := map[string]any{"alg": "ES256", "typ": "client-authentication+jwt"}
	for i := 0; i < len(header); i += 2 {
		head[header[i]] = header[i+1]
	}
	id, now := w.vars["client_"+client], w.now()
	claims := map[string]any{"iss": id, "sub": id, "aud": issuer, "jti": rand.Text(), "exp": now.Add(time.Minute).Unix(), "iat": now.Unix()}
	if change != nil {
		change(claims)
	}
	var parts []string
	for _, part := range []any{head, claims} {
		text, err := json.Marshal(part)
		parts = append(parts, base64.RawURLEncoding.EncodeToString(must(w.t, text, err)))
	}
	text := strings.Join(parts, ".")
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, private, sum[:])
	check(w.t, err)
	text += "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	w.secret("an assertion", text)
	return text
}

// A rule that somebody only asks for costs nothing: no key beside the audit
// entry of each refusal, no line of metrics, nothing that instances load.
func TestRulesThatAreAskedFor(t *testing.T) {
	w := newWorld(t)
	w.token("all", "")
	w.ready()
	before, asked := dump(t, w.redis), 0
	for version := 999990; version <= 999999; version++ {
		for _, name := range []string{"card_fee", "nobodys"} {
			rule := fmt.Sprintf("rule:%s@v%d", name, version)
			for _, r := range []reply{
				w.call("GET", fmt.Sprintf("/v1/rules/%s%s_v%d", tollgate.PrefixRule, name, version), ""),
				w.call("GET", fmt.Sprintf("/v1/rules/%s%s_v%d/module", tollgate.PrefixRule, name, version), ""),
				w.call("POST", "/v1/shadows", fmt.Sprintf(`{"rule":%q,"against":"rule:card_fee@v2"}`, rule)),
				w.call("POST", "/v1/shadows", fmt.Sprintf(`{"rule":"rule:card_fee@v1","against":%q}`, rule)),
				w.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", fmt.Sprintf(`{"rule":%q,"adds":true}`, rule)),
				w.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", fmt.Sprintf(`{"rule":"rule:card_fee@v2","replaces":%q}`, rule)),
				w.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", fmt.Sprintf(`{"rule":%q,"adds":true,"at":"2026-03-03T09:00:00Z","dry_run":true}`, rule)),
			} {
				if asked++; r.StatusCode < 400 || r.StatusCode >= 500 {
					t.Errorf("%s: %d %s", rule, r.StatusCode, r.text)
				}
			}
		}
	}
	if changes := w.left(before, dump(t, w.redis), make([]trace, asked)); len(changes) > 0 {
		t.Errorf("%s", strings.Join(changes, "\n"))
	}
	for _, trace := range []string{"nobodys", "99999"} {
		if told := fmt.Sprint(w.observed.requests(), w.server.FailingRules()); strings.Contains(told, trace) {
			t.Errorf("metrics name %s: %s", trace, told)
		}
	}
}

// Who names no account where there are several is told which there are.
func TestAccountsToChooseFrom(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/quotes", "/v1/payments"} {
		r := w.want(w.call("POST", path, `{"amount":"1.00","currency":"EUR","payee":"a.example"}`, "Idempotency-Key", "a"), 400, "parameter_missing")
		listed := r.body["merchant_account_ids"].([]any)
		for _, f := range accountForms {
			if !slices.Contains(listed, any(w.vars[f.name])) || !strings.Contains(r.body["message"].(string), w.vars[f.name]) {
				t.Errorf("%s does not name %s: %s", path, f.name, r.text)
			}
		}
		if len(listed) != len(accountForms) {
			t.Errorf("%v", listed)
		}
	}
	// A grant with a default account uses that.
	r := w.call("POST", "/v1/payments", `{"amount":"1.00","currency":"EUR","payee":"a.example"}`, "Idempotency-Key", "a", "Authorization", "Bearer "+w.token("usual", ""))
	if w.want(r, 201, ""); r.body["merchant_account_id"] != w.vars["eur"] {
		t.Error(r.text)
	}
}
