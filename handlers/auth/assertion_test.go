package auth_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

// client is a registered client with one key.
type client struct {
	private, public []byte
	key             crypto.Signer
	keys            auth.ClientKeys
}

func newClient(t testing.TB, name, alg string) client {
	t.Helper()
	private, public, err := auth.GenerateClientKey(entropy(name), alg)
	if err != nil {
		t.Fatal(err)
	}
	return client{private, public, signerOf(t, private), parseKeys(t, public)}
}

func parseKeys(t testing.TB, jwks ...[]byte) auth.ClientKeys {
	t.Helper()
	keys, err := auth.ParseClientKeys(jwks)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// assertion is a correct one.
func (c client) assertion(t testing.TB) *draft {
	return &draft{
		t: t, key: c.key,
		header: map[string]any{
			"alg": member(t, c.private, "alg"), "kid": member(t, c.private, "kid"), "typ": "client-authentication+jwt",
		},
		claims: map[string]any{
			"iss": clientID, "sub": clientID, "aud": issuer, "jti": "one",
			"exp": now.Unix() + 60, "iat": now.Unix(), "nbf": now.Unix(),
		},
	}
}

func verify(assertion string, keys auth.ClientKeys) (auth.Assertion, error) {
	return auth.VerifyAssertion(assertion, keys, clientID, issuer, now)
}

func TestAssertionAccepted(t *testing.T) {
	es := newClient(t, "es256", "ES256")
	for name, change := range map[string]func(d *draft){
		"as it is":                 func(*draft) {},
		"typ JWT":                  func(d *draft) { d.header["typ"] = "JWT" },
		"no typ":                   func(d *draft) { delete(d.header, "typ") },
		"no kid, one key":          func(d *draft) { delete(d.header, "kid") },
		"unknown header parameter": func(d *draft) { d.header["x5t"] = "abc" },
		"aud in an array of one":   func(d *draft) { d.claims["aud"] = []string{issuer} },
		"exp 5 min ahead":          func(d *draft) { d.claims["exp"] = now.Unix() + 300 },
		"exp in the next instant":  func(d *draft) { d.claims["exp"] = float64(now.Unix()) + 0.5 },
		"exp with an exponent":     func(d *draft) { d.claims["exp"] = json.Number("1.79528502e9") },
		"iat and nbf 10 s ahead":   func(d *draft) { d.claims["iat"], d.claims["nbf"] = now.Unix()+10, now.Unix()+10 },
		"neither iat nor nbf":      func(d *draft) { delete(d.claims, "iat"); delete(d.claims, "nbf") },
		"jti of 128 bytes":         func(d *draft) { d.claims["jti"] = strings.Repeat("j", 128) },
		"unknown claim":            func(d *draft) { d.claims["scope"] = map[string]any{"a": 1} },
		"escaped characters in iss": func(d *draft) {
			d.rawClaims = strings.Replace(string(marshal(t, d.claims)), `"cli_01"`, `"\u0063li_01"`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := es.assertion(t)
			change(d)
			got, err := verify(d.String(), es.keys)
			if err != nil {
				t.Fatal(err)
			}
			if got.ClientID != clientID || got.KeyID != member(t, es.public, "kid") || !got.Expires.After(now) {
				t.Errorf("got %+v", got)
			}
			if id, err := auth.PeekClientID(d.String()); err != nil || id != clientID {
				t.Errorf("PeekClientID: %q, %v", id, err)
			}
		})
	}
}

func TestPeekClientIDRefused(t *testing.T) {
	es := newClient(t, "es256", "ES256")
	for _, row := range []struct {
		name   string
		reason auth.Reason
		change func(*draft)
	}{
		{"LF inside", auth.ReasonMalformed, func(d *draft) { d.finish = func(s string) string { return s[:9] + "\n" + s[9:] } }},
		{"jku", auth.ReasonHeader, func(d *draft) { d.header["jku"] = "https://evil.example" }},
		{"payload not an object", auth.ReasonMalformed, func(d *draft) { d.rawClaims = "[]" }},
		{"iss no identifier", auth.ReasonIssuer, func(d *draft) { d.claims["iss"], d.claims["sub"] = "a}b{", "a}b{" }},
		{"iss too long", auth.ReasonIssuer, func(d *draft) {
			d.claims["iss"] = strings.Repeat("a", 65)
			d.claims["sub"] = d.claims["iss"]
		}},
		{"iss empty", auth.ReasonIssuer, func(d *draft) { d.claims["iss"], d.claims["sub"] = "", "" }},
		{"sub different", auth.ReasonSubject, func(d *draft) { d.claims["sub"] = "cli_02" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := es.assertion(t)
			row.change(d)
			_, err := auth.PeekClientID(d.String())
			refusedAs(t, err, auth.ErrInvalidClient, row.reason)
		})
	}
}

// Each kind of key verifies under the one algorithm registered with it.
func TestAssertionAlgorithms(t *testing.T) {
	for _, alg := range auth.Algorithms() {
		t.Run(alg, func(t *testing.T) {
			c := newClient(t, "alg", alg)
			if _, err := verify(c.assertion(t).String(), c.keys); err != nil {
				t.Fatalf("built by hand: %v", err)
			}
			signed, err := auth.SignAssertion(c.private, clientID, issuer, "once", now)
			if err != nil {
				t.Fatal(err)
			}
			got, err := verify(signed, c.keys)
			if err != nil {
				t.Fatalf("SignAssertion: %v", err)
			}
			want := auth.Assertion{ClientID: clientID, JTI: "once", KeyID: member(t, c.public, "kid"), Expires: now.Truncate(time.Second).Add(time.Minute)}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			for _, wrong := range append(auth.Algorithms(), "RS256", "ES384", "HS256", "none") {
				if wrong == alg {
					continue
				}
				d := c.assertion(t)
				d.header["alg"] = wrong
				_, err := verify(d.String(), c.keys)
				refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonAlgorithm)
			}
			d := c.assertion(t)
			d.sign = func(input string) []byte {
				signature := d.signWithKey(input)
				signature[len(signature)/2] ^= 1
				return signature
			}
			_, err = verify(d.String(), c.keys)
			refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonSignature)
		})
	}
}

