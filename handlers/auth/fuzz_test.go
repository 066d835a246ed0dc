package auth_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

// signedPart is a token without its signature. ECDSA signatures are not
// unique (s and n−s both verify), so this is what cannot be forged.
func signedPart(text string) string { return text[:max(strings.LastIndex(text, "."), 0)] }

func FuzzAssertion(f *testing.F) {
	var keys [][]byte
	var signed []string
	for _, alg := range []string{"ES256", "Ed25519", "EdDSA"} {
		c := newClient(f, "fuzz "+alg, alg)
		keys = append(keys, c.public)
		d := c.assertion(f)
		signed = append(signed, signedPart(d.String()))
		f.Add(d.String())
		hostile := d.clone()
		hostile.claims["aud"] = []string{issuer, "x"}
		f.Add(hostile.String())
		unsigned := d.clone()
		unsigned.sign = func(string) []byte { return make([]byte, 64) }
		f.Add(unsigned.String())
	}
	f.Add("e30.e30.AA")
	f.Add("...")
	registered := parseKeys(f, keys...)
	f.Fuzz(func(t *testing.T, text string) {
		id, peekErr := auth.PeekClientID(text)
		if peekErr != nil && auth.ReasonOf(peekErr) == "" {
			t.Fatalf("PeekClientID: no reason in %v", peekErr)
		}
		_, err := auth.VerifyAssertion(text, registered, clientID, issuer, now)
		switch {
		case err == nil && (peekErr != nil || id != clientID):
			t.Fatalf("verified what PeekClientID reads as %q, %v", id, peekErr)
		case err == nil && !slices.Contains(signed, signedPart(text)):
			t.Fatalf("accepted %q, which nobody signed", text)
		case err != nil && auth.ReasonOf(err) == "":
			t.Fatalf("no reason in %v", err)
		}
	})
}

func FuzzToken(f *testing.F) {
	keys := signingKeys(f, "a", "b")
	good := token(f)
	f.Add(good.String())
	signed := signedPart(good.String())
	hostile := good.clone()
	hostile.header["typ"] = "JWT"
	f.Add(hostile.String())
	f.Add("e30.e30.AA")
	verifier, err := auth.NewVerifier(keys, issuer, 4, func() time.Time { return now })
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := verifier.Verify(text)
		switch {
		case err == nil && (signedPart(text) != signed || got.ID != "tok_1"):
			t.Fatalf("accepted %q, which nobody signed", text)
		case err != nil && auth.ReasonOf(err) == "":
			t.Fatalf("no reason in %v", err)
		}
	})
}

func FuzzClientKey(f *testing.F) {
	for _, alg := range auth.Algorithms() {
		c := newClient(f, "fuzz", alg)
		f.Add(c.public)
		f.Add(c.private)
	}
	f.Fuzz(func(t *testing.T, jwk []byte) {
		keys, err := auth.ParseClientKeys([][]byte{jwk})
		if err != nil {
			return
		}
		// Whatever key was read, it verifies nothing that it did not sign.
		if _, err := verify("eyJhbGciOiJFUzI1NiJ9.e30.AA", keys); err == nil {
			t.Fatal("accepted an empty assertion")
		}
	})
}
