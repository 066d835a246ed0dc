package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/auth"
)

// proofs are the proofs of possession (RFC 9449) of a client whose tokens are bound to a
// key. The key is made when the service asks for a proof, and lasts for one run.
type proofs struct {
	app    *App
	base   *url.URL // of the service
	issuer string   // by which the service knows its own addresses, without a trailing slash

	mu    sync.Mutex
	key   []byte // private JWK; nil: none was asked for
	nonce string // the service's latest
}

// proving is a transport that adds the proofs.
type proving struct {
	*proofs
	next http.RoundTripper
}

// RoundTrip sends a request, with a proof once the service has asked for one. Where it
// asks for a proof or for another nonce, nothing was carried out, and the request is sent
// once more.
func (p *proving) RoundTrip(r *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(r.URL.Path, p.base.Path)
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	issues := path == "/oauth2/token"
	if r.URL.Host != p.base.Host || !bearer && !issues {
		return p.next.RoundTrip(r)
	}
	for attempt := 0; ; attempt++ {
		request, err := p.proven(r, path, token)
		if err != nil {
			return nil, err
		}
		response, err := p.next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		again, err := p.learn(response, issues)
		if err != nil || !again || attempt > 0 || request.Body != nil && r.GetBody == nil {
			return response, err
		}
		response.Body.Close()
	}
}

// proven is a request with a proof, or without one as long as there is no key.
func (p *proofs) proven(r *http.Request, path, token string) (*http.Request, error) {
	p.mu.Lock()
	key, nonce := p.key, p.nonce
	p.mu.Unlock()
	request := r.Clone(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		request.Body = body
	}
	if key == nil {
		return request, nil
	}
	proof, err := auth.SignProof(key, r.Method, p.issuer+path, token, nonce, p.app.RandomText(), p.app.Clock())
	if err != nil {
		return nil, err
	}
	request.Header.Set("DPoP", proof)
	if token != "" {
		request.Header.Set("Authorization", "DPoP "+token)
	}
	return request, nil
}

// learn keeps the nonce of an answer, and reports whether the answer only asks for what
// the next proof can have: the first key, or that nonce. issues: it is the token
// endpoint's, which asks in its body.
func (p *proofs) learn(response *http.Response, issues bool) (again bool, err error) {
	asked := strings.Contains(response.Header.Get("WWW-Authenticate"), `error="use_dpop_nonce"`)
	var body struct {
		Error string `json:"error"`
	}
	if issues && response.StatusCode == http.StatusBadRequest {
		text, err := io.ReadAll(io.LimitReader(response.Body, MaxAnswer))
		response.Body.Close()
		if err != nil {
			return false, err
		}
		response.Body = io.NopCloser(bytes.NewReader(text))
		_ = json.Unmarshal(text, &body) // of somebody else's making: it asks for nothing
		asked = body.Error == "use_dpop_nonce"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if nonce := response.Header.Get("DPoP-Nonce"); nonce != "" {
		p.nonce = nonce
	}
	if body.Error == "invalid_dpop_proof" && p.key == nil {
		p.key, _, err = auth.GenerateClientKey(p.app.Entropy, "ES256")
		return err == nil, err
	}
	return asked, nil
}
