package handlers_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/secret"
	"tollgate/rediskv/redistest"
)

// prover is a client with a key to which its tokens are bound.
type prover struct {
	*world
	jwk          []byte
	nonce, token string
}

func (w *world) newProver() *prover {
	w.t.Helper()
	jwk, _, err := auth.GenerateClientKey(rand.Reader, "ES256")
	check(w.t, err)
	p := &prover{world: w, jwk: jwk}
	r := w.want(p.ask(), 400, "parameter_invalid")
	if p.nonce = r.Header.Get("DPoP-Nonce"); r.body["error"] != "use_dpop_nonce" || p.nonce == "" {
		w.t.Fatalf("without a nonce: %s %v", r.text, r.Header)
	}
	r = w.want(p.ask(), 200, "")
	if p.token = w.get(r, "access_token"); r.body["token_type"] != "DPoP" {
		w.t.Fatalf("the token is %s", r.text)
	}
	return p
}

// proof is one for a request, with the prover's nonce.
func (p *prover) proof(method, path, token string) string {
	p.t.Helper()
	text, err := auth.SignProof(p.jwk, method, issuer+path, token, p.nonce, rand.Text(), p.now())
	return must(p.t, text, err)
}

// ask asks for a token of the grant all with a proof.
func (p *prover) ask(more ...string) reply {
	p.t.Helper()
	form := tokenForm(p.assertion("shop"))
	form.Set("grant_id", p.vars["grant_all"])
	return p.send(p.request("POST", "/oauth2/token", form.Encode(), append([]string{
		"Authorization", "", "Content-Type", "application/x-www-form-urlencoded", "DPoP", p.proof("POST", "/oauth2/token", ""),
	}, more...)...))
}

// with makes a request with the bound token and a proof.
func (p *prover) with(on *world, proof, method, path, body string, more ...string) reply {
	p.t.Helper()
	return on.call(method, path, body, append([]string{"Authorization", "DPoP " + p.token, "DPoP", proof}, more...)...)
}

func (p *prover) read(proof string) reply { return p.with(p.world, proof, "GET", "/v1/events", "") }

func (p *prover) want401(what, kind string, r reply) {
	p.t.Helper()
	if got := r.Header.Get("WWW-Authenticate"); r.StatusCode != 401 || r.body["code"] != "token_invalid" || !strings.Contains(got, kind) {
		p.t.Errorf("%s: %d %s %s, want %s", what, r.StatusCode, got, r.text, kind)
	}
}

const (
	badProof   = `DPoP realm="tollgate", error="invalid_dpop_proof"`
	needsNonce = `DPoP realm="tollgate", error="use_dpop_nonce"`
)

// A token that is bound to a key works with a proof of it, and in no other way.
func TestBoundTokens(t *testing.T) {
	w := newWorld(t)
	p := w.newProver()
	w.want(p.read(p.proof("GET", "/v1/events", p.token)), 200, "")
	w.want(w.call("GET", "/v1/events?limit=1", "", "Authorization", "dpop "+p.token, "DPoP", p.proof("GET", "/v1/events", p.token)), 200, "")

	used := p.proof("GET", "/v1/events", p.token)
	w.want(p.read(used), 200, "")
	other, own := w.newProver(), w.token("all", "")
	signed := func(key []byte, method, target, token, nonce string, at time.Time) string {
		text, err := auth.SignProof(key, method, target, token, nonce, rand.Text(), at)
		return must(t, text, err)
	}
	good := issuer + "/v1/events"
	for what, proof := range map[string]string{
		"used before":               used,
		"another key":               signed(other.jwk, "GET", good, p.token, p.nonce, w.now()),
		"another method":            p.proof("POST", "/v1/events", p.token),
		"another path":              p.proof("GET", "/v1/payments", p.token),
		"another host":              signed(p.jwk, "GET", "https://evil.example/v1/events", p.token, p.nonce, w.now()),
		"another token":             p.proof("GET", "/v1/events", own),
		"no token":                  p.proof("GET", "/v1/events", ""),
		"the token endpoint's":      p.proof("POST", "/oauth2/token", ""),
		"too old":                   signed(p.jwk, "GET", good, p.token, p.nonce, w.now().Add(-72*time.Second)),
		"ahead":                     signed(p.jwk, "GET", good, p.token, p.nonce, w.now().Add(12*time.Second)),
		"nonsense":                  "a.b.c",
		"an assertion":              w.assertion("shop"),
		"the access token":          p.token,
		"longer than 8 KiB":         strings.Repeat("a", 8<<10+1),
		"nothing":                   "",
		"two in one header":         used + ", " + p.proof("GET", "/v1/events", p.token),
		"the private key in itself": strings.Replace(p.proof("GET", "/v1/events", p.token), ".", "x.", 1),
	} {
		p.want401(what, badProof, p.read(proof))
	}
	two := []string{"DPoP", p.proof("GET", "/v1/events", p.token)}
	p.want401("two headers", badProof, p.with(w, p.proof("GET", "/v1/events", p.token), "GET", "/v1/events", "", two...))

	bearer := `Bearer realm="tollgate", error="invalid_token"`
	proof := p.proof("GET", "/v1/events", p.token)
	p.want401("as a bearer token", bearer, w.call("GET", "/v1/events", "", "Authorization", "Bearer "+p.token))
	p.want401("as a bearer token, with a proof", bearer, w.call("GET", "/v1/events", "", "Authorization", "Bearer "+p.token, "DPoP", proof))
	unbound := w.call("GET", "/v1/events", "", "Authorization", "DPoP "+own, "DPoP", p.proof("GET", "/v1/events", own))
	p.want401("a bearer token with a proof", `DPoP realm="tollgate", error="invalid_token"`, unbound)
	p.want401("both schemes", bearer[:0], w.call("GET", "/v1/events", "", "Authorization", "DPoP "+p.token, "Authorization", "Bearer "+p.token, "DPoP", proof))
	w.want(p.read(proof), 200, "") // none of these used it up

	r := w.want(w.own("/oauth2/introspect", "shop", p.token), 200, "")
	if bound, _ := r.body["cnf"].(map[string]any); r.body["token_type"] != "DPoP" || len(bound["jkt"].(string)) != 43 {
		t.Errorf("introspection: %s", r.text)
	}
	w.want(w.own("/oauth2/revoke", "shop", p.token), 200, "")
	p.want401("revoked", `DPoP realm="tollgate", error="invalid_token"`, p.read(p.proof("GET", "/v1/events", p.token)))
}