// PKCS #1 v1.5 signatures of an RSA key are not taken, under either name.
func TestAssertionRS256Refused(t *testing.T) {
	c := newClient(t, "rsa", "PS256")
	for alg, reason := range map[string]auth.Reason{"RS256": auth.ReasonAlgorithm, "PS256": auth.ReasonSignature} {
		d := c.assertion(t)
		d.header["alg"] = alg
		d.sign = func(input string) []byte {
			digest := sha256.Sum256([]byte(input))
			sig, err := rsa.SignPKCS1v15(nil, c.key.(*rsa.PrivateKey), crypto.SHA256, digest[:])
			if err != nil {
				t.Fatal(err)
			}
			return sig
		}
		_, err := verify(d.String(), c.keys)
		refusedAs(t, err, auth.ErrInvalidClient, reason)
	}
}

func TestAssertionWithSeveralKeys(t *testing.T) {
	one, two := newClient(t, "one", "ES256"), newClient(t, "two", "Ed25519")
	both := parseKeys(t, one.public, two.public)
	for _, c := range []client{one, two} {
		if _, err := verify(c.assertion(t).String(), both); err != nil {
			t.Error(err)
		}
		d := c.assertion(t)
		delete(d.header, "kid")
		_, err := verify(d.String(), both)
		refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonKey)
	}
	d := one.assertion(t)
	d.header["kid"] = member(t, two.public, "kid")
	_, err := verify(d.String(), both)
	refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonAlgorithm)

	_, err = verify(one.assertion(t).String(), auth.ClientKeys{})
	refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonKey)
}
