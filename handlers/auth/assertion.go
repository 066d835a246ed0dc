package auth

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"tollgate"
)

const (
	assertionType     = "client-authentication+jwt" // rfc7523bis
	assertionLifetime = time.Minute                 // of those that SignAssertion makes
	maxAssertionAhead = 5 * time.Minute             // exp (spec §5)
)

// Assertion is a client assertion whose signature and claims hold (RFC 7523
// §3). The caller still has to burn its JTI, once per client, until Expires.
type Assertion struct {
	ClientID string
	JTI      string // 1–128 bytes of any UTF-8
	KeyID    string // of the client's key that signed it
	Expires  time.Time
}

// PeekClientID reads, without verifying anything, which client an assertion
// claims to be from, so that its keys can be looked up. The id has the shape
// of an identifier. Errors are refusals of kind ErrInvalidClient.
func PeekClientID(assertion string) (string, error) {
	claims, clientID, err := peekIssuer(assertion, ErrInvalidClient)
	if err != nil {
		return "", err
	}
	if claims.text("sub") != clientID {
		return "", Refuse(ErrInvalidClient, ReasonSubject)
	}
	return clientID, nil
}

// peekIssuer reads who says that it has signed, without verifying anything: an
// issuer has the shape of an identifier. Errors are refusals of that kind.
func peekIssuer(text string, kind error) (claims object, issuer string, err error) {
	c, reason := parseCompact(text)
	if reason != "" {
		return nil, "", Refuse(kind, reason)
	}
	claims, ok := parseObject(c.payload)
	if !ok {
		return nil, "", Refuse(kind, ReasonMalformed)
	}
	if issuer = claims.text("iss"); !tollgate.ValidID(issuer) {
		return nil, "", Refuse(kind, ReasonIssuer)
	}
	return claims, issuer, nil
}

// VerifyAssertion checks an assertion of the client clientID, which has these
// keys, for this issuer: the token endpoint's issuer identifier, which alone
// is the audience, or one of its aliases (never the endpoint's URL, rfc7523bis). Errors are refusals
// of kind ErrInvalidClient; the signature is checked before the claims, so a
// reason about a claim comes from the client itself, and then the assertion has
// its ClientID and KeyID. Every assertion that could be somebody's costs one
// verification by its alg, also one for which keys has no key: how long a
// refusal takes does not tell which clients there are.
func VerifyAssertion(assertion string, keys ClientKeys, clientID, issuer string, now time.Time, aliases ...string) (Assertion, error) {
	verified, reason := verifyAssertion(assertion, keys, clientID, append(aliases, issuer), now)
	if reason != "" {
		return verified, Refuse(ErrInvalidClient, reason)
	}
	return verified, nil
}

func verifyAssertion(assertion string, keys ClientKeys, clientID string, issuers []string, now time.Time) (Assertion, Reason) {
	c, reason := parseCompact(assertion)
	if reason != "" {
		return Assertion{}, reason
	}
	if c.header.has("typ") {
		// An access token (at+jwt) is no assertion.
		if typ := c.header.text("typ"); typ != "JWT" && typ != assertionType {
			return Assertion{}, ReasonType
		}
	}
	alg := c.header.text("alg")
	key, ok := keys.find(c.header)
	if !ok || string(key.alg) != alg {
		nobodys := nobody()[jose.SignatureAlgorithm(alg)]
		c.verify(nobodys.alg, nobodys.verifier) // for the time that it takes
		if !ok {
			return Assertion{}, ReasonKey
		}
		return Assertion{}, ReasonAlgorithm
	}
	if reason := c.verify(key.alg, key.verifier); reason != "" {
		return Assertion{}, reason
	}
	claims, ok := parseObject(c.payload)
	if !ok {
		return Assertion{}, ReasonMalformed
	}
	verified, reason := checkAssertion(claims, key.id, clientID, issuers, now)
	if reason != "" {
		return Assertion{ClientID: clientID, KeyID: key.id}, reason
	}
	return verified, ""
}

func checkAssertion(claims object, keyID, clientID string, issuers []string, now time.Time) (Assertion, Reason) {
	if iss := claims.text("iss"); iss != clientID || !tollgate.ValidID(iss) {
		return Assertion{}, ReasonIssuer
	}
	if claims.text("sub") != clientID {
		return Assertion{}, ReasonSubject
	}
	if aud := claims.only("aud"); aud == "" || !slices.Contains(issuers, aud) {
		return Assertion{}, ReasonAudience
	}
	expires, ok := claims.moment("exp")
	switch {
	case !ok || expires.After(now.Add(maxAssertionAhead)):
		return Assertion{}, ReasonExpiry
	case !expires.After(now):
		return Assertion{}, ReasonExpired
	}
	for _, name := range [...]string{"iat", "nbf"} {
		if !claims.has(name) {
			continue
		}
		if at, ok := claims.moment(name); !ok || at.After(now.Add(maxSkew)) {
			return Assertion{}, ReasonNotYetValid
		}
	}
	jti := claims.text("jti")
	if jti == "" || len(jti) > 128 {
		return Assertion{}, ReasonJTI
	}
	return Assertion{ClientID: clientID, JTI: jti, KeyID: keyID, Expires: expires}, ""
}

// SignAssertion makes the assertion that a client sends: signed with its
// private JWK, good for one minute and, since jti is burned, for one use. It
// is for clients; the server has no such key.
func SignAssertion(privateJWK []byte, clientID, issuer, jti string, now time.Time) (string, error) {
	signer, err := compactSigner(privateJWK, assertionType)
	if err != nil {
		return "", fmt.Errorf("sign assertion: %w", err)
	}
	payload, err := json.Marshal(struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		IssuedAt int64  `json:"iat"`
		JTI      string `json:"jti"`
	}{clientID, clientID, issuer, now.Add(assertionLifetime).Unix(), now.Unix(), jti})
	if err != nil {
		return "", fmt.Errorf("sign assertion: %w", err)
	}
	signed, err := signCompact(signer, payload)
	if err != nil {
		return "", fmt.Errorf("sign assertion: %w", err)
	}
	return signed, nil
}

func signCompact(signer jose.Signer, payload []byte) (string, error) {
	jws, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return jws.CompactSerialize()
}