// The token endpoint takes a proof of the same rules, and gives no token for another.
func TestProofsForTokens(t *testing.T) {
	w := newWorld(t)
	p := w.newProver()
	used := p.proof("POST", "/oauth2/token", "")
	w.want(p.ask("DPoP", ""), 200, "") // without one: a bearer token
	form := func() string {
		f := tokenForm(w.assertion("shop"))
		f.Set("grant_id", w.vars["grant_all"])
		return f.Encode()
	}
	ask := func(proofs ...string) reply {
		headers := []string{"Authorization", "", "Content-Type", "application/x-www-form-urlencoded"}
		for _, one := range proofs {
			headers = append(headers, "DPoP", one)
		}
		return w.call("POST", "/oauth2/token", form(), headers...)
	}
	w.want(ask(used), 200, "")
	for what, proofs := range map[string][]string{
		"used before": {used}, "two": {p.proof("POST", "/oauth2/token", ""), p.proof("POST", "/oauth2/token", "")}, "nonsense": {"a.b.c"},
		"another method": {p.proof("GET", "/oauth2/token", "")}, "another endpoint": {p.proof("POST", "/oauth2/revoke", "")},
	} {
		r := ask(proofs...)
		if w.want(r, 400, "parameter_invalid"); r.body["error"] != "invalid_dpop_proof" || r.body["param"] != "DPoP" {
			t.Errorf("%s: %s", what, r.text)
		}
	}
}

// A nonce is good for a minute, at every instance that has the secret key, and half of it
// over the answer has another.
func TestNonces(t *testing.T) {
	w := newWorld(t)
	p := w.newProver()
	read := func(on *world) reply {
		return p.with(on, p.proof("GET", "/v1/events", p.token), "GET", "/v1/events", "")
	}
	first := p.nonce
	if r := w.want(read(w), 200, ""); r.Header.Get("DPoP-Nonce") != "" {
		t.Error("a new nonce at once")
	}
	w.want(read(w.alone()), 200, "")
	w.clock.Advance(31 * time.Second)
	fresh := w.want(read(w), 200, "").Header.Get("DPoP-Nonce")
	if fresh == "" || fresh == first {
		t.Errorf("half a minute later the next nonce is %q", fresh)
	}
	w.clock.Advance(30 * time.Second)
	p.want401("after a minute", needsNonce, read(w))
	p.nonce = fresh
	w.want(read(w), 200, "")
	turned := []byte(fresh)
	turned[3] ^= 1
	for _, nonce := range []string{"", string(turned), fresh[:12], fresh + "A", "nonsense"} {
		p.nonce = nonce
		p.want401("nonce "+nonce, needsNonce, read(w))
	}
	p.nonce = fresh
	vault, err := secret.NewVault([]byte(strings.Repeat("x", 32)))
	check(t, err)
	w.serveWith(func(c *handlers.Config) { c.Vault = vault })
	p.want401("another secret key", needsNonce, read(w))
}

