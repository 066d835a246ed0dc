package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

const (
	issuer   = "https://pay.example"
	clientID = "cli_01"
)

// now is not a whole second, so that rounding shows.
var now = time.Date(2026, 11, 21, 18, 16, 28, 400_000_000, time.UTC)

// entropy is a stream of bytes that is the same in every run.
func entropy(name string) *mathrand.ChaCha8 { return mathrand.NewChaCha8(sha256.Sum256([]byte(name))) }

// The JWS builder below uses nothing but the standard library, so that what
// hostile tokens are does not depend on the library that judges them.

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func unb64(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signerOf reads a private JWK without the package under test.
func signerOf(t testing.TB, jwk []byte) crypto.Signer {
	t.Helper()
	var k struct{ Kty, D, N, E, P, Q string }
	if err := json.Unmarshal(jwk, &k); err != nil {
		t.Fatal(err)
	}
	switch k.Kty {
	case "EC":
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), unb64(t, k.D))
		if err != nil {
			t.Fatal(err)
		}
		return key
	case "OKP":
		return ed25519.NewKeyFromSeed(unb64(t, k.D))
	default:
		number := func(s string) *big.Int { return new(big.Int).SetBytes(unb64(t, s)) }
		key := &rsa.PrivateKey{
			PublicKey: rsa.PublicKey{N: number(k.N), E: int(number(k.E).Int64())},
			D:         number(k.D), Primes: []*big.Int{number(k.P), number(k.Q)},
		}
		key.Precompute()
		return key
	}
}

func member(t testing.TB, jwk []byte, name string) string {
	t.Helper()
	var k map[string]any
	if err := json.Unmarshal(jwk, &k); err != nil {
		t.Fatal(err)
	}
	s, _ := k[name].(string)
	return s
}

// es256 signs as RFC 7518 §3.4 says: r and s, 32 bytes each. The nonce is
// derived (RFC 6979), so the same input gives the same signature.
func es256(t testing.TB, key *ecdsa.PrivateKey, input string) []byte {
	t.Helper()
	r, s := es256Numbers(t, key, input)
	out := make([]byte, 64)
	r.FillBytes(out[:32])
	s.FillBytes(out[32:])
	return out
}

func es256Numbers(t testing.TB, key *ecdsa.PrivateKey, input string) (r, s *big.Int) {
	t.Helper()
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(es256DER(t, key, input), &sig); err != nil {
		t.Fatal(err)
	}
	return sig.R, sig.S
}

func es256DER(t testing.TB, key *ecdsa.PrivateKey, input string) []byte {
	t.Helper()
	digest := sha256.Sum256([]byte(input))
	der, err := key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// draft is a JWS about to be signed. rawHeader and rawClaims, when set, stand
// in for header and claims; sign makes the signature of "header.payload";
// finish changes the finished text.
type draft struct {
	t         testing.TB
	key       crypto.Signer
	header    map[string]any
	claims    map[string]any
	rawHeader string
	rawClaims string
	sign      func(input string) []byte
	finish    func(text string) string
}

func (d *draft) input() string {
	header, claims := marshal(d.t, d.header), marshal(d.t, d.claims)
	if d.rawHeader != "" {
		header = []byte(d.rawHeader)
	}
	if d.rawClaims != "" {
		claims = []byte(d.rawClaims)
	}
	return b64(header) + "." + b64(claims)
}

func (d *draft) String() string {
	input := d.input()
	sign := d.sign
	if sign == nil {
		sign = d.signWithKey
	}
	text := input + "." + b64(sign(input))
	if d.finish != nil {
		text = d.finish(text)
	}
	return text
}

func (d *draft) signWithKey(input string) []byte {
	switch key := d.key.(type) {
	case *ecdsa.PrivateKey:
		return es256(d.t, key, input)
	case ed25519.PrivateKey:
		return ed25519.Sign(key, []byte(input))
	case *rsa.PrivateKey:
		digest := sha256.Sum256([]byte(input))
		sig, err := rsa.SignPSS(rand.Reader, key, crypto.SHA256, digest[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		if err != nil {
			d.t.Fatal(err)
		}
		return sig
	}
	d.t.Fatalf("no way to sign with %T", d.key)
	return nil
}

// insertClaim puts raw JSON members in front of the claims.
func (d *draft) insertClaim(raw string) {
	d.rawClaims = "{" + raw + "," + strings.TrimPrefix(string(marshal(d.t, d.claims)), "{")
}

func (d *draft) insertHeader(raw string) {
	d.rawHeader = "{" + raw + "," + strings.TrimPrefix(string(marshal(d.t, d.header)), "{")
}

func (d *draft) clone() *draft {
	c := *d
	c.header, c.claims = maps.Clone(d.header), maps.Clone(d.claims)
	return &c
}

// refusedAs fails unless err is a refusal of the kind and reason.
func refusedAs(t *testing.T, err, kind error, reason auth.Reason) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted; want %v: %s", kind, reason)
	}
	if want := auth.Refuse(kind, reason).Error(); err.Error() != want {
		t.Fatalf("refused as %q, want %q", err, want)
	}
}
