package tollgate

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Forms of Standard Webhooks' keys: a shared secret and a public key.
const (
	secretPrefix = "whsec_"
	publicPrefix = "whpk_"
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
		return publicPrefix + base64.StdEncoding.EncodeToString(public)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(k.Secret)
}

// Sign is one signature of Standard Webhooks over "id.timestamp.body":
// "v1,<base64>" or "v1a,<base64>". timestamp is Unix seconds.
func (k WebhookKey) Sign(id string, timestamp int64, body []byte) string {
	content := signedContent(id, strconv.FormatInt(timestamp, 10), body)
	if k.Scheme == SignatureV1a {
		sum := ed25519.Sign(ed25519.NewKeyFromSeed(k.Secret), content)
		return "v1a," + base64.StdEncoding.EncodeToString(sum)
	}
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write(content)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Signatures is the webhook-signature header: one signature per key.
func Signatures(keys []WebhookKey, id string, timestamp int64, body []byte) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.Sign(id, timestamp, body)
	}
	return strings.Join(all, " ")
}

// VerifySignature checks a webhook-signature header with the text of a secret
// (whsec_…) or of a public key (whpk_…). The error says why not; whether the
// timestamp is recent is the caller's to judge.
func VerifySignature(key, id, timestamp, header string, body []byte) error {
	scheme, raw, err := parseWebhookKey(key)
	if err != nil {
		return err
	}
	content := signedContent(id, timestamp, body)
	seen := false
	for signature := range strings.FieldsSeq(header) {
		version, text, ok := strings.Cut(signature, ",")
		if !ok || version != string(scheme) {
			continue
		}
		seen = true
		sum, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			continue
		}
		if scheme == SignatureV1a && ed25519.Verify(raw, content, sum) {
			return nil
		}
		if scheme == SignatureV1 {
			mac := hmac.New(sha256.New, raw)
			mac.Write(content)
			if hmac.Equal(mac.Sum(nil), sum) {
				return nil
			}
		}
	}
	if !seen {
		return fmt.Errorf("webhook-signature has no %s signature", scheme)
	}
	return errors.New("no signature matches: another key, or id, timestamp or body are not those that were signed")
}

// ParseWebhookSecret reads a shared secret of the form whsec_…, as
// WebhookKey.Text prints it.
func ParseWebhookSecret(text string) (WebhookKey, error) {
	scheme, raw, err := parseWebhookKey(text)
	if err == nil && scheme != SignatureV1 {
		err = errors.New("a secret begins with whsec_")
	}
	return WebhookKey{Version: 1, Scheme: SignatureV1, Secret: raw}, err
}

func parseWebhookKey(text string) (SignatureScheme, []byte, error) {
	scheme, rest := SignatureV1, ""
	if public, ok := strings.CutPrefix(text, publicPrefix); ok {
		scheme, rest = SignatureV1a, public
	} else if secret, ok := strings.CutPrefix(text, secretPrefix); ok {
		rest = secret
	} else {
		return "", nil, errors.New("a key begins with whsec_ (a secret) or whpk_ (a public key)")
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil || (scheme == SignatureV1a && len(raw) != ed25519.PublicKeySize) || len(raw) < 24 {
		return "", nil, errors.New("the key is not the base64 of a key")
	}
	return scheme, raw, nil
}

func signedContent(id, timestamp string, body []byte) []byte {
	return append([]byte(id+"."+timestamp+"."), body...)
}