// A write with a proof is carried out once, at whichever instance; while Redis is away
// it is not.
func TestProofsOfWrites(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	w := newWorldOn(t, wire.URL, newRecorder(t))
	other := w.alone()
	p := w.newProver()
	body := `{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `}`
	pay := func(on *world, proof, key string) reply {
		return p.with(on, proof, "POST", "/v1/payments", body, "Idempotency-Key", key)
	}
	w.want(pay(w, p.proof("POST", "/v1/payments", p.token), "one"), 201, "")
	proof := p.proof("POST", "/v1/payments", p.token)
	w.want(pay(w, proof, "two"), 201, "")
	p.want401("at the same instance", badProof, pay(w, proof, "three"))
	p.want401("at another instance", badProof, pay(other, proof, "four"))
	proof = p.proof("POST", "/v1/payments", p.token)
	wire.Refuse()
	w.want(pay(w, proof, "five"), 503, "store_unavailable")
	wire.Accept()
	p.want401("what Redis could not burn", badProof, pay(w, proof, "six"))
}

// A door verifies the proof, which is of the request to it; what its message writes is
// written with that one proof.
func TestProofsOfAgents(t *testing.T) {
	w := newWorld(t)
	p := w.newProver()
	w.toolsAt()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_payment","arguments":{"merchant_account_id":"` + w.vars["eur"] + `",` + good + `,"reference":"r"}}}`
	call := func(proof string) reply {
		return p.with(w, proof, "POST", "/mcp", message, "Accept", "application/json, text/event-stream")
	}
	proof := p.proof("POST", "/mcp", p.token)
	if r := call(proof); r.StatusCode != 200 || !strings.Contains(r.text, "pay_") {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	for what, proof := range map[string]string{"used before": proof, "of another address": p.proof("POST", "/v1/payments", p.token)} {
		r := call(proof)
		if r.StatusCode != 401 || !strings.Contains(r.Header.Get("WWW-Authenticate"), "invalid_dpop_proof") || r.Header.Get("DPoP-Nonce") == "" {
			t.Errorf("%s: %d %v %s", what, r.StatusCode, r.Header, r.text)
		}
	}
	if r := w.call("POST", "/mcp", message, "Authorization", "Bearer "+p.token); r.StatusCode != 401 || r.Header.Get("DPoP-Nonce") != "" {
		t.Errorf("as a bearer token: %d %v", r.StatusCode, r.Header)
	}
}

// A client that may have bound tokens alone gets no other at any instance, and loses
// those that it had.
func TestClientsThatNeedDPoP(t *testing.T) {
	w := newWorld(t)
	p, other := w.newProver(), w.alone()
	bearer := w.token("all", "")
	ask := func(on *world, headers ...string) reply {
		form := tokenForm(w.assertion("shop"))
		form.Set("grant_id", w.vars["grant_all"])
		return on.call("POST", "/oauth2/token", form.Encode(), append([]string{"Authorization", "", "Content-Type", formMedia}, headers...)...)
	}
	w.want(ask(other), 200, "") // it has read the client
	client := "/v1/clients/" + w.vars["client_shop"]
	w.want(w.call("PATCH", client, `{"dpop_bound_access_tokens":true}`), 200, "")
	p.want401("the bearer token of before", `Bearer realm="tollgate", error="invalid_token"`, w.call("GET", "/v1/events", "", "Authorization", "Bearer "+bearer))
	p.want401("the bound token of before", `DPoP realm="tollgate", error="invalid_token"`, p.read(p.proof("GET", "/v1/events", p.token)))

	for _, on := range []*world{w, other} {
		r := on.want(ask(on), 400, "parameter_invalid")
		if r.body["error"] != "invalid_dpop_proof" || r.body["param"] != "DPoP" || r.Header.Get("DPoP-Nonce") == "" {
			t.Errorf("without a proof: %s %v", r.text, r.Header)
		}
	}
	r := w.want(ask(w, "DPoP", p.proof("POST", "/oauth2/token", "")), 200, "")
	p.token = w.get(r, "access_token")
	w.want(p.read(p.proof("GET", "/v1/events", p.token)), 200, "")
	denied := 0
	for _, row := range w.auditOf("token.issue") {
		if strings.Contains(row, `"reason":"invalid_dpop_proof"`) {
			denied++
		}
	}
	if denied != 2 {
		t.Errorf("the audit record has %d refusals: %v", denied, w.auditOf("token.issue"))
	}

	off := p.with(w, p.proof("PATCH", client, p.token), "PATCH", client, `{"dpop_bound_access_tokens":false}`)
	if w.want(off, 200, ""); off.body["dpop_bound_access_tokens"] != false {
		t.Errorf("turned off: %s", off.text)
	}
	w.want(p.read(p.proof("GET", "/v1/events", p.token)), 200, "") // it is not ended by what asks for less
	if r := w.want(ask(w), 200, ""); r.body["token_type"] != "Bearer" {
		t.Errorf("turned off: %s", r.text)
	}
}
