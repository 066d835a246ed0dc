package oauth

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"tollgate/handlers/auth"
)

// TestRemovedKeyIsGone: keys that were parsed before verify nothing for a client that has
// them no longer.
func TestRemovedKeyIsGone(t *testing.T) {
	const client, issuer = "cli_1", "https://pay.example"
	var private [][]byte
	var stored []string
	for range 2 {
		key, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
		if err != nil {
			t.Fatal(err)
		}
		private, stored = append(private, key), append(stored, string(public))
	}
	now := time.Now()
	var parsed parsedKeys
	for round := range 3 {
		for kept := 2; kept > 0; kept-- {
			keys, err := parsed.of(stored[:kept])
			if err != nil {
				t.Fatal(err)
			}
			for i := range private {
				assertion, err := auth.SignAssertion(private[i], client, issuer, "jti", now)
				if err != nil {
					t.Fatal(err)
				}
				_, err = auth.VerifyAssertion(assertion, keys, client, issuer, now)
				if i < kept && err != nil || i >= kept && !errors.Is(err, auth.ErrInvalidClient) {
					t.Errorf("round %d, %d keys: key %d: %v", round, kept, i, err)
				}
			}
		}
	}
	if _, err := parsed.of([]string{stored[0], stored[0]}); err == nil {
		t.Error("one key stands there twice")
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = parsed.of(stored) }); n > 1 {
		t.Errorf("%v allocations for keys that are known", n)
	}
}
