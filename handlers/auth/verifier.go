package auth

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"
)

// Verifier checks access tokens and remembers those that were genuine, so that
// a client's second request costs a hash instead of a signature. It is safe
// for concurrent use.
type Verifier struct {
	keys   *Keys
	issuer string
	clock  func() time.Time
	// By the digest of the whole text, signature included: a token that
	// differs anywhere is another token. Failures are not kept, so that
	// garbage cannot push genuine tokens out.
	genuine *lru.Cache[[sha256.Size]byte, *Token]
}

// NewVerifier makes a verifier of the tokens that an Issuer with the same keys
// and name mints. It remembers at most cacheSize tokens.
func NewVerifier(keys *Keys, issuer string, cacheSize int, clock func() time.Time) (*Verifier, error) {
	if keys == nil || issuer == "" || clock == nil {
		return nil, errors.New("token verifier: keys, issuer and clock are needed")
	}
	cache, err := lru.New[[sha256.Size]byte, *Token](cacheSize)
	if err != nil {
		return nil, fmt.Errorf("token verifier: cache: %w", err)
	}
	return &Verifier{keys, issuer, clock, cache}, nil
}

// Verify returns what a genuine, unexpired access token says. Errors are
// refusals of kind ErrTokenExpired, only for a token that was genuine, and
// ErrTokenInvalid. Whether the token or its grant has been revoked since is
// for the caller to ask.
func (v *Verifier) Verify(token string) (*Token, error) { return v.VerifyUnless(token, nil) }

// VerifyUnless is Verify, and asks refuse before it checks a signature: its error is
// returned as it is. A token that was verified before needs no check.
func (v *Verifier) VerifyUnless(token string, refuse func() error) (*Token, error) {
	digest := sha256.Sum256([]byte(token))
	known, ok := v.genuine.Get(digest)
	switch {
	case !ok:
		if refuse != nil {
			if err := refuse(); err != nil {
				return nil, err
			}
		}
		var reason Reason
		if known, reason = v.verify(token); reason != "" {
			return nil, Refuse(ErrTokenInvalid, reason)
		}
	default:
		if _, published := v.keys.published(known.KeyID); !published {
			v.genuine.Remove(digest)
			return nil, Refuse(ErrTokenInvalid, ReasonKey)
		}
	}
	if !known.Expires.After(v.clock()) {
		v.genuine.Remove(digest)
		return nil, Refuse(ErrTokenExpired, ReasonExpired)
	}
	if !ok {
		v.genuine.Add(digest, known)
	}
	return known, nil
}

// verify checks everything but the expiry.
func (v *Verifier) verify(token string) (*Token, Reason) {
	c, reason := parseCompact(token)
	if reason != "" {
		return nil, reason
	}
	// RFC 9068 §4: without it an assertion, or any other JWT that these keys
	// may come to sign, would do.
	if c.header.text("typ") != tokenType {
		return nil, ReasonType
	}
	kid := c.header.text("kid")
	key, ok := v.keys.published(kid)
	if !ok {
		return nil, ReasonKey
	}
	if reason := c.verify(jose.ES256, key); reason != "" {
		return nil, reason
	}
	var claims tokenClaims
	if err := json.Unmarshal(c.payload, &claims); err != nil {
		return nil, ReasonClaims
	}
	return v.check(claims, kid)
}

func (v *Verifier) check(claims tokenClaims, kid string) (*Token, Reason) {
	switch {
	case claims.Issuer != v.issuer:
		return nil, ReasonIssuer
	case claims.Audience != v.issuer:
		return nil, ReasonAudience
	case claims.Subject != claims.ClientID:
		return nil, ReasonSubject
	case !claims.complete():
		return nil, ReasonClaims
	}
	granted, err := ParseScopes(claims.Scope)
	if err != nil {
		return nil, ReasonClaims
	}
	issued := time.Unix(claims.IssuedAt, 0).UTC()
	if issued.After(v.clock().Add(maxSkew)) {
		return nil, ReasonNotYetValid
	}
	thumbprint := ""
	if claims.Confirmation != nil {
		thumbprint = claims.Confirmation.Thumbprint
	}
	return &Token{
		Thumbprint: thumbprint,
		ID:         claims.ID, ClientID: claims.ClientID, Organization: claims.Organization,
		GrantID: claims.GrantID, GrantVersion: claims.GrantVersion, History: claims.History, Scopes: granted,
		KeyID: kid, IssuedAt: issued, Expires: time.Unix(claims.Expires, 0).UTC(),
	}, ""
}
