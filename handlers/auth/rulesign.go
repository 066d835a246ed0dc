package auth

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"tollgate"
)

// ruleType is the typ of a rule's signature, so that nothing else that a team's
// key has signed can be taken for one (RFC 8725 §3.11).
const ruleType = "tollgate-rule+jws"

// RuleStatement is what a team signs when it publishes a rule. Its JSON, names
// in alphabetical order and without spaces (RFC 8785), is the payload.
type RuleStatement struct {
	GoldenSHA256 string            `json:"golden_sha256"`
	IssuedAt     int64             `json:"iat"` // seconds
	Signer       string            `json:"iss"`
	Organization string            `json:"org"`
	Rule         tollgate.Citation `json:"rule"`
	SHA256       string            `json:"sha256"`
}

// PeekRuleSigner reads, without verifying anything, whose signature it claims
// to be. Errors are refusals of kind ErrRuleSignature.
func PeekRuleSigner(signature string) (string, error) {
	_, signer, err := peekIssuer(signature, ErrRuleSignature)
	return signer, err
}

// VerifyRule checks that one of a signer's keys has signed want, whose IssuedAt
// is not looked at: a rule may be published long after it was signed, but not
// before. It returns the id of the key. Errors are refusals of kind
// ErrRuleSignature.
func VerifyRule(signature string, keys ClientKeys, want RuleStatement, now time.Time) (keyID string, err error) {
	keyID, reason := verifyRule(signature, keys, want, now)
	if reason != "" {
		return "", Refuse(ErrRuleSignature, reason)
	}
	return keyID, nil
}

func verifyRule(signature string, keys ClientKeys, want RuleStatement, now time.Time) (string, Reason) {
	c, reason := parseCompact(signature)
	if reason != "" {
		return "", reason
	}
	if c.header.text("typ") != ruleType {
		return "", ReasonType
	}
	if !c.header.has("kid") {
		return "", ReasonKey
	}
	key, ok := keys.find(c.header)
	if !ok {
		return "", ReasonKey
	}
	if reason := c.verify(key.alg, key.verifier); reason != "" {
		return "", reason
	}
	claims, ok := parseObject(c.payload)
	if !ok {
		return "", ReasonMalformed
	}
	if claims.text("iss") != want.Signer {
		return "", ReasonIssuer
	}
	at, ok := claims.moment("iat")
	if !ok || at.After(now.Add(maxSkew)) {
		return "", ReasonNotYetValid
	}
	// Everything else has one form only, so the payload as a whole is compared.
	want.IssuedAt = at.Unix()
	payload, err := json.Marshal(want)
	if err != nil || !bytes.Equal(payload, c.payload) {
		return "", ReasonClaims
	}
	return key.id, ""
}

// SignRule signs a statement with a team's private JWK. It is for the command
// line; the server has no such key.
func SignRule(privateJWK []byte, statement RuleStatement) (string, error) {
	signer, err := compactSigner(privateJWK, ruleType)
	if err != nil {
		return "", fmt.Errorf("sign rule: %w", err)
	}
	payload, err := json.Marshal(statement)
	if err != nil {
		return "", fmt.Errorf("sign rule: %w", err)
	}
	signed, err := signCompact(signer, payload)
	if err != nil {
		return "", fmt.Errorf("sign rule: %w", err)
	}
	return signed, nil
}

// compactSigner signs with a private JWK; kid is always in the header.
func compactSigner(privateJWK []byte, typ jose.ContentType) (jose.Signer, error) {
	jwk, err := privateKey(privateJWK)
	if err != nil {
		return nil, err
	}
	if jwk.KeyID, err = keyIDOf(jwk); err != nil {
		return nil, err
	}
	return newSigner(jwk, new(jose.SignerOptions).WithType(typ))
}

// privateKey reads a client's private JWK. Its Algorithm is always set.
func privateKey(raw []byte) (jose.JSONWebKey, error) {
	jwk, err := parseJWK(raw)
	if err != nil {
		return jwk, err
	}
	if jwk.IsPublic() {
		return jwk, errors.New("a public key cannot sign; the private JWK is needed")
	}
	alg, err := algorithmOf(jwk)
	jwk.Algorithm = string(alg)
	return jwk, err
}

// newSigner signs with a key of privateKey; its kid is in the header where it has one.
func newSigner(jwk jose.JSONWebKey, options *jose.SignerOptions) (jose.Signer, error) {
	key := jose.SigningKey{Algorithm: jose.SignatureAlgorithm(jwk.Algorithm), Key: jwk}
	if key.Algorithm == algEd25519 {
		key.Key = ed25519Signer{jwk.KeyID, jwk.Key.(ed25519.PrivateKey)}
	}
	return jose.NewSigner(key, options)
}
