package oauth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
	"tollgate/handlers/secret"
	"tollgate/rediskv/accounts"
)

// An error has OAuth's word for it, and a description in the characters that OAuth has.
func TestProblem(t *testing.T) {
	for _, c := range []struct {
		code tollgate.Code
		kind string
		err  error
	}{
		{tollgate.CodeTokenInvalid, "invalid_client", nil},
		{tollgate.CodeStoreUnavailable, "temporarily_unavailable", nil},
		{tollgate.CodeHistoryLost, "temporarily_unavailable", nil},
		{tollgate.CodeInternal, "server_error", nil},
		{tollgate.CodeParameterInvalid, "invalid_request", nil},
		{tollgate.CodeTokenInvalid, invalidScope, fmt.Errorf("wrapped: %w", fault(invalidScope, tollgate.CodeParameterInvalid, "scope", ""))},
	} {
		body := string(Problem(&tollgate.Error{Code: c.code, Message: "m"}, c.err))
		if !strings.HasPrefix(body, `{"error":"`+c.kind+`","error_description":"m",`) {
			t.Errorf("%s, %v: %s", c.code, c.err, body)
		}
	}
	if have, want := asciiOnly("a \"b\" \\ \x1f ~\x7f é\n!"), "a 'b' ' ' ~' ''!"; have != want {
		t.Errorf("%q, want %q", have, want)
	}
}

// proven is a token request with a proof that holds.
func proven(t *testing.T, e *Endpoints) *Request {
	t.Helper()
	vault, err := secret.NewVault(bytes.Repeat([]byte("k"), secret.Size))
	if err != nil {
		t.Fatal(err)
	}
	e.Vault, e.Issuer = vault, &auth.Issuer{Name: "https://pay.example"}
	key, _, err := auth.GenerateClientKey(rand.Reader, "")
	if err != nil {
		t.Fatal(err)
	}
	proof, err := auth.SignProof(key, "POST", "https://pay.example/oauth2/token", "", e.Nonce(), "1", e.Wall())
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest("POST", "/oauth2/token", nil)
	req.Header.Set("DPoP", proof)
	return &Request{HTTP: req}
}

// What is no refusal of a proof reaches the client as it is.
func TestProofRefused(t *testing.T) {
	var e Endpoints
	e.Wall = time.Now
	e.used.used = map[[32]byte]struct{}{}
	for n := range mostProofs {
		e.used.used[[32]byte{byte(n), byte(n >> 8), byte(n >> 16)}] = struct{}{}
	}
	full := e.once(&auth.Proof{Thumbprint: "a", JTI: "1"})
	if thumbprint, err := e.boundTo(proven(t, &e), &accounts.Client{}); thumbprint != "" || problem.From(err).Code != tollgate.CodeStoreUnavailable {
		t.Errorf("a token is bound to %q, %v", thumbprint, err)
	}
	if refused := ProofRefused(full); refused.Code != tollgate.CodeStoreUnavailable || !errors.Is(full, refused) {
		t.Errorf("no room: %v", refused)
	}
	messages := map[string]bool{}
	for _, reason := range []auth.Reason{auth.ReasonProof, auth.ReasonNonceNeeded, auth.ReasonReplayed} {
		err := auth.Refuse(auth.ErrProof, reason)
		refused := ProofRefused(err)
		if refused.Code != tollgate.CodeTokenInvalid || !errors.Is(refused, err) || messages[refused.Message] {
			t.Errorf("%s: %v", reason, refused)
		}
		messages[refused.Message] = true
	}
}

// A form may have nothing between two &, and no name or value that is none.
func TestParseForm(t *testing.T) {
	form, err := parse("&a=1&&b=%26+x&c&")
	if err != nil || len(form) != 3 || form["a"] != "1" || form["b"] != "& x" || form["c"] != "" {
		t.Errorf("%v, %v", form, err)
	}
	for _, body := range []string{"%zz=1", "a=%zz", "%ff=1", "a=%ff", "a=1&a=1", "a&a", "a=1&%61=2", "=1&=2"} {
		if form, err := parse(body); err == nil {
			t.Errorf("%s: %v", body, form)
		}
	}
}
