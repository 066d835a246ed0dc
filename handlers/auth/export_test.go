package auth

import "github.com/go-jose/go-jose/v4"

// counting is a key that notes its verifications, and finds no signature good.
type counting struct{ note func(alg string) }

// VerifyPayload is jose.OpaqueVerifier.
func (c counting) VerifyPayload(_, _ []byte, alg jose.SignatureAlgorithm) error {
	c.note(string(alg))
	return jose.ErrCryptoFailure
}

// CountVerifications has these keys, and those of nobody, note each
// verification until undo is called.
func CountVerifications(keys ClientKeys, note func(alg string)) (counted ClientKeys, undo func()) {
	for _, k := range keys.keys {
		k.verifier = counting{note}
		counted.keys = append(counted.keys, k)
	}
	before := map[jose.SignatureAlgorithm]clientKey{}
	for alg, k := range nobody() {
		before[alg] = k
		k.verifier = counting{note}
		nobody()[alg] = k
	}
	return counted, func() {
		for alg, k := range before {
			nobody()[alg] = k
		}
	}
}

// AllowRSA has the library read RSA keys of that many bits until undo is called.
func AllowRSA(bits int) (undo func()) {
	before := jose.MaxRSAModulusBits
	jose.MaxRSAModulusBits = bits
	return func() { jose.MaxRSAModulusBits = before }
}
