package handlers_test

import (
	"strings"
	"testing"

	"tollgate/handlers"
	"tollgate/handlers/connection"
)

const yearOfHTTPS = "max-age=31536000"

// behind serves the world to clients that come through proxies, all from this machine.
func (w *world) behind(proxies string) {
	w.t.Helper()
	list, err := connection.ParseProxies(proxies)
	check(w.t, err)
	w.serveWith(func(c *handlers.Config) { c.Transport = handlers.Transport{Proxies: list, Required: true} })
}

// What came over plain http is refused before anything else is done for it; what a
// stranger says of it counts for nothing.
func TestPlainHTTPIsRefused(t *testing.T) {
	w := newWorld(t)
	token, asked := w.token("all", ""), tokenForm(w.assertion("shop"))
	asked.Set("grant_id", w.vars["grant_all"])
	assertion := asked.Encode()
	body := `{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"shop.example"}`
	pay := func(headers ...string) reply {
		return w.call("POST", "/v1/payments", body, append(headers, "Authorization", "Bearer "+token, "Idempotency-Key", "one")...)
	}
	form := []string{"Authorization", "", "Content-Type", "application/x-www-form-urlencoded"}
	for name, c := range map[string]struct {
		proxies string
		said    []string
	}{
		"to a server with proxies":     {"127.0.0.1", nil},
		"the proxy says so":            {"127.0.0.1", []string{"X-Forwarded-Proto", "http"}},
		"the proxy passes on a list":   {"127.0.0.1", []string{"X-Forwarded-Proto", "https, http"}},
		"a stranger says https":        {"10.0.0.0/8", []string{"X-Forwarded-Proto", "https"}},
		"a stranger names a proxy":     {"10.0.0.0/8", []string{"X-Forwarded-Proto", "https", "X-Forwarded-For", "10.0.0.1"}},
		"a stranger, in other headers": {"127.0.0.1", []string{"Forwarded", "for=127.0.0.1;proto=https"}},
	} {
		w.behind(c.proxies)
		r := w.want(pay(c.said...), 421, "tls_required")
		if r.Header.Get("Location") != "" || r.Header.Get("Strict-Transport-Security") != "" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%s: %v", name, r.Header)
		}
		w.want(w.call("GET", "/v1/payments", "", append(c.said, "Authorization", "Bearer "+token)...), 421, "tls_required")
		w.want(w.call("GET", "/openapi.json", "", append(c.said, "Authorization", "")...), 421, "tls_required")
		r = w.want(w.call("POST", "/oauth2/token", assertion, append(c.said, form...)...), 421, "tls_required")
		if r.body["error"] != "invalid_request" {
			t.Errorf("%s: %s", name, r.text)
		}
		// Those who look whether it lives have no secret.
		w.want(w.call("GET", "/healthz", "", append(c.said, "Authorization", "")...), 200, "")
		w.want(w.call("HEAD", "/healthz", "", append(c.said, "Authorization", "")...), 200, "")
		if r := w.call("GET", "/readyz?for=quotes", "", append(c.said, "Authorization", "")...); r.StatusCode == 421 {
			t.Errorf("%s: %s", name, r.text)
		}
	}
	if !w.log.Has("is no trusted proxy") {
		t.Error("the log does not say whose word was not taken")
	}
	w.behind("127.0.0.1")
	https := []string{"X-Forwarded-Proto", "https"}
	if made := w.call("GET", "/v1/payments", "", append(https, "Authorization", "Bearer "+token)...); len(made.body["data"].([]any)) != 0 {
		t.Errorf("a refused request has made %s", made.text)
	}
	// The assertion is still good, and the key was not used.
	if r := w.call("POST", "/oauth2/token", assertion, append(https, form...)...); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	for _, r := range []reply{pay(https...), w.call("GET", "/healthz", "", append(https, "Authorization", "")...), w.call("GET", "/nowhere", "", append(https, "Authorization", "")...)} {
		if r.StatusCode != 201 && r.StatusCode != 200 && r.StatusCode != 404 || r.Header.Get("Strict-Transport-Security") != yearOfHTTPS {
			t.Errorf("%s: %d %v", r.Request.URL, r.StatusCode, r.Header)
		}
	}
}

// No operation is answered over plain http but the probes, and each says so as it is
// documented.
func TestPlainHTTPToEveryOperation(t *testing.T) {
	w := newWorld(t)
	w.behind("127.0.0.1")
	refused := 0
	for _, route := range w.server.Routes() {
		r := w.call(route.Method, strings.NewReplacer("{", "", "}", "").Replace(route.Path), "", "Authorization", "")
		if probe := route.Path == "/healthz" || route.Path == "/readyz"; probe != (r.StatusCode != 421) {
			t.Errorf("%s %s: %d %s", route.Method, route.Path, r.StatusCode, r.text)
		}
		if r.StatusCode == 421 {
			refused++
		}
	}
	if refused < 60 {
		t.Errorf("%d operations: the test does not see them", refused)
	}
}

// Where nothing is said of proxies and TLS, nothing has changed; nor where the issuer is
// http, and https is not required.
func TestPlainHTTPWithoutProxies(t *testing.T) {
	w := newWorld(t)
	for _, proxies := range []string{"", "127.0.0.1"} {
		list, err := connection.ParseProxies(proxies)
		check(t, err)
		w.serveWith(func(c *handlers.Config) { c.Transport.Proxies = list })
		for _, said := range []string{"", "http", "https"} {
			r := w.call("GET", "/v1/payments", "", "X-Forwarded-Proto", said)
			if r.StatusCode != 200 || r.Header.Get("Strict-Transport-Security") != "" {
				t.Errorf("%q behind %q: %d %v", said, proxies, r.StatusCode, r.Header)
			}
		}
	}
}
