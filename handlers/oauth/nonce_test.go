package oauth

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"testing"
	"time"

	"tollgate/handlers/auth"
	"tollgate/handlers/secret"
)

// A nonce is good from ten seconds before it was made, by a clock that is behind, until a
// minute after, and is old after half of it.
func TestNonceAges(t *testing.T) {
	vault, err := secret.NewVault(bytes.Repeat([]byte("k"), secret.Size))
	if err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	now := made
	e := &Endpoints{Vault: vault, Wall: func() time.Time { return now }}
	nonce := e.Nonce()
	for _, c := range []struct {
		after     time.Duration
		good, old bool
	}{
		{-skew - 1, false, false},
		{-skew, true, false},
		{0, true, false},
		{auth.ProofLifetime / 2, true, false},
		{auth.ProofLifetime/2 + 1, true, true},
		{auth.ProofLifetime, true, true},
		{auth.ProofLifetime + 1, false, true},
	} {
		now = made.Add(c.after)
		if good, old := e.checkNonce(nonce); good != c.good || (good && old != c.old) {
			t.Errorf("after %s: good %t, old %t; want %t, %t", c.after, good, old, c.good, c.old)
		}
	}
	now = made
	second := binary.BigEndian.AppendUint64(nil, uint64(made.Unix()))
	of := func(second, mac []byte) string {
		return base64.RawURLEncoding.EncodeToString(append(bytes.Clone(second), mac...))
	}
	for name, text := range map[string]string{
		"empty": "", "no MAC": of(second, nil), "half a second": of(second[:4], nil), "half a MAC": of(second, vault.MAC(nonceUse, string(second))[:16]),
		"of another use": of(second, vault.MAC("other", string(second))), "of another second": of(second, vault.MAC(nonceUse, "12345678")),
		"padded": nonce + "=", "not base64": "!" + nonce[1:],
	} {
		if good, _ := e.checkNonce(text); good {
			t.Errorf("%s is good", name)
		}
	}
}
