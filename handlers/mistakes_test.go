package handlers_test

import (
	"strings"
	"testing"
	"time"

	"tollgate/handlers"
)

// The mistakes that one can make in an assertion: the sandbox names each and
// says how to mend it. Elsewhere all have one answer; the log has the reason,
// under the request's id, and TestEachRefusalLeavesOneTrace holds that the
// audit record or the count has it.
func TestMistakesInAssertions(t *testing.T) {
	w := newWorld(t)
	claims := func(change func(c map[string]any)) func() string {
		return func() string { return w.forged("kiosk", change) }
	}
	header := func(pair ...string) func() string {
		return func() string { return w.forged("kiosk", nil, pair...) }
	}
	used := w.assertion("kiosk")
	mistakes := []struct {
		reason    string
		says      string // in the sandbox's message
		assertion func() string
	}{
		{"malformed", "compact JWS", func() string { return "a.b.c" }},
		{"size", "8 KiB", func() string { return strings.Repeat("a", 9000) }},
		{"header", "only keys that are registered", header("jku", "https://evil.example")},
		{"type", "client-authentication+jwt", header("typ", "at+jwt")},
		{"key", "kid", header("kid", "unknown")},
		{"algorithm", "alg", header("alg", "PS256")},
		{"signature", "64 bytes", func() string {
			return w.forged("shop", func(c map[string]any) { c["iss"], c["sub"] = w.vars["client_kiosk"], w.vars["client_kiosk"] })
		}},
		{"issuer", "iss is missing", claims(func(c map[string]any) { delete(c, "iss") })},
		{"subject", "sub is not the same", claims(func(c map[string]any) { c["sub"] = "somebody" })},
		{"audience", "aud is not " + issuer, claims(func(c map[string]any) { c["aud"] = issuer + "/oauth2/token" })},
		{"expiry", "5 minutes", claims(func(c map[string]any) { c["exp"] = w.now().Add(time.Hour).Unix() })},
		{"expired", "2026-03-02T09:00:00Z", claims(func(c map[string]any) { c["exp"] = w.now().Add(-time.Second).Unix() })},
		{"not_yet_valid", "10 seconds", claims(func(c map[string]any) { c["iat"] = w.now().Add(time.Minute).Unix() })},
		{"jti", "jti is missing", claims(func(c map[string]any) { delete(c, "jti") })},
		{"replayed", "used before", func() string { return used }},
		{"unknown_client", "no active client", claims(func(c map[string]any) { c["iss"], c["sub"] = "cli_nobody", "cli_nobody" })},
	}
	ask := func(assertion string) reply {
		return w.send(w.request("POST", "/oauth2/token", tokenForm(assertion).Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
	}
	w.want(ask(used), 200, "")
	const told = "The client could not be authenticated."
	for _, m := range mistakes {
		r := ask(m.assertion())
		if r.StatusCode != 401 || r.body["message"] != told || r.body["error_description"] != told {
			t.Errorf("%s: %d %s", m.reason, r.StatusCode, r.text)
		}
		found := false
		for line := range strings.SplitSeq(w.log.String(), "\n") {
			found = found || (strings.Contains(line, r.Header.Get("Request-Id")) && strings.Contains(line, "invalid client: "+m.reason+`"`))
		}
		if !found {
			t.Errorf("%s: the log does not have it under %s", m.reason, r.Header.Get("Request-Id"))
		}
	}
	w.serveWith(func(c *handlers.Config) { c.Development = true })
	messages := map[string]string{}
	for _, m := range mistakes {
		r := ask(m.assertion())
		message, _ := r.body["message"].(string)
		if r.StatusCode != 401 || !strings.HasPrefix(message, told+" ") || !strings.Contains(message, m.says) || messages[message] != "" {
			t.Errorf("%s: %d %s, as of %q", m.reason, r.StatusCode, r.text, messages[message])
		}
		messages[message] = m.reason
	}
}

// Names of the issuer: an assertion for any of them is taken, for no other, and
// the metadata answer under the name by which they were asked for.
func TestAliasesOfTheIssuer(t *testing.T) {
	w := newWorld(t)
	alias := "http://localhost:4711"
	ask := func(audience string) reply {
		form := tokenForm(w.forged("kiosk", func(c map[string]any) { c["aud"] = audience })).Encode()
		return w.send(w.request("POST", "/oauth2/token", form, "Authorization", "", "Content-Type", "application/x-www-form-urlencoded"))
	}
	metadata := func(host string) any {
		req := w.request("GET", "/.well-known/oauth-authorization-server", "", "Authorization", "")
		req.Host = host
		return w.send(req).body["issuer"]
	}
	w.want(ask(alias), 401, "token_invalid")
	w.serveWith(func(c *handlers.Config) { c.Aliases = []string{alias, "http://[::1]:4711"} })
	for audience, status := range map[string]int{alias: 200, issuer: 200, "http://[::1]:4711": 200, "http://localhost:4712": 401, "http://127.0.0.1": 401, alias + "/": 401, "": 401} {
		if r := ask(audience); r.StatusCode != status {
			t.Errorf("%q: %d %s", audience, r.StatusCode, r.text)
		}
	}
	if a, b, c := metadata("localhost:4711"), metadata("[::1]:4711"), metadata("elsewhere"); a != alias || b != "http://[::1]:4711" || c != issuer {
		t.Errorf("issuers: %v, %v, %v", a, b, c)
	}
}
