package auth_test

import (
	"errors"
	"testing"

	"tollgate/handlers/auth"
)

// Who may not have signatures checked gets that error for a token that is not known, and
// nothing is remembered. A known one is not asked about.
func TestVerifyUnless(t *testing.T) {
	s := newService(t, 10)
	text := s.mint(t, "tok_1")
	refusal, asked := errors.New("not now"), 0
	refuse := func() error { asked++; return refusal }
	for range 2 {
		if known, err := s.verifier.VerifyUnless(text, refuse); !errors.Is(err, refusal) || known != nil {
			t.Errorf("refused: %v, %v", known, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
	agree := func() error { asked++; return nil }
	for range 2 {
		if _, err := s.verifier.VerifyUnless(text, agree); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.verifier.VerifyUnless(text, refuse); err != nil || asked != 3 {
		t.Errorf("known: %v, asked %d times, want 3", err, asked)
	}
}

// A token that is bound to a key says which, minted or built by hand; a binding to no key
// is none.
func TestBoundToken(t *testing.T) {
	s := newService(t, 10)
	bound := grant
	bound.Thumbprint = "thumbprint"
	minted, err := s.issuer.Mint(now, bound)
	if err != nil {
		t.Fatal(err)
	}
	built := token(t)
	built.claims["cnf"] = map[string]any{"jkt": "thumbprint", "x5t#S256": "more"}
	for _, text := range []string{minted, built.String()} {
		if got, err := s.verifier.Verify(text); err != nil || got.Thumbprint != "thumbprint" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, cnf := range []any{map[string]any{}, map[string]any{"jkt": ""}, map[string]any{"jkt": 1}, map[string]any{"x5t#S256": "x"}, "thumbprint", []string{}} {
		d := token(t)
		d.claims["cnf"] = cnf
		_, err := s.verifier.Verify(d.String())
		refusedAs(t, err, auth.ErrTokenInvalid, auth.ReasonClaims)
	}
}

// A grant may be at version 0; a token lasts a second at least.
func TestLeastToken(t *testing.T) {
	s := newService(t, 10)
	first := grant
	first.GrantVersion, first.Expires = 0, now
	if _, err := s.issuer.Mint(now, first); err == nil {
		t.Error("minted for no time")
	}
	d := token(t)
	d.claims["gv"] = 0
	if got, err := s.verifier.Verify(d.String()); err != nil || got.GrantVersion != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	d.claims["exp"] = now.Unix()
	_, err := s.verifier.Verify(d.String())
	refusedAs(t, err, auth.ErrTokenInvalid, auth.ReasonClaims)
}
