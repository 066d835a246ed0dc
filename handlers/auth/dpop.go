package auth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

const (
	proofType = "dpop+jwt" // RFC 9449 §4.2
	// ProofLifetime is how long a nonce is good for, and how old a proof may be.
	ProofLifetime = time.Minute
)

// privateMembers are those of JWKs that are not for others (RFC 7518 §6).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// Proof is a proof of possession (RFC 9449) whose signature and claims hold. The caller
// still has to look at its nonce, and to see that its JTI was not used before.
type Proof struct {
	Thumbprint string // of its key (RFC 7638)
	JTI        string // 1–128 bytes
	Nonce      string // empty: it has none
}

// ProofOf is what a proof must be of: a method, one of the URLs that the request may be
// for, and an access token, none at the token endpoint.
type ProofOf struct {
	Method string
	URLs   []string
	Token  string
}

// VerifyProof checks a proof. Errors are refusals of kind ErrProof.
func VerifyProof(text string, of ProofOf, now time.Time) (Proof, error) {
	p, reason := verifyProof(text, of, now)
	if reason != "" {
		return Proof{}, Refuse(ErrProof, reason)
	}
	return p, nil
}

func verifyProof(text string, of ProofOf, now time.Time) (Proof, Reason) {
	c, reason := parseCompactWith(text, "crit", "b64", "jku", "x5u", "x5c")
	if reason != "" {
		return Proof{}, reason
	}
	if c.header.text("typ") != proofType {
		return Proof{}, ReasonType
	}
	key, thumbprint, reason := proofKey(c.header)
	if reason != "" {
		return Proof{}, reason
	}
	if reason := c.verify(key.alg, key.verifier); reason != "" {
		return Proof{}, reason
	}
	claims, ok := parseObject(c.payload)
	if !ok {
		return Proof{}, ReasonMalformed
	}
	p, reason := checkProof(claims, of, now)
	p.Thumbprint = thumbprint
	return p, reason
}

// proofKey is the public key in a proof's header, with the algorithm of the header.
func proofKey(header object) (key clientKey, thumbprint string, reason Reason) {
	raw := header["jwk"]
	if members, _ := parseObject(raw); slices.ContainsFunc(privateMembers, members.has) {
		return key, "", ReasonKey
	}
	jwk, err := parseJWK(raw)
	if err != nil {
		return key, "", ReasonKey
	}
	alg := header.text("alg")
	if jwk.Algorithm != "" && jwk.Algorithm != alg {
		return key, "", ReasonAlgorithm
	}
	jwk.Algorithm = alg
	named, err := algorithmOf(jwk)
	if err != nil {
		return key, "", ReasonAlgorithm
	}
	if thumbprint, err = keyThumbprint(jwk.Key); err != nil {
		return key, "", ReasonKey
	}
	key = clientKey{thumbprint, named, jwk.Key}
	if named == algEd25519 {
		key.verifier = ed25519Verifier(jwk.Key.(ed25519.PublicKey))
	}
	return key, thumbprint, ""
}

func checkProof(claims object, of ProofOf, now time.Time) (p Proof, reason Reason) {
	if claims.text("htm") != of.Method {
		return p, ReasonMethod
	}
	if target := normalized(claims.text("htu")); target == "" || !slices.ContainsFunc(of.URLs, func(u string) bool { return normalized(u) == target }) {
		return p, ReasonTarget
	}
	issued, ok := claims.moment("iat")
	switch {
	case !ok || issued.After(now.Add(maxSkew)):
		return p, ReasonNotYetValid
	case issued.Before(now.Add(-ProofLifetime - maxSkew)):
		return p, ReasonExpired
	}
	if p.JTI = claims.text("jti"); p.JTI == "" || len(p.JTI) > 128 {
		return p, ReasonJTI
	}
	if p.Nonce = claims.text("nonce"); claims.has("nonce") && p.Nonce == "" {
		return p, ReasonNonce
	}
	if of.Token != "" && subtle.ConstantTimeCompare([]byte(claims.text("ath")), []byte(tokenHash(of.Token))) == 0 {
		return p, ReasonToken
	}
	return p, ""
}

// tokenHash is the claim ath of an access token (RFC 9449 §4.2).
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// normalized is an absolute http or https URL as it is compared: scheme and host in
// lower case, without the scheme's own port, query and fragment (RFC 9449 §4.3, RFC
// 3986 §6.2). Empty: it is none, or spelled in a way that no client needs.
func normalized(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.RawPath != "" {
		return ""
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return ""
	}
	path := u.Path
	if path == "" {
		path = "/"
	}
	return scheme + "://" + strings.TrimSuffix(host, ":") + path
}

// SignProof makes the proof that a client sends: signed with a private JWK, whose public
// half is in it. It is for clients; nonce and token may be empty.
func SignProof(privateJWK []byte, method, target, token, nonce, jti string, now time.Time) (string, error) {
	jwk, err := privateKey(privateJWK)
	if err != nil {
		return "", fmt.Errorf("sign proof: %w", err)
	}
	jwk.KeyID = "" // the key itself is in the header
	signer, err := newSigner(jwk, new(jose.SignerOptions).WithType(proofType).WithHeader("jwk", jose.JSONWebKey{Key: jwk.Public().Key}))
	if err != nil {
		return "", fmt.Errorf("sign proof: %w", err)
	}
	claims := map[string]any{"htm": method, "htu": target, "iat": now.Unix(), "jti": jti}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if token != "" {
		claims["ath"] = tokenHash(token)
	}
	payload, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("sign proof: %w", err)
	}
	return signCompact(signer, payload)
}
