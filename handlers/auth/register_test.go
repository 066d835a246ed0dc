package auth_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"tollgate/handlers/auth"
)

// A key that is registered is read as the one that it was made of, whatever kind it is,
// and a private one is refused without a word of it.
func TestRegisterKey(t *testing.T) {
	for _, alg := range []string{"ES256", "Ed25519", "EdDSA", "PS256"} {
		private, public, err := auth.GenerateClientKey(rand.Reader, alg)
		if err != nil {
			t.Fatal(err)
		}
		key, err := auth.RegisterKey(public)
		if err != nil || key.ID == "" || !strings.Contains(string(key.JWK), `"alg":"`+alg+`"`) || !strings.Contains(string(key.JWK), `"kid":"`+key.ID+`"`) {
			t.Errorf("%s: %+v %v", alg, key, err)
		}
		again, err := auth.RegisterKey(key.JWK)
		if err != nil || again.ID != key.ID || string(again.JWK) != string(key.JWK) {
			t.Errorf("%s: again %s %v", alg, again.JWK, err)
		}
		if _, err := auth.ParseClientKeys([][]byte{key.JWK}); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		_, err = auth.RegisterKey(private)
		if err == nil || !strings.Contains(err.Error(), "not a public key") {
			t.Fatalf("%s: a private key: %v", alg, err)
		}
		for part := range strings.SplitSeq(string(private), `"`) {
			if len(part) > 20 && strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v repeats the key", alg, err)
			}
		}
	}
}
