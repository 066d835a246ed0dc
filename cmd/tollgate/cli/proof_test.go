package cli

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

// provingService asks for proofs as Tollgate does, each with a nonce of its own.
type provingService struct {
	url    string
	nonces int
	calls  []string
}

func (s *provingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
	of := auth.ProofOf{Method: r.Method, URLs: []string{s.url + r.URL.Path}, Token: token}
	proof, err := auth.VerifyProof(r.Header.Get("DPoP"), of, time.Now())
	kind := "invalid_dpop_proof"
	if err == nil {
		kind = "use_dpop_nonce"
	}
	good := err == nil && proof.Nonce == fmt.Sprint("nonce-", s.nonces)
	s.calls = append(s.calls, fmt.Sprint(r.URL.Path, " ", len(body) > 0, " ", good))
	s.nonces++ // one request each
	w.Header().Set("DPoP-Nonce", fmt.Sprint("nonce-", s.nonces))
	switch {
	case good && r.URL.Path == "/oauth2/token":
		fmt.Fprint(w, `{"access_token":"a.b.c","token_type":"DPoP","expires_in":600}`)
	case good:
		fmt.Fprint(w, `{}`)
	case r.URL.Path == "/oauth2/token":
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":%q,"code":"parameter_invalid"}`, kind)
	default:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`DPoP realm="tollgate", error=%q`, kind))
		w.WriteHeader(401)
		fmt.Fprint(w, `{"code":"token_invalid"}`)
	}
}

// A command whose client needs proofs makes a key once, follows the nonces, and sends a
// refused request once more, with its body.
func TestProofs(t *testing.T) {
	jwk, _, err := auth.GenerateClientKey(rand.Reader, "ES256")
	if err != nil {
		t.Fatal(err)
	}
	s := &provingService{}
	server := httptest.NewServer(s)
	defer server.Close()
	s.url = server.URL
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	a := &App{Clock: time.Now, Entropy: rand.Reader, Stderr: io.Discard}
	c := &Client{App: a, Base: server.URL, Issuer: server.URL, ID: "cli_1", JWK: jwk, proofs: &proofs{app: a, base: base, issuer: server.URL}}
	c.HTTP.Transport = &proving{c.proofs, http.DefaultTransport}
	if _, err := c.Post(t.Context(), "/v1/quotes", map[string]string{"amount": "1"}, ""); err != nil {
		t.Fatal(err)
	}
	s.nonces = 50 // the latest one has expired
	if _, err := c.Post(t.Context(), "/v1/quotes", map[string]string{"amount": "2"}, ""); err != nil {
		t.Fatal(err)
	}
	s.nonces = 90
	r, err := http.NewRequest("POST", "/v1/quotes", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Pass(r)
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	want := "/oauth2/token true false, /oauth2/token true true, /v1/quotes true true, " +
		"/v1/quotes true false, /v1/quotes true true, /v1/quotes true false, /v1/quotes true true"
	if got := strings.Join(s.calls, ", "); got != want {
		t.Errorf("it saw %s\nwant %s", got, want)
	}

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("DPoP") != "" {
			t.Error("another host gets a proof")
		}
	}))
	defer refusing.Close()
	elsewhere, err := http.NewRequest("GET", refusing.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Header.Set("Authorization", "Bearer a.b.c")
	if answer, err := c.HTTP.Do(elsewhere); err != nil {
		t.Fatal(err)
	} else {
		answer.Body.Close()
	}
}
