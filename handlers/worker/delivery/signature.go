package delivery

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tollgate"
)

// Signatures is the webhook-signature header: one signature per key.
func Signatures(keys []tollgate.WebhookKey, id string, timestamp int64, body []byte) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = sign(k, id, timestamp, body)
	}
	return strings.Join(all, " ")
}

// sign is one signature of Standard Webhooks over "id.timestamp.body":
// "v1,<base64>" or "v1a,<base64>". timestamp is Unix seconds.
func sign(k tollgate.WebhookKey, id string, timestamp int64, body []byte) string {
	content := signedContent(id, strconv.FormatInt(timestamp, 10), body)
	if k.Scheme == tollgate.SignatureV1a {
		sum := ed25519.Sign(ed25519.NewKeyFromSeed(k.Secret), content)
		return "v1a," + base64.StdEncoding.EncodeToString(sum)
	}
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write(content)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
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
		if scheme == tollgate.SignatureV1a && ed25519.Verify(raw, content, sum) {
			return nil
		}
		if scheme == tollgate.SignatureV1 {
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

// ParseSecret reads a shared secret of the form whsec_…, as
// tollgate.WebhookKey.Text prints it.
func ParseSecret(text string) (tollgate.WebhookKey, error) {
	scheme, raw, err := parseWebhookKey(text)
	if err == nil && scheme != tollgate.SignatureV1 {
		err = errors.New("a secret begins with whsec_")
	}
	return tollgate.WebhookKey{Version: 1, Scheme: tollgate.SignatureV1, Secret: raw}, err
}

func parseWebhookKey(text string) (tollgate.SignatureScheme, []byte, error) {
	scheme, rest := tollgate.SignatureV1, ""
	if public, ok := strings.CutPrefix(text, tollgate.PublicKeyPrefix); ok {
		scheme, rest = tollgate.SignatureV1a, public
	} else if secret, ok := strings.CutPrefix(text, tollgate.SecretPrefix); ok {
		rest = secret
	} else {
		return "", nil, errors.New("a key begins with whsec_ (a secret) or whpk_ (a public key)")
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil || (scheme == tollgate.SignatureV1a && len(raw) != ed25519.PublicKeySize) || len(raw) < 24 {
		return "", nil, errors.New("the key is not the base64 of a key")
	}
	return scheme, raw, nil
}

func signedContent(id, timestamp string, body []byte) []byte {
	return append([]byte(id+"."+timestamp+"."), body...)
}
