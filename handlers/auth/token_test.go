package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

// grant is what the token tests mint.
var grant = auth.Token{
	ID: "tok_1", ClientID: clientID, Organization: "org_01", GrantID: "grt_01", GrantVersion: 3,
	Scopes: auth.Scopes{auth.ScopePaymentsWrite, auth.ScopeTicketsRead},
}

// service mints and verifies with keys "a" (which signs) and "b", at a time
// that the test sets.
type service struct {
	keys     *auth.Keys
	issuer   auth.Issuer
	verifier *auth.Verifier
	now      time.Time
}

func newService(t testing.TB, cacheSize int) *service {
	t.Helper()
	keys := signingKeys(t, "a", "b")
	s := &service{keys: keys, issuer: auth.Issuer{Keys: keys, Name: issuer}, now: now}
	var err error
	s.verifier, err = auth.NewVerifier(keys, issuer, cacheSize, func() time.Time { return s.now })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) mint(t testing.TB, id string) string {
	t.Helper()
	token := grant
	token.ID = id
	text, err := s.issuer.Mint(now, token)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// token is a correct access token, built without the package under test.
func token(t testing.TB) *draft {
	jwk := signingKey(t, "a")
	return &draft{
		t: t, key: signerOf(t, jwk),
		header: map[string]any{"alg": "ES256", "kid": member(t, jwk, "kid"), "typ": "at+jwt"},
		claims: map[string]any{
			"iss": issuer, "sub": clientID, "aud": issuer, "exp": now.Unix() + 600, "iat": now.Unix(), "jti": "tok_1",
			"client_id": clientID, "scope": "payments:write tickets:read", "org": "org_01", "grant_id": "grt_01", "gv": 3,
		},
	}
}

// What Mint writes, read with the standard library and the published keys.
func TestMint(t *testing.T) {
	s := newService(t, 10)
	parts := strings.Split(s.mint(t, "tok_1"), ".")
	if len(parts) != 3 {
		t.Fatalf("%d segments", len(parts))
	}
	var header, claims map[string]any
	if err := errors.Join(json.Unmarshal(unb64(t, parts[0]), &header), json.Unmarshal(unb64(t, parts[1]), &claims)); err != nil {
		t.Fatal(err)
	}
	want := token(t)
	if !maps.Equal(header, want.header) {
		t.Errorf("header %v, want %v", header, want.header)
	}
	if got, want := string(marshal(t, claims)), string(marshal(t, want.claims)); got != want {
		t.Errorf("claims %s\nwant   %s", got, want)
	}
	var set struct{ Keys []struct{ Kid, X, Y string } }
	if err := json.Unmarshal(s.keys.JWKS(), &set); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(set.Keys, func(k struct{ Kid, X, Y string }) bool { return k.Kid == header["kid"] })
	point := slices.Concat([]byte{4}, unb64(t, set.Keys[i].X), unb64(t, set.Keys[i].Y))
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	sig := unb64(t, parts[2])
	if len(sig) != 64 || !ecdsa.Verify(key, digest[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		t.Error("the signature does not verify with the published key")
	}
}

func TestMintNeedsEveryClaim(t *testing.T) {
	s := newService(t, 10)
	for name, change := range map[string]func(*auth.Token){
		"ID":           func(t *auth.Token) { t.ID = "" },
		"ClientID":     func(t *auth.Token) { t.ClientID = "" },
		"Organization": func(t *auth.Token) { t.Organization = "" },
		"GrantID":      func(t *auth.Token) { t.GrantID = "" },
		"GrantVersion": func(t *auth.Token) { t.GrantVersion = -1 },
		"Scopes":       func(t *auth.Token) { t.Scopes = nil },
		"size":         func(t *auth.Token) { t.ID = strings.Repeat("x", 8<<10) },
	} {
		token := grant
		change(&token)
		if _, err := s.issuer.Mint(now, token); err == nil {
			t.Errorf("%s: minted", name)
		}
	}
	if _, err := (&auth.Issuer{Keys: s.keys}).Mint(now, grant); err == nil {
		t.Error("minted without an issuer")
	}
}

func TestTokenAccepted(t *testing.T) {
	s := newService(t, 10)
	for name, text := range map[string]string{"minted": s.mint(t, "tok_1"), "built by hand": token(t).String()} {
		for range 2 { // the second is from the cache
			got, err := s.verifier.Verify(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			issued := now.Truncate(time.Second)
			if got.ID != "tok_1" || got.ClientID != clientID || got.Organization != "org_01" || got.GrantID != "grt_01" ||
				got.GrantVersion != 3 || got.Scopes.String() != "payments:write tickets:read" ||
				got.KeyID != member(t, signingKey(t, "a"), "kid") ||
				!got.IssuedAt.Equal(issued) || !got.Expires.Equal(issued.Add(auth.TokenLifetime)) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

// Every row is a correct access token with one thing changed.
func TestTokenRefused(t *testing.T) {
	a := signerOf(t, signingKey(t, "a")).(*ecdsa.PrivateKey)
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	without := func(name string) func(*draft) { return func(d *draft) { delete(d.claims, name) } }
	header := func(name string, value any) func(*draft) { return func(d *draft) { d.header[name] = value } }
	finish := func(f func(string) string) func(*draft) { return func(d *draft) { d.finish = f } }
	for _, row := range []struct {
		name   string
		reason auth.Reason
		change func(*draft)
	}{
		{"empty", auth.ReasonSize, finish(func(string) string { return "" })},
		{"too long", auth.ReasonSize, claim("pad", strings.Repeat("x", 8<<10))},
		{"newline behind", auth.ReasonMalformed, finish(func(s string) string { return s + "\n" })},
		{"CR inside", auth.ReasonMalformed, finish(func(s string) string { return s[:20] + "\r" + s[20:] })},
		{"padding", auth.ReasonMalformed, finish(func(s string) string { return s + "=" })},
		{"no signature", auth.ReasonMalformed, func(d *draft) { d.sign = func(string) []byte { return nil } }},
		{"typ missing", auth.ReasonType, func(d *draft) { delete(d.header, "typ") }},
		{"typ JWT", auth.ReasonType, header("typ", "JWT")},
		{"typ of an assertion", auth.ReasonType, header("typ", "client-authentication+jwt")},
		{"typ AT+JWT", auth.ReasonType, header("typ", "AT+JWT")},
		{"typ null", auth.ReasonType, header("typ", nil)},
		{"alg none", auth.ReasonAlgorithm, header("alg", "none")},
		{"alg none, no signature", auth.ReasonMalformed, func(d *draft) {
			d.header["alg"] = "none"
			d.sign = func(string) []byte { return nil }
		}},
		{"alg HS256", auth.ReasonAlgorithm, header("alg", "HS256")},
		{"alg ES384", auth.ReasonAlgorithm, header("alg", "ES384")},
		{"alg missing", auth.ReasonAlgorithm, func(d *draft) { delete(d.header, "alg") }},
		{"kid missing", auth.ReasonKey, func(d *draft) { delete(d.header, "kid") }},
		{"kid unknown", auth.ReasonKey, header("kid", "unknown")},
		{"kid null", auth.ReasonKey, header("kid", nil)},
		{"kid of the other key", auth.ReasonSignature, header("kid", member(t, signingKey(t, "b"), "kid"))},
		{"signed by a stranger", auth.ReasonSignature, func(d *draft) { d.key = signerOf(t, signingKey(t, "stranger")) }},
		{"crit", auth.ReasonHeader, header("crit", []string{"b64"})},
		{"b64", auth.ReasonHeader, header("b64", false)},
		{"jwk", auth.ReasonHeader, header("jwk", map[string]string{"kty": "EC"})},
		{"jku", auth.ReasonHeader, header("jku", "https://evil.example")},
		{"alg twice", auth.ReasonMalformed, func(d *draft) { d.insertHeader(`"alg":"ES256"`) }},
		{"signature in DER", auth.ReasonSignature, func(d *draft) { d.sign = func(in string) []byte { return es256DER(t, a, in) } }},
		{"signature a byte short", auth.ReasonSignature, func(d *draft) { d.sign = func(in string) []byte { return es256(t, a, in)[1:] } }},
		{"signature of zeros", auth.ReasonSignature, func(d *draft) { d.sign = func(string) []byte { return make([]byte, 64) } }},
		{"more scopes, old signature", auth.ReasonSignature, finish(func(s string) string {
			p := strings.Split(s, ".")
			return p[0] + "." + b64([]byte(strings.Replace(string(unb64(t, p[1])), "tickets:read", "events:read", 1))) + "." + p[2]
		})},
		{"claim twice", auth.ReasonClaims, func(d *draft) { d.insertClaim(`"org":"org_02"`) }},
		{"payload null", auth.ReasonIssuer, func(d *draft) { d.rawClaims = "null" }},
		{"payload an array", auth.ReasonClaims, func(d *draft) { d.rawClaims = "[]" }},
		{"another issuer", auth.ReasonIssuer, claim("iss", "https://other.example")},
		{"iss missing", auth.ReasonIssuer, without("iss")},
		{"another audience", auth.ReasonAudience, claim("aud", "https://other.example")},
		{"aud missing", auth.ReasonAudience, without("aud")},
		{"aud an array", auth.ReasonClaims, claim("aud", []string{issuer})},
		{"sub not the client", auth.ReasonSubject, claim("sub", "cli_02")},
		{"sub missing", auth.ReasonSubject, without("sub")},
		{"client_id missing", auth.ReasonSubject, without("client_id")},
		{"jti missing", auth.ReasonClaims, without("jti")},
		{"org missing", auth.ReasonClaims, without("org")},
		{"grant_id missing", auth.ReasonClaims, without("grant_id")},
		{"gv negative", auth.ReasonClaims, claim("gv", -1)},
		{"gv a string", auth.ReasonClaims, claim("gv", "3")},
		{"gv a fraction", auth.ReasonClaims, claim("gv", 3.5)},
		{"scope missing", auth.ReasonClaims, without("scope")},
		{"scope unknown", auth.ReasonClaims, claim("scope", "payments:write admin")},
		{"scope an array", auth.ReasonClaims, claim("scope", []string{"payments:write"})},
		{"exp missing", auth.ReasonClaims, without("exp")},
		{"exp before iat", auth.ReasonClaims, claim("exp", now.Unix()-1)},
		{"exp a string", auth.ReasonClaims, claim("exp", "9999999999")},
		{"exp beyond int64", auth.ReasonClaims, claim("exp", json.Number("1e30"))},
		{"iat missing", auth.ReasonClaims, without("iat")},
		{"iat ahead", auth.ReasonNotYetValid, claim("iat", now.Unix()+11)},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, 10)
			d := token(t)
			row.change(d)
			for range 2 { // a refusal must not become a cached success
				got, err := s.verifier.Verify(d.String())
				refusedAs(t, err, auth.ErrTokenInvalid, row.reason)
				if got != nil {
					t.Errorf("refused, but returned %+v", got)
				}
			}
		})
	}
}

// Neither credential is the other, even with one key registered for both.
func TestAssertionIsNoTokenAndReverse(t *testing.T) {
	s := newService(t, 10)
	shared := signingKey(t, "a") // the server's key, also as the client's
	assertion, err := auth.SignAssertion(shared, clientID, issuer, "one", now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.verifier.Verify(assertion)
	refusedAs(t, err, auth.ErrTokenInvalid, auth.ReasonType)

	keys := parseKeys(t, changed(t, shared, map[string]any{"d": nil}))
	if _, err := verify(assertion, keys); err != nil {
		t.Fatal(err)
	}
	_, err = verify(s.mint(t, "tok_1"), keys)
	refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonType)
}

func TestTokenExpires(t *testing.T) {
	s := newService(t, 10)
	end := now.Truncate(time.Second).Add(auth.TokenLifetime)
	cached, fresh := s.mint(t, "tok_1"), s.mint(t, "tok_2")
	s.now = end.Add(-time.Nanosecond)
	if _, err := s.verifier.Verify(cached); err != nil {
		t.Fatal(err)
	}
	s.now = end
	for _, text := range []string{cached, fresh, cached} {
		_, err := s.verifier.Verify(text)
		refusedAs(t, err, auth.ErrTokenExpired, auth.ReasonExpired)
	}
	// Only a genuine token is told that it has expired.
	forged := token(t)
	forged.key = signerOf(t, signingKey(t, "stranger"))
	_, err := s.verifier.Verify(forged.String())
	refusedAs(t, err, auth.ErrTokenInvalid, auth.ReasonSignature)
}

func TestKeyRemovedWhileCached(t *testing.T) {
	s := newService(t, 10)
	old := s.mint(t, "tok_1")
	if _, err := s.verifier.Verify(old); err != nil {
		t.Fatal(err)
	}
	s.keys.Replace(signingKeys(t, "b", "a")) // b signs now, a is still published
	if _, err := s.verifier.Verify(old); err != nil {
		t.Fatal(err)
	}
	newer := s.mint(t, "tok_2")
	got, err := s.verifier.Verify(newer)
	if err != nil {
		t.Fatal(err)
	}
	if want := member(t, signingKey(t, "b"), "kid"); got.KeyID != want {
		t.Errorf("signed by %s, want %s", got.KeyID, want)
	}
	s.keys.Replace(signingKeys(t, "b"))
	for range 2 {
		_, err = s.verifier.Verify(old)
		refusedAs(t, err, auth.ErrTokenInvalid, auth.ReasonKey)
	}
	if _, err := s.verifier.Verify(newer); err != nil {
		t.Error(err)
	}
	if strings.Contains(string(s.keys.JWKS()), member(t, signingKey(t, "a"), "kid")) {
		t.Error("the removed key is still published")
	}
}

// A token that is remembered comes back as the same pointer; one that was
// pushed out does not.
func TestCacheIsBoundedAndKeepsOnlySuccesses(t *testing.T) {
	s := newService(t, 2)
	texts := []string{s.mint(t, "1"), s.mint(t, "2"), s.mint(t, "3")}
	verify := func(i int) *auth.Token {
		t.Helper()
		token, err := s.verifier.Verify(texts[i])
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first, second := verify(0), verify(1)
	for i := range 100 {
		forged := token(t)
		forged.claims["jti"] = strings.Repeat("x", i+1)
		forged.key = signerOf(t, signingKey(t, "stranger"))
		if _, err := s.verifier.Verify(forged.String()); err == nil {
			t.Fatal("forged token accepted")
		}
	}
	if verify(0) != first || verify(1) != second {
		t.Error("forged tokens pushed genuine ones out, or nothing is cached")
	}
	verify(2)
	if verify(0) == first {
		t.Error("three tokens in a cache of two")
	}
	if _, err := auth.NewVerifier(s.keys, issuer, 0, time.Now); err == nil {
		t.Error("a verifier with an unbounded cache")
	}
}

func TestVerifierIsSafeForConcurrentUse(t *testing.T) {
	s := newService(t, 3)
	texts := make([]string, 5)
	for i := range texts {
		texts[i] = s.mint(t, string(rune('a'+i)))
	}
	one, two := signingKeys(t, "a", "b"), signingKeys(t, "b", "a")
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 50 {
				got, err := s.verifier.Verify(texts[(i+worker)%len(texts)])
				if err != nil || got.ID != string(rune('a'+(i+worker)%len(texts))) {
					t.Errorf("%+v, %v", got, err)
					return
				}
				if worker == 0 {
					s.keys.Replace([]*auth.Keys{one, two}[i%2])
				}
			}
		})
	}
	group.Wait()
}

func TestMintEndsWithItsGrant(t *testing.T) {
	s := newService(t, 10)
	for lifetime, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: auth.TokenLifetime} {
		ending := grant
		ending.Expires = now.Add(lifetime)
		text, err := s.issuer.Mint(now, ending)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.verifier.Verify(text)
		if err != nil || !got.Expires.Equal(now.Add(want).Truncate(time.Second)) {
			t.Errorf("a grant that ends in %s: token until %s, %v", lifetime, got.Expires, err)
		}
	}
}

// A verifier that lacks a part is none.
func TestVerifierNeedsItsParts(t *testing.T) {
	keys, clock := signingKeys(t, "a"), func() time.Time { return now }
	for name, make := range map[string]func() (*auth.Verifier, error){
		"keys":   func() (*auth.Verifier, error) { return auth.NewVerifier(nil, issuer, 1, clock) },
		"issuer": func() (*auth.Verifier, error) { return auth.NewVerifier(keys, "", 1, clock) },
		"clock":  func() (*auth.Verifier, error) { return auth.NewVerifier(keys, issuer, 1, nil) },
		"cache":  func() (*auth.Verifier, error) { return auth.NewVerifier(keys, issuer, 0, clock) },
	} {
		if v, err := make(); err == nil || v != nil {
			t.Errorf("without %s: %v, %v", name, v, err)
		}
	}
}
