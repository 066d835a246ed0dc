package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// algEd25519 is the fully specified name of RFC 9864 for what EdDSA means with
// an Ed25519 key. go-jose does not know it.
const algEd25519 = jose.SignatureAlgorithm("Ed25519")

// Algorithms are the values of alg for which client keys can be registered, in
// the order of preference (RFC 8414 §2,
// token_endpoint_auth_signing_alg_values_supported).
func Algorithms() []string {
	return []string{string(jose.ES256), string(algEd25519), string(jose.EdDSA), string(jose.PS256)}
}

// ClientKeys are the public keys registered for one client. The zero value
// holds none and verifies nothing.
type ClientKeys struct{ keys []clientKey }

type clientKey struct {
	id       string
	alg      jose.SignatureAlgorithm
	verifier any // what go-jose verifies with
}

// ParseClientKeys reads the public JWKs of one client, at least one: P-256
// (alg ES256), Ed25519 (alg Ed25519 or EdDSA), RSA of 2048–4096 bits (alg
// PS256). A key verifies the one alg that is registered with it; only an
// Ed25519 key has to name it, the others have no choice. kid is 1–128 bytes,
// distinct, and the RFC 7638 thumbprint where the JWK has none. A private key
// is refused. Errors give the position of the key.
func ParseClientKeys(jwks [][]byte) (ClientKeys, error) {
	var all ClientKeys
	for i, raw := range jwks {
		key, err := parseClientKey(raw)
		if err != nil {
			return ClientKeys{}, fmt.Errorf("client key %d: %w", i+1, err)
		}
		if slices.ContainsFunc(all.keys, func(k clientKey) bool { return k.id == key.id }) {
			return ClientKeys{}, fmt.Errorf("client key %d: kid is that of one before", i+1)
		}
		all.keys = append(all.keys, key)
	}
	if len(all.keys) == 0 {
		return ClientKeys{}, errors.New("client keys: none given")
	}
	return all, nil
}

func parseClientKey(raw []byte) (clientKey, error) {
	jwk, err := parseJWK(raw)
	if err != nil {
		return clientKey{}, err
	}
	if !jwk.IsPublic() {
		return clientKey{}, errors.New("not a public key; a client keeps its private key to itself")
	}
	alg, err := algorithmOf(jwk)
	if err != nil {
		return clientKey{}, err
	}
	if jwk.KeyID, err = keyIDOf(jwk); err != nil {
		return clientKey{}, err
	}
	key := clientKey{jwk.KeyID, alg, jwk.Key}
	if alg == algEd25519 {
		key.verifier = ed25519Verifier(jwk.Key.(ed25519.PublicKey))
	}
	return key, nil
}

// RegisteredKey is a client's key as it is shown and stored: its kid, and the JSON of a
// public JWK that names kid and alg.
type RegisteredKey struct {
	ID  string
	JWK []byte
}

// RegisterKey reads a public JWK by the rules of ParseClientKeys.
func RegisterKey(raw []byte) (RegisteredKey, error) {
	key, err := parseClientKey(raw)
	if err != nil {
		return RegisteredKey{}, err
	}
	jwk := jose.JSONWebKey{Key: key.verifier, KeyID: key.id, Algorithm: string(key.alg), Use: "sig"}
	if v, ok := key.verifier.(ed25519Verifier); ok {
		jwk.Key = ed25519.PublicKey(v)
	}
	text, err := jwk.MarshalJSON()
	return RegisteredKey{key.id, text}, err
}

// find is the key that an assertion's header names. Without kid the client
// must have one key only; trying one after the other would let an attacker
// choose.
func (c ClientKeys) find(header object) (clientKey, bool) {
	if !header.has("kid") {
		if len(c.keys) != 1 {
			return clientKey{}, false
		}
		return c.keys[0], true
	}
	kid := header.text("kid")
	i := slices.IndexFunc(c.keys, func(k clientKey) bool { return k.id == kid })
	if i < 0 {
		return clientKey{}, false
	}
	return c.keys[i], true
}

// algorithmOf is the one algorithm of a client's key, public or private.
func algorithmOf(jwk jose.JSONWebKey) (jose.SignatureAlgorithm, error) {
	alg := jose.SignatureAlgorithm(jwk.Algorithm)
	var allowed []jose.SignatureAlgorithm
	switch key := jwk.Public().Key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return "", errors.New("curve is not P-256")
		}
		allowed = []jose.SignatureAlgorithm{jose.ES256}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 || bits > 4096 {
			return "", fmt.Errorf("RSA key of %d bits, not 2048 to 4096", bits)
		}
		if key.E < 65537 || key.E%2 == 0 { // FIPS 186-5 §5.1
			return "", errors.New("RSA exponent is even or below 65537")
		}
		allowed = []jose.SignatureAlgorithm{jose.PS256}
	case ed25519.PublicKey:
		allowed = []jose.SignatureAlgorithm{algEd25519, jose.EdDSA}
	default:
		return "", errors.New("kty is not EC, OKP or RSA")
	}
	if alg == "" && len(allowed) == 1 {
		return allowed[0], nil
	}
	if !slices.Contains(allowed, alg) {
		return "", fmt.Errorf("alg is not one of %v, which this type of key has", allowed)
	}
	return alg, nil
}

func keyIDOf(jwk jose.JSONWebKey) (string, error) {
	if jwk.KeyID == "" {
		return keyThumbprint(jwk.Public().Key)
	}
	if len(jwk.KeyID) > 128 {
		return "", errors.New("kid is longer than 128 bytes")
	}
	return jwk.KeyID, nil
}

// ed25519Verifier and ed25519Signer teach go-jose the name Ed25519.
type ed25519Verifier ed25519.PublicKey

// VerifyPayload is jose.OpaqueVerifier. compact.verify has compared the algorithm.
func (v ed25519Verifier) VerifyPayload(payload, signature []byte, _ jose.SignatureAlgorithm) error {
	if !ed25519.Verify(ed25519.PublicKey(v), payload, signature) {
		return jose.ErrCryptoFailure
	}
	return nil
}

type ed25519Signer struct {
	id  string
	key ed25519.PrivateKey
}

// Public is jose.OpaqueSigner.
func (s ed25519Signer) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: string(algEd25519), Use: "sig"}
}

// Algs is jose.OpaqueSigner.
func (s ed25519Signer) Algs() []jose.SignatureAlgorithm { return []jose.SignatureAlgorithm{algEd25519} }

// SignPayload is jose.OpaqueSigner.
func (s ed25519Signer) SignPayload(payload []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	return ed25519.Sign(s.key, payload), nil
}
