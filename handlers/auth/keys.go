package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// Keys are the server's own keys (RFC 7517 §5): those that sign, each from a moment
// of its own, and others that are published beside them. All verify. They can be
// replaced while in use.
type Keys struct{ current atomic.Pointer[keySet] }

type keySet struct {
	signers []signer // by from
	public  map[string]*ecdsa.PublicKey
	jwks    []byte
}

type signer struct {
	jose.Signer
	from time.Time
}

// SigningKey is a private P-256 JWK, such as GenerateSigningKey makes, and from when it
// signs.
type SigningKey struct {
	JWK  []byte
	From time.Time
}

// ParseSigningKeys reads private P-256 JWKs, such as GenerateSigningKey makes; the
// first signs. A key's id is its RFC 7638 thumbprint. Errors name the position of a
// key and never its content: not a private P-256 key, d that does not belong to x and
// y, alg other than ES256, use other than sig, a kid that is not the thumbprint, the
// same key twice, no key at all.
func ParseSigningKeys(jwks ...[]byte) (*Keys, error) {
	if len(jwks) == 0 {
		return nil, errors.New("signing keys: none given")
	}
	published := make([][]byte, len(jwks))
	for i, raw := range jwks {
		var err error
		if published[i], _, err = PublicSigningKey(raw); err != nil {
			return nil, fmt.Errorf("signing key %d: %w", i+1, err)
		}
		if slices.ContainsFunc(published[:i], func(before []byte) bool { return bytes.Equal(before, published[i]) }) {
			return nil, fmt.Errorf("signing key %d: the same key as one before", i+1)
		}
	}
	return NewKeys([]SigningKey{{JWK: jwks[0]}}, published...)
}

// NewKeys makes keys of private ones, of which at least one is needed, and public JWKs
// that are published in this order; the public halves of the private ones follow, where
// they are not among them. At any time the key signs whose moment has come last; before
// the first, the first.
func NewKeys(sign []SigningKey, published ...[]byte) (*Keys, error) {
	set := &keySet{public: make(map[string]*ecdsa.PublicKey)}
	var list jose.JSONWebKeySet
	publish := func(key jose.JSONWebKey) {
		if _, there := set.public[key.KeyID]; !there {
			set.public[key.KeyID] = key.Key.(*ecdsa.PublicKey)
			list.Keys = append(list.Keys, key)
		}
	}
	for i, raw := range published {
		key, err := parsePublicSigningKey(raw)
		if err != nil {
			return nil, fmt.Errorf("published key %d: %w", i+1, err)
		}
		publish(key)
	}
	for i, s := range sign {
		key, err := parseSigningKey(s.JWK)
		if err != nil {
			return nil, fmt.Errorf("signing key %d: %w", i+1, err)
		}
		signs, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, new(jose.SignerOptions).WithType(tokenType))
		if err != nil {
			return nil, fmt.Errorf("signing key %d: %w", i+1, err)
		}
		set.signers = append(set.signers, signer{signs, s.From})
		publish(key.Public())
	}
	if len(set.signers) == 0 {
		return nil, errors.New("signing keys: none given")
	}
	sort.SliceStable(set.signers, func(i, j int) bool { return set.signers[i].from.Before(set.signers[j].from) })
	var err error
	if set.jwks, err = json.Marshal(list); err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	keys := new(Keys)
	keys.current.Store(set)
	return keys, nil
}

// signer is the one that signs at a time.
func (k *Keys) signer(now time.Time) jose.Signer {
	signers := k.current.Load().signers
	for _, s := range slices.Backward(signers) {
		if !s.from.After(now) {
			return s
		}
	}
	return signers[0]
}

// PublicSigningKey is the public half of a signing key as it is published, and its id.
func PublicSigningKey(jwk []byte) (public []byte, kid string, err error) {
	key, err := parseSigningKey(jwk)
	if err != nil {
		return nil, "", err
	}
	public, err = json.Marshal(key.Public())
	return public, key.KeyID, err
}

func parsePublicSigningKey(raw []byte) (key jose.JSONWebKey, err error) {
	if key, err = parseJWK(raw); err != nil {
		return key, err
	}
	public, ok := key.Key.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return key, errors.New("not a public P-256 JWK")
	}
	thumbprint, err := keyThumbprint(public)
	return jose.JSONWebKey{Key: public, KeyID: thumbprint, Algorithm: string(jose.ES256), Use: "sig"}, err
}

func parseSigningKey(raw []byte) (key jose.JSONWebKey, err error) {
	if key, err = parseJWK(raw); err != nil {
		return key, err
	}
	private, ok := key.Key.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return key, errors.New("not a private P-256 JWK")
	}
	if key.Algorithm != "" && key.Algorithm != string(jose.ES256) {
		return key, errors.New("alg is not ES256")
	}
	thumbprint, err := keyThumbprint(private)
	if err != nil {
		return key, err
	}
	if key.KeyID != "" && key.KeyID != thumbprint {
		return key, errors.New("kid is not the RFC 7638 thumbprint")
	}
	return jose.JSONWebKey{Key: private, KeyID: thumbprint, Algorithm: string(jose.ES256), Use: "sig"}, nil
}

// JWKS is the public JWK set as JSON, the same bytes until the keys are
// replaced. The slice is the caller's.
func (k *Keys) JWKS() []byte { return bytes.Clone(k.current.Load().jwks) }

// Replace puts the keys of other in the place of these, for all who hold k:
// tokens signed by keys that are gone are refused from then on, cached or not.
func (k *Keys) Replace(other *Keys) { k.current.Store(other.current.Load()) }

func (k *Keys) published(kid string) (*ecdsa.PublicKey, bool) {
	key, ok := k.current.Load().public[kid]
	return key, ok
}

// maxJWK is above a private RSA key of 4096 bits, the largest of interest.
const maxJWK = 8 << 10

// parseJWK reads one JWK of any supported type, private or public. go-jose
// checks that points lie on their curve and that p·q = n, but not that an
// elliptic d belongs to its x and y: such a key would sign what nobody could
// verify.
func parseJWK(raw []byte) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	if len(raw) > maxJWK {
		return key, errors.New("JWK longer than 8 KiB")
	}
	if err := json.Unmarshal(raw, &key); err != nil {
		// The cause may quote the text, which may be a private key.
		return key, errors.New("not a JWK of a supported type")
	}
	if key.Use != "" && key.Use != "sig" {
		return key, errors.New("use is not sig")
	}
	if private, ok := key.Key.(*ecdsa.PrivateKey); ok {
		d, _ := private.Bytes() // nothing, of what is no key of its curve
		derived, err := ecdsa.ParseRawPrivateKey(private.Curve, d)
		if err != nil || !derived.PublicKey.Equal(&private.PublicKey) {
			return key, errors.New("d does not belong to x and y")
		}
	}
	return key, nil
}

// keyThumbprint is the RFC 7638 thumbprint of a key, SHA-256 in base64url.
func keyThumbprint(key any) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("thumbprint: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
