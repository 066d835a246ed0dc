package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// TokenLifetime is how long an access token is good for: OAuth's
	// expires_in (spec §5).
	TokenLifetime = 600 * time.Second

	tokenType = "at+jwt" // RFC 9068 §2.1
)

// Token is what an access token says (RFC 9068 §2.2): which client may do
// what, for which organization, under which version of which grant. A token
// from Verifier is shared and must not be changed.
type Token struct {
	ID           string // jti
	ClientID     string // client_id and sub
	Organization string // org
	GrantID      string // grant_id
	GrantVersion int64  // gv, compared with the grant's by whoever reads or commits
	History      string // his, within which it writes; empty in those of earlier releases
	Scopes       Scopes // scope
	Thumbprint   string // cnf.jkt, of the key that must prove its possession; empty: none (RFC 9449 §6)
	KeyID        string // kid of the key that signed it; set by Verifier
	IssuedAt     time.Time
	Expires      time.Time
}

// tokenClaims is the payload of an access token. aud is a string here: a list
// is refused by its type.
type tokenClaims struct {
	Issuer       string `json:"iss"`
	Subject      string `json:"sub"`
	Audience     string `json:"aud"`
	Expires      int64  `json:"exp"`
	IssuedAt     int64  `json:"iat"`
	ID           string `json:"jti"`
	ClientID     string `json:"client_id"`
	Scope        string `json:"scope"`
	Organization string `json:"org"`
	GrantID      string `json:"grant_id"`
	GrantVersion int64  `json:"gv"`
	History      string `json:"his,omitempty"`

	Confirmation *confirmation `json:"cnf,omitempty"`
}

type confirmation struct {
	Thumbprint string `json:"jkt"`
}

// complete reports whether all that must be there is there.
func (c tokenClaims) complete() bool {
	if c.Confirmation != nil && c.Confirmation.Thumbprint == "" {
		return false
	}
	return c.ID != "" && c.ClientID != "" && c.Scope != "" && c.Organization != "" &&
		c.GrantID != "" && c.GrantVersion >= 0 && c.IssuedAt > 0 && c.Expires > c.IssuedAt
}

// Issuer mints access tokens.
type Issuer struct {
	Keys *Keys
	Name string // the issuer identifier (RFC 8414 §2): iss and aud of every token
}

// Mint signs an access token that is good from now for TokenLifetime, or until
// t.Expires where that is set and earlier. Of t the caller sets ID, ClientID,
// Organization, GrantID, GrantVersion and Scopes, all of them, History and Thumbprint; the
// rest is not read. Times are whole seconds, cut.
func (i *Issuer) Mint(now time.Time, t Token) (string, error) {
	claims := tokenClaims{
		Issuer: i.Name, Subject: t.ClientID, Audience: i.Name,
		Expires: now.Add(TokenLifetime).Unix(), IssuedAt: now.Unix(),
		ID: t.ID, ClientID: t.ClientID, Scope: t.Scopes.String(),
		Organization: t.Organization, GrantID: t.GrantID, GrantVersion: t.GrantVersion, History: t.History,
	}
	if t.Thumbprint != "" {
		claims.Confirmation = &confirmation{t.Thumbprint}
	}
	if !t.Expires.IsZero() {
		claims.Expires = min(claims.Expires, t.Expires.Unix())
	}
	if i.Name == "" || !claims.complete() {
		return "", errors.New("mint token: a claim is missing")
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	signed, err := signCompact(i.Keys.signer(now), payload)
	if err != nil {
		return "", fmt.Errorf("mint token: %w", err)
	}
	if len(signed) > maxCompact {
		return "", fmt.Errorf("mint token: %d bytes, more than a verifier reads", len(signed))
	}
	return signed, nil
}
