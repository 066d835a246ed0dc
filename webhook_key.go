package tollgate

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Forms of Standard Webhooks' keys: a shared secret and a public key.
const (
	SecretPrefix    = "whsec_"
	PublicKeyPrefix = "whpk_"
)

// WebhookKey is a signing key with its secret.
type WebhookKey struct {
	Version int
	Scheme  SignatureScheme // v1 or v1a
	Secret  []byte          // 32 random bytes; of v1a the seed of the private key
}

// NewWebhookKey makes a key from 32 bytes of entropy.
func NewWebhookKey(version int, scheme SignatureScheme, entropy io.Reader) (WebhookKey, error) {
	secret := make([]byte, 32)
	if _, err := io.ReadFull(entropy, secret); err != nil {
		return WebhookKey{}, fmt.Errorf("webhook key: %w", err)
	}
	return WebhookKey{version, scheme, secret}, nil
}

// Text is the secret as its owner keeps it: whsec_ and padded standard base64.
// The private half of a v1a key is never shown; its text is the public half,
// whpk_….
func (k WebhookKey) Text() string {
	if k.Scheme == SignatureV1a {
		public, _ := ed25519.NewKeyFromSeed(k.Secret).Public().(ed25519.PublicKey)
		return PublicKeyPrefix + base64.StdEncoding.EncodeToString(public)
	}
	return SecretPrefix + base64.StdEncoding.EncodeToString(k.Secret)
}

// SealedKey is a signing key's secret, encrypted for its place.
type SealedKey struct {
	Version int             `json:"version"`
	Scheme  SignatureScheme `json:"scheme"`
	Secret  []byte          `json:"secret"`
}

// SigningKeyPlace is what the secret of an endpoint's key is sealed for.
func SigningKeyPlace(webhook string, version int, scheme SignatureScheme) string {
	return webhook + "/" + strconv.Itoa(version) + "/" + string(scheme)
}

// WebhookKeys makes the signing keys of endpoints. Seal encrypts a secret for its place
// (SigningKeyPlace).
type WebhookKeys struct {
	Seal    func(place string, secret []byte) ([]byte, error)
	Entropy io.Reader
}

// Make gives an endpoint a new version of its keys, one for each scheme that it
// has chosen. The secret that its owner must be shown is returned; it is empty
// when the only one is v1a, whose public half is in the endpoint.
func (m WebhookKeys) Make(w *StoredWebhook, now Instant) (secret string, err error) {
	return m.add(w, w.SignatureScheme.Schemes(), now)
}

func (m WebhookKeys) add(w *StoredWebhook, schemes []SignatureScheme, now Instant) (secret string, err error) {
	version := newestKey(w.SigningKeys) + 1
	for _, scheme := range schemes {
		key, err := NewWebhookKey(version, scheme, m.Entropy)
		if err != nil {
			return "", err
		}
		shown := SigningKey{Version: version, Scheme: scheme, CreatedAt: now}
		text := key.Text()
		if scheme == SignatureV1a {
			shown.PublicKey = &text
		} else {
			secret = text
		}
		sealed, err := m.Seal(SigningKeyPlace(w.ID, version, scheme), key.Secret)
		if err != nil {
			return "", err
		}
		w.SigningKeys = append(w.SigningKeys, shown)
		w.Sealed = append(w.Sealed, SealedKey{Version: version, Scheme: scheme, Secret: sealed})
	}
	return secret, nil
}

// rotate makes a new version for every scheme of the endpoint. The others sign
// on for overlap, or as long as they would have anyway, so that a receiver can
// change over (interface §6).
func (m WebhookKeys) rotate(w *StoredWebhook, overlap time.Duration, now Instant) (secret string, err error) {
	end := now.Add(overlap)
	for i := range w.SigningKeys {
		if k := &w.SigningKeys[i]; k.ExpiresAt == 0 || k.ExpiresAt > end {
			k.ExpiresAt = end
		}
	}
	if secret, err = m.Make(w, now); err != nil {
		return "", err
	}
	w.trimKeys(now)
	return secret, nil
}

// match follows a change of the signature scheme: keys of a scheme that is no
// longer chosen end at once, and one is made for a scheme without.
func (m WebhookKeys) match(w *StoredWebhook, now Instant) (secret string, err error) {
	missing := slices.Clone(w.SignatureScheme.Schemes())
	for i := range w.SigningKeys {
		k := &w.SigningKeys[i]
		switch {
		case !k.Live(now):
		case slices.Contains(w.SignatureScheme.Schemes(), k.Scheme):
			missing = slices.DeleteFunc(missing, func(scheme SignatureScheme) bool { return scheme == k.Scheme })
		default:
			k.ExpiresAt = now
		}
	}
	secret, err = m.add(w, missing, now)
	w.trimKeys(now)
	return secret, err
}

// trimKeys forgets the oldest of too many versions that live, and keys that
// sign nothing any more. The newest version is kept all the same, so that its
// number is never given to another key.
func (w *StoredWebhook) trimKeys(now Instant) {
	var live []int
	for _, k := range w.SigningKeys {
		if k.Live(now) && !slices.Contains(live, k.Version) {
			live = append(live, k.Version)
		}
	}
	slices.Sort(live)
	extra := live[:max(0, len(live)-MaxSigningKeys)]
	last := newestKey(w.SigningKeys)
	w.SigningKeys = slices.DeleteFunc(w.SigningKeys, func(k SigningKey) bool {
		return slices.Contains(extra, k.Version) || (!k.Live(now) && k.Version < last)
	})
	w.Sealed = slices.DeleteFunc(w.Sealed, func(sealed SealedKey) bool {
		return !slices.ContainsFunc(w.SigningKeys, func(k SigningKey) bool {
			return k.Version == sealed.Version && k.Scheme == sealed.Scheme
		})
	})
}

func newestKey(keys []SigningKey) (version int) {
	for _, k := range keys {
		version = max(version, k.Version)
	}
	return version
}
