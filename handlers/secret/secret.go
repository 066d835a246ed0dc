// Package secret encrypts what must not be read, or changed, by those who see it: secrets
// in Redis, and cursors. Everything is derived from the service's secret key, and from the
// one before it while it is being rotated.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// OneAtATime lets one goroutine at a time read from a source of entropy.
func OneAtATime(source io.Reader) io.Reader { return &turns{source: source} }

type turns struct {
	lock   sync.Mutex
	source io.Reader
}

func (r *turns) Read(p []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.source.Read(p)
}

// Size is that of a secret key, in bytes.
const Size = 32

// mark is what a seal is made of.
const mark = "tollgate"

var errKey = errors.New("secret-key: the secrets in this Redis are encrypted under another key")

// Vault encrypts with one secret key and decrypts with all that it has. Which one
// encrypts is said by the seal in Redis, for all processes: so that none writes what
// another cannot read. It is safe for concurrent use.
type Vault struct {
	keys    []key
	sealing atomic.Int32
}

type key struct {
	id             string
	stored, cursor cipher.AEAD
	mac            []byte
}

// NewVault takes the secret key, 32 bytes, and those before it that still decrypt. Until
// Use it encrypts with the first.
func NewVault(secrets ...[]byte) (*Vault, error) {
	v := new(Vault)
	for _, secret := range secrets {
		if len(secret) != Size {
			return nil, fmt.Errorf("the secret key has %d bytes, not %d", len(secret), Size)
		}
		stored, err := cipher.NewGCM(derive(secret, "webhooks"))
		if err != nil {
			return nil, err
		}
		// Nonces are random, 96 bits of them, which is good for 2^32 cursors under one
		// key (NIST SP 800-38D §8.3).
		cursor, err := cipher.NewGCMWithRandomNonce(derive(secret, "cursor v1"))
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, key{ID(secret), stored, cursor, bytesOf(secret, "mac v1")})
	}
	if len(v.keys) == 0 {
		return nil, errors.New("there is no secret key")
	}
	return v, nil
}

// derive keeps the keys of different uses apart (HKDF, RFC 5869).
func derive(secret []byte, use string) cipher.Block {
	block, err := aes.NewCipher(bytesOf(secret, use))
	if err != nil {
		panic(err) // it has 32 bytes
	}
	return block
}

func bytesOf(secret []byte, use string) []byte {
	b, err := hkdf.Key(sha256.New, secret, nil, "tollgate "+use, 32)
	if err != nil {
		panic(err) // it is not too long
	}
	return b
}

// ID names a secret key, and tells nothing of it: 16 hexadecimal digits.
func ID(secret []byte) string { return hex.EncodeToString(bytesOf(secret, "id")[:8]) }

// Seal encrypts for one place: what it is and whose, such as "we_…/1". The same text
// cannot be opened at another.
func (v *Vault) Seal(entropy io.Reader, place string, text []byte) ([]byte, error) {
	return v.sealer().seal(entropy, place, text)
}

func (k key) seal(entropy io.Reader, place string, text []byte) ([]byte, error) {
	nonce := make([]byte, k.stored.NonceSize(), k.stored.NonceSize()+len(text)+k.stored.Overhead())
	if _, err := io.ReadFull(entropy, nonce); err != nil {
		return nil, fmt.Errorf("vault: nonce: %w", err)
	}
	return k.stored.Seal(nonce, nonce, text, []byte(place)), nil
}

func (k key) open(place string, sealed []byte) ([]byte, error) {
	n := k.stored.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("vault: too short")
	}
	return k.stored.Open(nil, sealed[:n], sealed[n:], []byte(place))
}

// Open decrypts what Seal made for the same place.
func (v *Vault) Open(place string, sealed []byte) (text []byte, err error) {
	for _, k := range v.keys {
		if text, err = k.open(place, sealed); err == nil {
			return text, nil
		}
	}
	return nil, err
}

// ErrUnreadable: no key opens what was to be encrypted again.
var ErrUnreadable = errors.New("no secret key opens it")

// Again encrypts with the key that encrypts now what another one did: nil where it was
// that one already.
func (v *Vault) Again(entropy io.Reader, place string, sealed []byte) ([]byte, error) {
	now := v.sealer()
	if _, err := now.open(place, sealed); err == nil {
		return nil, nil
	}
	text, err := v.Open(place, sealed)
	if err != nil {
		return nil, ErrUnreadable
	}
	return now.seal(entropy, place, text)
}

// SealCursor encrypts a cursor that is bound to something: what it is for.
func (v *Vault) SealCursor(text, bound []byte) []byte {
	return v.sealer().cursor.Seal(nil, nil, text, bound)
}

// OpenCursor decrypts what SealCursor made for the same, with any key.
func (v *Vault) OpenCursor(sealed, bound []byte) (text []byte, err error) {
	for _, k := range v.keys {
		if text, err = k.cursor.Open(nil, nil, sealed, bound); err == nil {
			return text, nil
		}
	}
	return nil, err
}

// MAC is what others with the key know a text by, for one use: HMAC-SHA256.
func (v *Vault) MAC(use, text string) []byte { return v.sealer().sum(use, text) }

// Knows reports whether a MAC is that of a text for a use, with any key.
func (v *Vault) Knows(use, text string, mac []byte) bool {
	return slices.ContainsFunc(v.keys, func(k key) bool { return hmac.Equal(k.sum(use, text), mac) })
}

func (k key) sum(use, text string) []byte {
	h := hmac.New(sha256.New, k.mac)
	_, _ = io.WriteString(h, use+"\n"+text)
	return h.Sum(nil)
}

// Mark is a seal of the newest secret key, which is kept in Redis.
func (v *Vault) Mark(entropy io.Reader) ([]byte, error) { return v.keys[0].seal(entropy, mark, nil) }

// Use encrypts from now on with the key that a seal is of. Its error says that there is
// none, and that the Redis belongs to others.
func (v *Vault) Use(seal []byte) error {
	i := slices.IndexFunc(v.keys, func(k key) bool {
		_, err := k.open(mark, seal)
		return err == nil
	})
	if i < 0 {
		return errKey
	}
	v.sealing.Store(int32(i))
	return nil
}

func (v *Vault) sealer() key { return v.keys[v.sealing.Load()] }

// Sealing is the id of the key that encrypts, and IDs those of all, the newest first.
func (v *Vault) Sealing() string { return v.sealer().id }

// IDs are those of all keys.
func (v *Vault) IDs() []string {
	ids := make([]string, len(v.keys))
	for i, k := range v.keys {
		ids[i] = k.id
	}
	return ids
}
