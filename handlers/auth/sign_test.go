package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"tollgate/handlers/auth"
)

// signing is each way in which a client signs, with a text of its own in what is signed.
var signing = map[string]func(jwk []byte, text string) (string, error){
	"assertion": func(jwk []byte, text string) (string, error) {
		return auth.SignAssertion(jwk, clientID, issuer, text, now)
	},
	"rule": func(jwk []byte, text string) (string, error) {
		statement := published
		statement.Signer = text
		return auth.SignRule(jwk, statement)
	},
	"proof": func(jwk []byte, text string) (string, error) {
		return auth.SignProof(jwk, "POST", proven, "", "", text, now)
	},
}

// p384 is a private JWK and its public half.
func p384(t testing.TB) (private, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	scalar, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]string{"kty": "EC", "crv": "P-384", "x": b64(point[1:49]), "y": b64(point[49:])}
	public = marshal(t, members)
	members["d"] = b64(scalar)
	return marshal(t, members), public
}

// Nothing is signed with what is no private key of a client, and the error says why,
// without the key.
func TestSigningNeedsAPrivateKey(t *testing.T) {
	es, ed := newClient(t, "es256", "ES256"), newClient(t, "ed25519", "Ed25519")
	other, _ := p384(t)
	for _, row := range []struct {
		name, says string
		jwk        []byte
	}{
		{"public, ES256", "the private JWK is needed", es.public},
		{"public, Ed25519", "the private JWK is needed", ed.public},
		{"none", "not a JWK", nil},
		{"text", "not a JWK", []byte("secret-text")},
		{"P-384", "curve is not P-256", other},
		{"another alg", "alg is not one of", changed(t, es.private, map[string]any{"alg": "EdDSA"})},
		{"for encryption", "use is not sig", changed(t, es.private, map[string]any{"use": "enc"})},
	} {
		for what, sign := range signing {
			_, err := sign(row.jwk, "one")
			if err == nil || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "%!") || strings.Contains(err.Error(), "secret-text") {
				t.Errorf("%s with %s: %v", what, row.name, err)
			}
		}
	}
	long := changed(t, es.private, map[string]any{"kid": strings.Repeat("k", 129)})
	for _, what := range []string{"assertion", "rule"} { // a proof has no kid
		if _, err := signing[what](long, "one"); err == nil || !strings.Contains(err.Error(), "kid is longer") {
			t.Errorf("%s with a kid of 129 bytes: %v", what, err)
		}
	}
}

// What is no JSON is not signed.
func TestSigningNeedsUTF8(t *testing.T) {
	es := newClient(t, "es256", "ES256")
	for what, sign := range signing {
		if text, err := sign(es.private, "\xff"); err == nil {
			t.Errorf("%s: %s", what, text)
		}
	}
	bad := grant
	bad.ID = "\xff"
	if text, err := newService(t, 1).issuer.Mint(now, bad); err == nil {
		t.Errorf("access token: %s", text)
	}
}

// A proof has the claims that it was asked for, and the bare key without a kid.
func TestProofMembers(t *testing.T) {
	for _, alg := range auth.Algorithms() {
		key := newProver(t, "key", alg)
		for _, row := range []struct{ token, nonce, claims string }{
			{"", "", "htm htu iat jti"},
			{"a.b.c", "", "ath htm htu iat jti"},
			{"", "n", "htm htu iat jti nonce"},
		} {
			text, err := auth.SignProof(key.private, "POST", proven, row.token, row.nonce, "1", now)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(text, ".")
			var header, claims map[string]any
			for i, into := range []*map[string]any{&header, &claims} {
				if err := json.Unmarshal(unb64(t, parts[i]), into); err != nil {
					t.Fatal(err)
				}
			}
			if have := strings.Join(slices.Sorted(maps.Keys(claims)), " "); have != row.claims {
				t.Errorf("%s: claims %s, want %s", alg, have, row.claims)
			}
			if have := strings.Join(slices.Sorted(maps.Keys(header)), " "); have != "alg jwk typ" {
				t.Errorf("%s: header %s", alg, have)
			}
			of := provenOf()
			of.Token = row.token
			if p, err := auth.VerifyProof(text, of, now); err != nil || p.Nonce != row.nonce {
				t.Errorf("%s: %+v, %v", alg, p, err)
			}
		}
	}
}
