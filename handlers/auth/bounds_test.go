package auth_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

// maxCompact is how long a JWS may be.
const maxCompact = 8 << 10

// padded is a draft with a claim and a header parameter that make it n bytes long.
func (d *draft) padded(t testing.TB, n int) string {
	t.Helper()
	for inHeader := range 4 {
		d.header["h"], d.claims["pad"] = strings.Repeat("h", inHeader), ""
		d.claims["pad"] = strings.Repeat("x", max(0, (n-len(d.String()))*3/4-4))
		for range 8 {
			if text := d.String(); len(text) == n {
				return text
			}
			d.claims["pad"] = d.claims["pad"].(string) + "x"
		}
	}
	t.Fatalf("no padding makes %d bytes", n)
	return ""
}

// What is as long as it may be is taken, and one byte more is not.
func TestLongestJWS(t *testing.T) {
	es, key, s := newClient(t, "es256", "ES256"), newProver(t, "prover", "ES256"), newService(t, 10)
	for name, take := range map[string]func(n int) error{
		"assertion": func(n int) error {
			_, err := verify(es.assertion(t).padded(t, n), es.keys)
			return err
		},
		"access token": func(n int) error {
			_, err := s.verifier.Verify(token(t).padded(t, n))
			return err
		},
		"proof": func(n int) error {
			_, err := auth.VerifyProof(key.draft(t).padded(t, n), provenOf(), now)
			return err
		},
	} {
		if err := take(maxCompact); err != nil {
			t.Errorf("%s of 8 KiB: %v", name, err)
		}
		if err := take(maxCompact + 1); auth.ReasonOf(err) != auth.ReasonSize {
			t.Errorf("%s of a byte more: %v", name, err)
		}
	}
}

// No token is minted that a verifier would not read.
func TestLongestTokenMinted(t *testing.T) {
	s := newService(t, 10)
	long := grant
	longest := 0
	for n := 5000; ; n++ {
		long.ID = strings.Repeat("x", n)
		text, err := s.issuer.Mint(now, long)
		if err != nil {
			break
		}
		if _, err := s.verifier.Verify(text); err != nil {
			t.Fatalf("minted, and not read: %v", err)
		}
		longest = len(text)
	}
	if longest < maxCompact-1 { // base64 has no text of each length
		t.Errorf("the longest is of %d bytes", longest)
	}
}

// A JWK may be 8 KiB long.
func TestLongestJWK(t *testing.T) {
	jwk := signingKey(t, "a")
	padded := func(n int) []byte {
		return changed(t, jwk, map[string]any{"pad": strings.Repeat("x", n-len(changed(t, jwk, map[string]any{"pad": ""})))})
	}
	if _, err := auth.ParseSigningKeys(padded(8 << 10)); err != nil {
		t.Error(err)
	}
	if _, err := auth.ParseSigningKeys(padded(8<<10 + 1)); err == nil || !strings.Contains(err.Error(), "longer than 8 KiB") {
		t.Errorf("one byte more: %v", err)
	}
}

// The last moment that there is, is the last second of the year 9999.
func TestLastSecond(t *testing.T) {
	es := newClient(t, "es256", "ES256")
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	at := func(expires int64) error {
		d := es.assertion(t)
		d.claims["exp"] = expires
		_, err := auth.VerifyAssertion(d.String(), es.keys, clientID, issuer, last.Add(-time.Minute))
		return err
	}
	if err := at(last.Unix()); err != nil {
		t.Error(err)
	}
	if err := at(last.Unix() + 1); auth.ReasonOf(err) != auth.ReasonExpiry {
		t.Errorf("a second later: %v", err)
	}
}

// The bound of RSA keys is not the library's, which others can move.
func TestLongestRSAKey(t *testing.T) {
	defer auth.AllowRSA(1 << 14)()
	for bits, good := range map[int]bool{2047: false, 2048: true, 4096: true, 4097: false, 8192: false} {
		if _, err := auth.ParseClientKeys([][]byte{rsaJWK(t, bits, 65537)}); (err == nil) != good {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}

// A client, a server or a method without a name is none that an absent claim could name.
func TestNamelessIsNobody(t *testing.T) {
	es, key := newClient(t, "es256", "ES256"), newProver(t, "prover", "ES256")
	for _, id := range []string{"", "a}b{", strings.Repeat("a", 65)} {
		d := es.assertion(t)
		d.claims["iss"], d.claims["sub"] = id, id
		_, err := auth.VerifyAssertion(d.String(), es.keys, id, issuer, now)
		refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonIssuer)
	}
	for _, audience := range []any{"", 1, nil, []string{""}, []int{}} {
		d := es.assertion(t)
		d.claims["aud"] = audience
		_, err := auth.VerifyAssertion(d.String(), es.keys, clientID, issuer, now, "")
		refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonAudience)
	}
	for _, target := range []any{"", "://", "https://me@pay.example/v1/payments", nil, 1} {
		d := key.draft(t)
		d.claims["htu"] = target
		of := provenOf()
		of.URLs = []string{"https://pay.example/v1/%zz"} // a path that no proof can be of
		_, err := auth.VerifyProof(d.String(), of, now)
		refusedAs(t, err, auth.ErrProof, auth.ReasonTarget)
	}
}

// What is refused for two reasons is refused for the first, in the order of the checks.
func TestFirstReason(t *testing.T) {
	es, ed := newClient(t, "es256", "ES256"), newProver(t, "ed", "Ed25519")
	d := es.assertion(t)
	d.header["kid"] = "unknown"
	delete(d.header, "alg")
	_, err := verify(d.String(), es.keys)
	refusedAs(t, err, auth.ErrInvalidClient, auth.ReasonKey)

	proof := ed.draft(t)
	delete(proof.header, "alg") // an Ed25519 key has two
	_, err = auth.VerifyProof(proof.String(), provenOf(), now)
	refusedAs(t, err, auth.ErrProof, auth.ReasonAlgorithm)

	small := newProver(t, "prover", "ES256").draft(t)
	small.header["alg"] = "PS256"
	small.header["jwk"] = json.RawMessage(changed(t, rsaJWK(t, 1024, 65537), map[string]any{"alg": nil}))
	_, err = auth.VerifyProof(small.String(), provenOf(), now)
	refusedAs(t, err, auth.ErrProof, auth.ReasonAlgorithm)
}

// Only a refusal has a reason.
func TestReasonOfOthers(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), auth.ErrProof} {
		if reason := auth.ReasonOf(err); reason != "" {
			t.Errorf("%v: %s", err, reason)
		}
	}
}
