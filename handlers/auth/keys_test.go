package auth_test

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

func signingKey(t testing.TB, name string) []byte {
	t.Helper()
	jwk, err := auth.GenerateSigningKey(entropy(name))
	if err != nil {
		t.Fatal(err)
	}
	return jwk
}

func signingKeys(t testing.TB, names ...string) *auth.Keys {
	t.Helper()
	jwks := make([][]byte, len(names))
	for i, name := range names {
		jwks[i] = signingKey(t, name)
	}
	keys, err := auth.ParseSigningKeys(jwks...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// changed is a JWK with members replaced, or removed where the value is nil.
func changed(t testing.TB, jwk []byte, members map[string]any) []byte {
	t.Helper()
	var k map[string]any
	if err := json.Unmarshal(jwk, &k); err != nil {
		t.Fatal(err)
	}
	maps.Copy(k, members)
	maps.DeleteFunc(k, func(_ string, v any) bool { return v == nil })
	return marshal(t, k)
}

func TestJWKSIsPublicAndStable(t *testing.T) {
	keys := signingKeys(t, "a", "b")
	jwks := keys.JWKS()
	if !bytes.Equal(jwks, signingKeys(t, "a", "b").JWKS()) {
		t.Error("the same keys, other bytes")
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(jwks, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 2 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	for i, key := range set.Keys {
		if names := slices.Sorted(maps.Keys(key)); fmt.Sprint(names) != "[alg crv kid kty use x y]" {
			t.Errorf("members %v", names)
		}
		if key["alg"] != "ES256" || key["use"] != "sig" {
			t.Errorf("key %d: %v", i, key)
		}
		// RFC 7638 §3: members in order, no white space.
		sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"P-256","kty":"EC","x":%q,"y":%q}`, key["x"], key["y"]))
		if key["kid"] != b64(sum[:]) {
			t.Errorf("key %d: kid %q is not the thumbprint", i, key["kid"])
		}
	}
	if set.Keys[0]["kid"] != member(t, signingKey(t, "a"), "kid") {
		t.Error("the first key is not the first published")
	}
	jwks[0] = 'X'
	if keys.JWKS()[0] != '{' {
		t.Error("a caller can change the published set")
	}
}

func TestParseSigningKeysRefuses(t *testing.T) {
	good := signingKey(t, "a")
	_, public, err := auth.GenerateClientKey(entropy("a"), "ES256")
	if err != nil {
		t.Fatal(err)
	}
	ed, _, err := auth.GenerateClientKey(entropy("a"), "Ed25519")
	if err != nil {
		t.Fatal(err)
	}
	other, otherPublic := p384(t)
	for name, row := range map[string]struct {
		jwk  []byte
		says string
	}{
		"not JSON":               {[]byte("x"), "not a JWK"},
		"P-384":                  {other, "not a private P-256 JWK"},
		"null":                   {[]byte("null"), "not a"},
		"a public key":           {public, "not a private P-256 JWK"},
		"an Ed25519 key":         {ed, "not a private P-256 JWK"},
		"kid not the thumbprint": {changed(t, good, map[string]any{"kid": "mine"}), "kid is not"},
		"alg ES384":              {changed(t, good, map[string]any{"alg": "ES384"}), "alg is not ES256"},
		"use enc":                {changed(t, good, map[string]any{"use": "enc"}), "use is not sig"},
		"d of another key":       {changed(t, good, map[string]any{"d": member(t, signingKey(t, "b"), "d")}), "d does not belong"},
		"d zero":                 {changed(t, good, map[string]any{"d": b64(make([]byte, 32))}), "d does not belong"},
		"d short":                {changed(t, good, map[string]any{"d": "AAAA"}), "not a JWK"},
		"point off the curve":    {changed(t, good, map[string]any{"x": b64(make([]byte, 32))}), "not a JWK"},
		"too long":               {changed(t, good, map[string]any{"pad": strings.Repeat("x", 8<<10)}), "longer than 8 KiB"},
	} {
		for as, parse := range map[string]func() error{
			"signing key 1": func() error { _, err := auth.ParseSigningKeys(row.jwk); return err },
			"signing key 2": func() error { _, err := auth.ParseSigningKeys(signingKey(t, "c"), row.jwk); return err },
			"signing key 1:": func() error {
				_, err := auth.NewKeys([]auth.SigningKey{{JWK: row.jwk}}, public)
				return err
			},
		} {
			err := parse()
			if err == nil || !strings.HasPrefix(err.Error(), as) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%s: %v, want %s … %s", name, err, as, row.says)
			}
			if err != nil && strings.Contains(err.Error(), member(t, good, "d")) {
				t.Errorf("%s: error shows the private key: %v", name, err)
			}
		}
	}
	for name, jwks := range map[string][][]byte{"none": nil, "the same twice": {good, good}} {
		if _, err := auth.ParseSigningKeys(jwks...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, row := range []struct {
		says string
		jwk  []byte
	}{{"public P-256 JWK", otherPublic}, {"public P-256 JWK", good}, {"JWK of a supported type", []byte("x")}} {
		_, err := auth.NewKeys([]auth.SigningKey{{JWK: good}}, public, row.jwk)
		if err == nil || err.Error() != "published key 2: not a "+row.says {
			t.Errorf("%v, want %s", err, row.says)
		}
	}
	bare := changed(t, good, map[string]any{"kid": nil, "alg": nil, "use": nil})
	keys, err := auth.ParseSigningKeys(bare)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(keys.JWKS(), signingKeys(t, "a").JWKS()) {
		t.Error("kid, alg and use were not filled in")
	}
}

// rsaJWK is a public key of so many bits, to which nobody has the private one.
func rsaJWK(t testing.TB, bits, e int) []byte {
	t.Helper()
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	n.Add(n, big.NewInt(1))
	return marshal(t, map[string]string{"kty": "RSA", "alg": "PS256", "n": b64(n.Bytes()), "e": b64(big.NewInt(int64(e)).Bytes())})
}

func TestParseClientKeysRefuses(t *testing.T) {
	es, ed := newClient(t, "es", "ES256"), newClient(t, "ed", "Ed25519")
	rsaJWK := func(bits, e int) []byte { return rsaJWK(t, bits, e) }
	_, other := p384(t)
	rows := map[string][][]byte{
		"none":                nil,
		"empty":               {nil},
		"not JSON":            {[]byte("{")},
		"a set":               {[]byte(`{"keys":[` + string(es.public) + `]}`)},
		"a name twice":        {[]byte(`{"kty":"EC",` + string(es.public[1:]))},
		"a private key":       {es.private},
		"a symmetric key":     {[]byte(`{"kty":"oct","alg":"HS256","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)},
		"P-384":               {other},
		"RSA of 1024 bits":    {rsaJWK(1024, 65537)},
		"RSA of 2047 bits":    {rsaJWK(2047, 65537)},
		"RSA of 4097 bits":    {rsaJWK(4097, 65537)},
		"RSA of 8192 bits":    {rsaJWK(8192, 65537)},
		"RSA exponent 3":      {rsaJWK(2048, 3)},
		"RSA exponent even":   {rsaJWK(2048, 65538)},
		"RSA with RS256":      {changed(t, rsaJWK(2048, 65537), map[string]any{"alg": "RS256"})},
		"EC with EdDSA":       {changed(t, es.public, map[string]any{"alg": "EdDSA"})},
		"EC with none":        {changed(t, es.public, map[string]any{"alg": "none"})},
		"Ed25519 without alg": {changed(t, ed.public, map[string]any{"alg": nil})},
		"Ed25519 of order 1":  {changed(t, ed.public, map[string]any{"x": b64(append([]byte{1}, make([]byte, 31)...))})},
		"X25519":              {changed(t, ed.public, map[string]any{"crv": "X25519"})},
		"use enc":             {changed(t, es.public, map[string]any{"use": "enc"})},
		"point off the curve": {changed(t, es.public, map[string]any{"y": b64(make([]byte, 32))})},
		"kid too long":        {changed(t, es.public, map[string]any{"kid": strings.Repeat("k", 129)})},
		"kid twice":           {es.public, changed(t, ed.public, map[string]any{"kid": member(t, es.public, "kid")})},
		"second is bad":       {es.public, []byte("{}")},
	}
	for name, jwks := range rows {
		t.Run(name, func(t *testing.T) {
			if _, err := auth.ParseClientKeys(jwks); err == nil {
				t.Fatal("accepted")
			}
		})
	}
	for name, jwk := range map[string][]byte{
		"RSA of 2048 bits":  rsaJWK(2048, 65537),
		"RSA of 4096 bits":  rsaJWK(4096, 65537),
		"RSA without alg":   changed(t, rsaJWK(2048, 65537), map[string]any{"alg": nil}),
		"EC without alg":    changed(t, es.public, map[string]any{"alg": nil}),
		"Ed25519 as EdDSA":  changed(t, ed.public, map[string]any{"alg": "EdDSA"}),
		"kid of the client": changed(t, es.public, map[string]any{"kid": "2026-11"}),
		"kid of 128 bytes":  changed(t, es.public, map[string]any{"kid": strings.Repeat("k", 128)}),
	} {
		if _, err := auth.ParseClientKeys([][]byte{jwk}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A JWK without kid has the same one on both sides: its thumbprint.
func TestKeyIDDefaultsToThumbprint(t *testing.T) {
	for _, alg := range auth.Algorithms() {
		c := newClient(t, "kid", alg)
		without := map[string]any{"kid": nil}
		signed, err := auth.SignAssertion(changed(t, c.private, without), clientID, issuer, "one", now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := verify(signed, parseKeys(t, changed(t, c.public, without)))
		if err != nil {
			t.Fatal(err)
		}
		if got.KeyID != member(t, c.public, "kid") {
			t.Errorf("%s: kid %q, want %q", alg, got.KeyID, member(t, c.public, "kid"))
		}
	}
}

func TestGenerateClientKey(t *testing.T) {
	for _, alg := range []string{"", "ES256", "Ed25519", "EdDSA"} {
		private, public, err := auth.GenerateClientKey(entropy("g"), alg)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := auth.GenerateClientKey(entropy("g"), alg)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(private, again) {
			t.Errorf("%q: the same entropy, another key", alg)
		}
		if member(t, public, "d") != "" || member(t, private, "d") == "" {
			t.Errorf("%q: d is on the wrong side", alg)
		}
	}
	private, _, err := auth.GenerateClientKey(entropy("g"), "PS256")
	if err != nil {
		t.Fatal(err)
	}
	if bits := signerOf(t, private).(*rsa.PrivateKey).N.BitLen(); bits != 3072 {
		t.Errorf("RSA key of %d bits", bits)
	}
	for _, alg := range []string{"RS256", "ES384", "HS256", "none", "es256"} {
		if _, _, err := auth.GenerateClientKey(entropy("g"), alg); err == nil {
			t.Errorf("%s: accepted", alg)
		}
	}
	zeros := bytes.NewReader(make([]byte, 1<<10))
	if _, err := auth.GenerateSigningKey(zeros); err == nil {
		t.Error("a key of nothing but zeros")
	}
	for _, alg := range []string{"ES256", "Ed25519"} {
		if _, _, err := auth.GenerateClientKey(io.LimitReader(entropy("g"), 31), alg); err == nil {
			t.Errorf("%s: a key of 31 bytes", alg)
		}
	}
}

// At any time the key signs whose moment has come last, in whatever order they are
// given; before the first, the first.
func TestKeysSignInTurn(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	var sign []auth.SigningKey
	for _, k := range []struct {
		name string
		from int
	}{{"c", 20}, {"a", 0}, {"b", 10}} {
		sign = append(sign, auth.SigningKey{JWK: signingKey(t, k.name), From: at(k.from)})
	}
	keys, err := auth.NewKeys(sign)
	if err != nil {
		t.Fatal(err)
	}
	for hours, name := range map[int]string{-1: "a", 0: "a", 9: "a", 10: "b", 19: "b", 20: "c", 1000: "c"} {
		now := at(hours)
		token, err := (&auth.Issuer{Keys: keys, Name: "https://pay.example"}).Mint(now, auth.Token{
			ID: "1", ClientID: "cli_1", Organization: "org_1", GrantID: "grt_1", GrantVersion: 1, Scopes: auth.AllScopes(),
		})
		if err != nil {
			t.Fatal(err)
		}
		v, err := auth.NewVerifier(keys, "https://pay.example", 1, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		known, err := v.Verify(token)
		if want := member(t, signingKey(t, name), "kid"); err != nil || known.KeyID != want {
			t.Errorf("after %d hours: %+v, %v; want %s", hours, known, err, want)
		}
	}
	public, _, err := auth.PublicSigningKey(signingKey(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.NewKeys(nil, public); err == nil {
		t.Error("keys that sign nothing")
	}
}
