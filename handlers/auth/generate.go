package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// GenerateSigningKey makes a private P-256 JWK for ParseSigningKeys from
// entropy, which must be a cryptographic source. It is that of GenerateClientKey, without
// the other kinds of keys, which a program at the edge would carry along.
func GenerateSigningKey(entropy io.Reader) ([]byte, error) {
	private, err := generateP256(entropy)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	key := jose.JSONWebKey{Key: private, Algorithm: string(jose.ES256), Use: "sig"}
	if key.KeyID, err = keyThumbprint(private.Public()); err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return json.Marshal(key)
}

// GenerateClientKey makes a client's key as two JWKs with kid (the RFC 7638
// thumbprint), alg and use: the private one stays with the client and signs
// assertions, the public one is registered. alg is ES256 (also for ""),
// Ed25519, EdDSA or PS256 (3072 bits). The same entropy gives the same key,
// except for PS256: crypto/rsa draws from the system's generator alone.
func GenerateClientKey(entropy io.Reader, alg string) (private, public []byte, err error) {
	if alg == "" {
		alg = string(jose.ES256)
	}
	key := jose.JSONWebKey{Algorithm: alg, Use: "sig"}
	switch jose.SignatureAlgorithm(alg) {
	case jose.ES256:
		key.Key, err = generateP256(entropy)
	case jose.EdDSA, algEd25519:
		seed := make([]byte, ed25519.SeedSize)
		_, err = io.ReadFull(entropy, seed)
		key.Key = ed25519.NewKeyFromSeed(seed)
	case jose.PS256:
		key.Key, err = rsa.GenerateKey(entropy, 3072)
	default:
		return nil, nil, fmt.Errorf("client key: alg is not one of %v", Algorithms())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("client key: %w", err)
	}
	if key.KeyID, err = keyThumbprint(key.Public().Key); err != nil {
		return nil, nil, fmt.Errorf("client key: %w", err)
	}
	if private, err = json.Marshal(key); err != nil {
		return nil, nil, fmt.Errorf("client key: %w", err)
	}
	if public, err = json.Marshal(key.Public()); err != nil {
		return nil, nil, fmt.Errorf("client key: %w", err)
	}
	return private, public, nil
}

// generateP256 takes 32 bytes as the private scalar and new ones while that is
// zero or not below the order (about once in 2³²): ecdsa.GenerateKey ignores
// the reader that it is given.
func generateP256(entropy io.Reader) (*ecdsa.PrivateKey, error) {
	var scalar [32]byte
	for range 8 {
		if _, err := io.ReadFull(entropy, scalar[:]); err != nil {
			return nil, fmt.Errorf("read entropy: %w", err)
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar[:]); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("entropy source is broken: eight scalars out of range")
}
