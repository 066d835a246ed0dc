package oauth

import (
	"context"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
)

// Introspection is what a token means now (RFC 7662 §2.2). Of one that means nothing
// there is Active alone.
type Introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope,omitzero"`
	ClientID  string `json:"client_id,omitzero"`
	TokenType string `json:"token_type,omitzero"`
	Expires   int64  `json:"exp,omitzero"` // seconds since 1970, as is IssuedAt
	IssuedAt  int64  `json:"iat,omitzero"`
	Subject   string `json:"sub,omitzero"`
	Audience  string `json:"aud,omitzero"`
	Issuer    string `json:"iss,omitzero"`
	ID        string `json:"jti,omitzero"`

	Organization string `json:"org,omitzero"`
	GrantID      string `json:"grant_id,omitzero"`

	Confirmation *Confirmation `json:"cnf,omitzero"`
}

// Confirmation says which key a token is bound to (RFC 9449 §6.2).
type Confirmation struct {
	Thumbprint string `json:"jkt"`
}

// Introspect tells a client what a token of its own means now (RFC 7662). The script
// that burns the jti compares the grant, so that what is answered was so then.
func (e *Endpoints) Introspect(ctx context.Context, r *Request) (any, error) {
	by, token, err := e.about(ctx, r)
	if err != nil {
		return nil, err
	}
	active, err := e.active(ctx, token)
	if err != nil {
		return nil, err
	}
	use, target, answer := r.use(by), tollgate.AuditTarget{Type: "client", ID: r.ClientID}, Introspection{}
	if active {
		use.GrantVersion, use.Actor.GrantID, use.Token = token.GrantVersion, token.GrantID, token.ID
		target, answer = tollgate.AuditTarget{Type: "token", ID: token.ID}, e.introspection(token)
	}
	if err := e.burned(e.Store.UseAssertion(ctx, use, "token.introspect", target)); err != nil {
		return nil, err
	}
	return answer, nil
}

// active says whether a token means anything under its grant, as it is cached.
func (e *Endpoints) active(ctx context.Context, token *auth.Token) (bool, error) {
	if token == nil {
		return false, nil
	}
	for {
		grant, err := e.Store.Grant(ctx, token.Organization, token.GrantID)
		if err != nil {
			if problem.From(err).Code == tollgate.CodeNotFound {
				err = nil
			}
			return false, err
		}
		if Ended(token, grant, tollgate.At(e.Clock())) == nil {
			return true, nil
		}
		if !e.Store.DoubtGrant(token.Organization, token.GrantID) { // a replica may be behind
			return false, nil
		}
	}
}

func (e *Endpoints) introspection(t *auth.Token) Introspection {
	var bound *Confirmation
	if t.Thumbprint != "" {
		bound = &Confirmation{t.Thumbprint}
	}
	return Introspection{
		Confirmation: bound,
		Active:       true, Scope: t.Scopes.String(), ClientID: t.ClientID, TokenType: tokenType(t.Thumbprint), Expires: t.Expires.Unix(), IssuedAt: t.IssuedAt.Unix(),
		Subject: t.ClientID, Audience: e.Issuer.Name, Issuer: e.Issuer.Name, ID: t.ID, Organization: t.Organization, GrantID: t.GrantID,
	}
}
