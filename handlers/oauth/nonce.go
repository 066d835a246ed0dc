package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"tollgate/handlers/auth"
)

const nonceUse = "dpop nonce"

// Nonce is one that a proof may have from now on (RFC 9449 §8): the second, and a MAC of
// it, so that every instance knows it without asking anybody.
func (e *Endpoints) Nonce() string {
	second := binary.BigEndian.AppendUint64(nil, uint64(e.Wall().Unix()))
	return base64.RawURLEncoding.EncodeToString(append(second, e.Vault.MAC(nonceUse, string(second))...))
}

// checkNonce says whether a nonce is one of ours that is still good, and whether half of
// its time is over.
func (e *Endpoints) checkNonce(text string) (good, old bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != 8+sha256.Size || !e.Vault.Knows(nonceUse, string(raw[:8]), raw[8:]) {
		return false, false
	}
	age := e.Wall().Sub(time.Unix(int64(binary.BigEndian.Uint64(raw)), 0))
	return age >= -skew && age <= auth.ProofLifetime, age > auth.ProofLifetime/2
}

// skew is by how much the clocks of two instances may be apart.
const skew = 10 * time.Second
