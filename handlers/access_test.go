package handlers_test

import (
	"net/url"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
)

func TestTokens(t *testing.T) {
	i := start(t)
	assertion := i.assertion()
	i.want(i.askToken(tokenForm(assertion)), 200, "")
	replayed := i.askToken(tokenForm(assertion))
	i.want(replayed, 401, "token_invalid")
	if replayed.body["error"] != "invalid_client" || replayed.body["error_description"] == nil {
		t.Errorf("%s", replayed.text)
	}
	for name, change := range map[string]struct {
		form  url.Values
		error string
		code  string
	}{
		"no grant_type":    {url.Values{"grant_type": nil}, "invalid_request", "parameter_missing"},
		"other grant_type": {url.Values{"grant_type": {"password"}}, "unsupported_grant_type", "parameter_invalid"},
		"twice":            {url.Values{"scope": {"events:read", "events:read"}}, "invalid_request", "parameter_invalid"},
		"unknown scope":    {url.Values{"scope": {"everything"}}, "invalid_scope", "parameter_invalid"},
		"unknown grant":    {url.Values{"grant_id": {"grt_other"}}, "invalid_request", "parameter_invalid"},
		"other client_id":  {url.Values{"client_id": {"cli_other"}}, "invalid_client", "token_invalid"},
		"garbage":          {url.Values{"client_assertion": {"a.b.c"}}, "invalid_client", "token_invalid"},
	} {
		form := tokenForm(i.assertion())
		for parameter, values := range change.form {
			form[parameter] = values
		}
		r := i.askToken(form)
		if r.body["error"] != change.error || r.body["code"] != change.code {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.text)
		}
	}
	form := tokenForm(i.assertion())
	form.Set("scope", "events:read")
	r := i.askToken(form)
	i.want(r, 200, "")
	if r.body["scope"] != "events:read" || r.Header.Get("Cache-Control") != "no-store" || r.body["expires_in"] != float64(600) {
		t.Errorf("%s", r.text)
	}
	i.token = r.body["access_token"].(string)
	missing := i.call("GET", "/v1/transactions", "")
	i.want(missing, 403, "scope_missing")
	if !strings.Contains(missing.Header.Get("WWW-Authenticate"), `scope="transactions:read"`) {
		t.Errorf("%v", missing.Header)
	}

	// A grant that changes ends its tokens, also for what asks Redis nothing.
	form = tokenForm(i.assertion())
	i.token = i.askToken(form).body["access_token"].(string)
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
	i.config.Grants[0].Scopes = i.config.Grants[0].Scopes[1:]
	if _, err := redistest.Provision(t.Context(), i.store, i.config, false); err != nil {
		t.Fatal(err)
	}
	i.store.Refresh(i.config.Organization.ID)
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 401, "token_invalid")
	i.config.Grants[0].Status = "revoked"
	if _, err := redistest.Provision(t.Context(), i.store, i.config, false); err != nil {
		t.Fatal(err)
	}
	i.want(i.call("GET", "/v1/events", ""), 401, "token_invalid")
	i.store.Refresh(i.config.Organization.ID)
	i.want(i.call("GET", "/v1/events", ""), 401, "token_invalid")
	i.want(i.askToken(tokenForm(i.assertion())), 400, "parameter_invalid")
}

func TestAccountsAndDocuments(t *testing.T) {
	i := start(t)
	i.authenticate()
	c := i.config
	for _, path := range []string{
		"/v1/organizations/" + c.Organization.ID, "/v1/legal-entities/" + c.LegalEntities[0].ID,
		"/v1/merchant-accounts/" + c.MerchantAccounts[0].ID, "/.well-known/jwks.json", "/.well-known/oauth-authorization-server", "/openapi.json",
	} {
		r := i.call("GET", path, "")
		i.want(r, 200, "")
		etag := r.Header.Get("ETag")
		if etag == "" {
			t.Errorf("%s has no ETag", path)
		}
		i.want(i.call("GET", path, "", "If-None-Match", etag), 304, "")
		i.want(i.call("GET", path+"?a=1", ""), 400, "parameter_unknown")
	}
	i.want(i.call("GET", "/v1/grants/"+c.Grants[0].ID, ""), 200, "")
	i.want(i.call("GET", "/v1/grants/"+c.LegalEntities[0].ID, ""), 404, "not_found")
	i.want(i.call("GET", "/healthz", ""), 200, "")
	loaded(t, i.handler, func() reply { return i.call("GET", "/readyz", "") })
	i.want(i.call("GET", "/readyz", ""), 200, "")
	trace := i.call("GET", "/healthz", "", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").Header.Get("traceparent")
	if !strings.HasPrefix(trace, "00-4bf92f3577b34da6a3ce929d0e0e4736-") || strings.Contains(trace, "00f067aa0ba902b7") || !strings.HasSuffix(trace, "-01") {
		t.Errorf("traceparent %q", trace)
	}
	i.handler.Drain()
	if r := i.call("GET", "/readyz", ""); r.StatusCode != 503 {
		t.Errorf("draining, but /readyz is %d %s", r.StatusCode, r.text)
	}
	if r := i.call("GET", "/readyz?for=quotes", ""); r.StatusCode != 503 {
		t.Errorf("draining, but for quotes /readyz is %d %s", r.StatusCode, r.text)
	}
	if n := i.observed.of("GET /healthz 200"); n != 2 {
		t.Errorf("GET /healthz was observed %d times", n)
	}
}

// Of a grant that is damaged nobody knows which accounts it covers, so that its client is
// not shown to who may see those of some accounts alone.
func TestClientOfADamagedGrant(t *testing.T) {
	w := newWorld(t)
	as := []string{"Authorization", "Bearer " + w.token("eur_only", "")}
	path := "/v1/clients/" + w.vars["client_revoked"]
	listed := func() bool {
		return strings.Contains(w.want(w.call("GET", "/v1/clients?limit=100", "", as...), 200, "").text, w.vars["client_revoked"])
	}
	if w.want(w.call("GET", path, "", as...), 200, ""); !listed() {
		t.Error("a client whose only grant is revoked is not listed")
	}
	for key := range dump(t, w.redis) {
		if strings.HasSuffix(key, w.vars["grant_revoked"]) {
			check(t, command(t, w.redis, "HSET", key, "json", "{}"))
		}
	}
	if w.want(w.call("GET", path, "", as...), 403, "merchant_account_forbidden"); listed() {
		t.Error("the client of a damaged grant is listed")
	}
}
