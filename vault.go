package tollgate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// Vault encrypts what must not lie in Redis in the clear, such as signing
// secrets: AES-256-GCM under a key derived from the service's secret key.
type Vault struct{ seal cipher.AEAD }

// NewVault derives the key from 32 bytes of secret. Purpose keeps the keys of
// different uses apart (HKDF, RFC 5869).
func NewVault(secret []byte, purpose string) (*Vault, error) {
	if len(secret) != 32 {
		return nil, fmt.Errorf("vault: the secret has %d bytes, not 32", len(secret))
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "tollgate "+purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	seal, err := cipher.NewGCM(block)
	return &Vault{seal}, err
}

// Seal encrypts for one place: what it is and whose, such as "we_…/1". The same
// text cannot be opened at another.
func (v *Vault) Seal(entropy io.Reader, place string, text []byte) ([]byte, error) {
	nonce := make([]byte, v.seal.NonceSize(), v.seal.NonceSize()+len(text)+v.seal.Overhead())
	if _, err := io.ReadFull(entropy, nonce); err != nil {
		return nil, fmt.Errorf("vault: nonce: %w", err)
	}
	return v.seal.Seal(nonce, nonce, text, []byte(place)), nil
}

// Open decrypts what Seal made for the same place.
func (v *Vault) Open(place string, sealed []byte) ([]byte, error) {
	n := v.seal.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("vault: too short")
	}
	return v.seal.Open(nil, sealed[:n], sealed[n:], []byte(place))
}
