package auth_test

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

const proven = "https://pay.example/v1/payments"

// prover has a key that proves its possession.
type prover struct{ private, public []byte }

func newProver(t testing.TB, name, alg string) prover {
	t.Helper()
	private, public, err := auth.GenerateClientKey(entropy(name), alg)
	if err != nil {
		t.Fatal(err)
	}
	return prover{private, public}
}

// bare is the public key with the members that RFC 7638 counts alone.
func (p prover) bare(t testing.TB) map[string]any {
	t.Helper()
	all := map[string]any{}
	if err := json.Unmarshal(p.public, &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kid", "alg", "use"} {
		delete(all, name)
	}
	return all
}

// draft is a correct proof for a request with the access token "a.b.c".
func (p prover) draft(t testing.TB) *draft {
	t.Helper()
	sum := sha256.Sum256([]byte("a.b.c"))
	return &draft{
		t: t, key: signerOf(t, p.private), header: map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": p.bare(t)},
		claims: map[string]any{"htm": "POST", "htu": proven, "iat": now.Unix(), "jti": "1", "nonce": "n", "ath": b64(sum[:])},
	}
}

func provenOf() auth.ProofOf {
	return auth.ProofOf{Method: "POST", URLs: []string{proven}, Token: "a.b.c"}
}

// A proof of each type of key is taken, however others spell the same request.
func TestProofTaken(t *testing.T) {
	es := newProver(t, "prover", "ES256")
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	for name, change := range map[string]func(*draft){
		"as it is":                 func(*draft) {},
		"scheme in capitals":       claim("htu", "HTTPS://pay.example/v1/payments"),
		"host in capitals":         claim("htu", "https://PAY.example/v1/payments"),
		"the scheme's own port":    claim("htu", "https://pay.example:443/v1/payments"),
		"a query":                  claim("htu", proven+"?limit=1"),
		"a fragment":               claim("htu", proven+"#top"),
		"made a minute ago":        claim("iat", now.Add(-time.Minute).Unix()),
		"a clock ahead":            claim("iat", now.Add(9*time.Second).Unix()),
		"a fraction of a second":   claim("iat", float64(now.UnixMilli())/1000),
		"128 bytes of jti":         claim("jti", strings.Repeat("j", 128)),
		"a claim nobody knows":     claim("more", true),
		"a kid in its header":      func(d *draft) { d.header["kid"] = "x" },
		"alg in its key as well":   func(d *draft) { d.header["jwk"].(map[string]any)["alg"] = "ES256" },
		"use in its key":           func(d *draft) { d.header["jwk"].(map[string]any)["use"] = "sig" },
		"no nonce, for the caller": func(d *draft) { delete(d.claims, "nonce") },
	} {
		d := es.draft(t)
		change(d)
		p, err := auth.VerifyProof(d.String(), provenOf(), now)
		if err != nil || p.Thumbprint != member(t, es.public, "kid") {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	root, of := es.draft(t), provenOf()
	root.claims["htu"], of.URLs = "https://pay.example", []string{"https://pay.example/"}
	if _, err := auth.VerifyProof(root.String(), of, now); err != nil {
		t.Errorf("a URL without a path: %v", err)
	}
	for _, alg := range auth.Algorithms() {
		key := newProver(t, "key", alg)
		text, err := auth.SignProof(key.private, "POST", proven, "a.b.c", "n", "1", now)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := auth.VerifyProof(text, provenOf(), now); err != nil || p.Thumbprint != member(t, key.public, "kid") || p.Nonce != "n" || p.JTI != "1" {
			t.Errorf("%s: %+v, %v", alg, p, err)
		}
	}
}

// Every row is a correct proof with one thing changed.
func TestProofRefused(t *testing.T) {
	es, other := newProver(t, "prover", "ES256"), newProver(t, "another", "ES256")
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	gone := func(name string) func(*draft) { return func(d *draft) { delete(d.claims, name) } }
	header := func(name string, value any) func(*draft) { return func(d *draft) { d.header[name] = value } }
	key := func(name string, value any) func(*draft) {
		return func(d *draft) { d.header["jwk"].(map[string]any)[name] = value }
	}
	finish := func(f func(string) string) func(*draft) { return func(d *draft) { d.finish = f } }
	secret := func(d *draft) {
		d.header["alg"] = "HS256"
		d.sign = func(input string) []byte {
			mac := hmac.New(sha256.New, es.public)
			mac.Write([]byte(input))
			return mac.Sum(nil)
		}
	}
	rows := []struct {
		name   string
		reason auth.Reason
		change func(*draft)
	}{
		{"empty", auth.ReasonSize, finish(func(string) string { return "" })},
		{"too long", auth.ReasonSize, claim("pad", strings.Repeat("x", 8<<10))},
		{"two parts", auth.ReasonMalformed, finish(func(s string) string { return s[:strings.LastIndex(s, ".")] })},
		{"a list of two", auth.ReasonMalformed, finish(func(s string) string { return s + "," + s })},
		{"no signature", auth.ReasonMalformed, func(d *draft) { d.sign = func(string) []byte { return nil } }},
		{"htm twice", auth.ReasonMalformed, func(d *draft) { d.rawClaims = `{"htm":"POST","htm":"GET"}` }},
		{"typ missing", auth.ReasonType, func(d *draft) { delete(d.header, "typ") }},
		{"typ JWT", auth.ReasonType, header("typ", "JWT")},
		{"typ in capitals", auth.ReasonType, header("typ", "DPOP+JWT")},
		{"typ of an assertion", auth.ReasonType, header("typ", "client-authentication+jwt")},
		{"typ of an access token", auth.ReasonType, header("typ", "at+jwt")},
		{"typ a number", auth.ReasonType, header("typ", 1)},
		{"crit", auth.ReasonHeader, header("crit", []string{"exp"})},
		{"crit null", auth.ReasonHeader, header("crit", nil)},
		{"b64", auth.ReasonHeader, header("b64", false)},
		{"jku", auth.ReasonHeader, header("jku", "https://evil.example")},
		{"x5u", auth.ReasonHeader, header("x5u", "https://evil.example")},
		{"x5c", auth.ReasonHeader, header("x5c", []string{"AAAA"})},
		{"no key", auth.ReasonKey, func(d *draft) { delete(d.header, "jwk") }},
		{"key null", auth.ReasonKey, header("jwk", nil)},
		{"key a text", auth.ReasonKey, header("jwk", string(es.public))},
		{"key empty", auth.ReasonKey, header("jwk", map[string]any{})},
		{"the private key", auth.ReasonKey, header("jwk", json.RawMessage(es.private))},
		{"d", auth.ReasonKey, key("d", "AAAA")},
		{"d null", auth.ReasonKey, key("d", nil)},
		{"k", auth.ReasonKey, key("k", "AAAA")},
		{"p", auth.ReasonKey, key("p", "AAAA")},
		{"oth", auth.ReasonKey, key("oth", []string{})},
		{"a symmetric key", auth.ReasonKey, header("jwk", map[string]any{"kty": "oct", "k": "AAAA"})},
		{"a point beside the curve", auth.ReasonKey, key("x", b64(make([]byte, 32)))},
		{"another curve", auth.ReasonKey, key("crv", "P-384")},
		{"use enc", auth.ReasonKey, key("use", "enc")},
		{"alg missing", auth.ReasonAlgorithm, func(d *draft) { delete(d.header, "alg") }},
		{"alg none", auth.ReasonAlgorithm, header("alg", "none")},
		{"alg in small letters", auth.ReasonAlgorithm, header("alg", "es256")},
		{"alg HS256, the public key as the secret", auth.ReasonAlgorithm, secret},
		{"alg PS256 of an EC key", auth.ReasonAlgorithm, header("alg", "PS256")},
		{"alg EdDSA of an EC key", auth.ReasonAlgorithm, header("alg", "EdDSA")},
		{"alg ES384", auth.ReasonAlgorithm, header("alg", "ES384")},
		{"another alg in the key", auth.ReasonAlgorithm, key("alg", "ES384")},
		{"signed by another key", auth.ReasonSignature, func(d *draft) { d.key = signerOf(t, other.private) }},
		{"another's key beside it", auth.ReasonSignature, header("jwk", json.RawMessage(other.public))},
		{"signature in DER", auth.ReasonSignature, func(d *draft) {
			d.sign = func(input string) []byte { return es256DER(t, d.key.(*ecdsa.PrivateKey), input) }
		}},
		{"no method", auth.ReasonMethod, gone("htm")},
		{"another method", auth.ReasonMethod, claim("htm", "GET")},
		{"method in small letters", auth.ReasonMethod, claim("htm", "post")},
		{"method a list", auth.ReasonMethod, claim("htm", []string{"POST"})},
		{"no URL", auth.ReasonTarget, gone("htu")},
		{"URL null", auth.ReasonTarget, claim("htu", nil)},
		{"URL empty", auth.ReasonTarget, claim("htu", "")},
		{"a path alone", auth.ReasonTarget, claim("htu", "/v1/payments")},
		{"another host", auth.ReasonTarget, claim("htu", "https://pay.example.evil.example/v1/payments")},
		{"another port", auth.ReasonTarget, claim("htu", "https://pay.example:8443/v1/payments")},
		{"the other scheme's port", auth.ReasonTarget, claim("htu", "https://pay.example:80/v1/payments")},
		{"another scheme", auth.ReasonTarget, claim("htu", "http://pay.example/v1/payments")},
		{"a scheme that is none", auth.ReasonTarget, claim("htu", "ftp://pay.example/v1/payments")},
		{"another path", auth.ReasonTarget, claim("htu", "https://pay.example/v1/payment")},
		{"a longer path", auth.ReasonTarget, claim("htu", proven+"/")},
		{"path in capitals", auth.ReasonTarget, claim("htu", "https://pay.example/V1/payments")},
		{"no host", auth.ReasonTarget, claim("htu", "https:///v1/payments")},
		{"no slashes", auth.ReasonTarget, claim("htu", "https:pay.example/v1/payments")},
		{"no URL at all", auth.ReasonTarget, claim("htu", "https://pay.example/v1/%zz")},
		{"an escaped letter", auth.ReasonTarget, claim("htu", "https://pay.example/v1/%70ayments")},
		{"an escaped slash", auth.ReasonTarget, claim("htu", "https://pay.example/v1%2Fpayments")},
		{"dots", auth.ReasonTarget, claim("htu", "https://pay.example/v1/x/../payments")},
		{"somebody in front of the host", auth.ReasonTarget, claim("htu", "https://me@pay.example/v1/payments")},
		{"no time", auth.ReasonNotYetValid, gone("iat")},
		{"time a text", auth.ReasonNotYetValid, claim("iat", "1795285048")},
		{"time ahead", auth.ReasonNotYetValid, claim("iat", now.Add(12*time.Second).Unix())},
		{"time below zero", auth.ReasonNotYetValid, claim("iat", -1)},
		{"too old", auth.ReasonExpired, claim("iat", now.Add(-72*time.Second).Unix())},
		{"no jti", auth.ReasonJTI, gone("jti")},
		{"jti empty", auth.ReasonJTI, claim("jti", "")},
		{"jti a number", auth.ReasonJTI, claim("jti", 1)},
		{"jti of 129 bytes", auth.ReasonJTI, claim("jti", strings.Repeat("j", 129))},
		{"nonce a number", auth.ReasonNonce, claim("nonce", 1)},
		{"nonce empty", auth.ReasonNonce, claim("nonce", "")},
		{"nonce null", auth.ReasonNonce, claim("nonce", nil)},
		{"no ath", auth.ReasonToken, gone("ath")},
		{"ath of another token", auth.ReasonToken, claim("ath", b64(make([]byte, 32)))},
		{"the token for its ath", auth.ReasonToken, claim("ath", "a.b.c")},
		{"ath padded", auth.ReasonToken, func(d *draft) { d.claims["ath"] = d.claims["ath"].(string) + "=" }},
	}
	for _, row := range rows {
		d := es.draft(t)
		row.change(d)
		_, err := auth.VerifyProof(d.String(), provenOf(), now)
		if !errors.Is(err, auth.ErrProof) || auth.ReasonOf(err) != row.reason {
			t.Errorf("%s: %v, want %s", row.name, err, row.reason)
		}
	}
	// An assertion, and an access token, are no proofs.
	assertion, err := auth.SignAssertion(es.private, clientID, issuer, "1", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.VerifyProof(assertion, provenOf(), now); auth.ReasonOf(err) != auth.ReasonType {
		t.Errorf("an assertion: %v", err)
	}
}
