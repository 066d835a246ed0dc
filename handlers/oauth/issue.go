package oauth

import (
	"context"
	"errors"
	"slices"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
)

const prefixToken = "tok_"

// Token is the answer to a token request (RFC 6749 §5.1).
type Token struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"` // seconds
	Scope       string `json:"scope"`
}

// Issue exchanges a client's assertion for an access token (spec §5). Everything that
// costs nothing to repeat comes first; the jti is burned last, in one script with the
// audit entry, and only for a token that exists. rediskv.ErrStale: what it is made of
// has changed meanwhile.
func (e *Endpoints) Issue(ctx context.Context, r *Request) (any, error) {
	by, err := e.authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	thumbprint, err := e.boundTo(r, by.client)
	if err != nil {
		return nil, err
	}
	now := e.Wall()
	grant, scopes, err := e.granted(ctx, by.client, r.Form)
	if err != nil {
		return nil, err
	}
	if r.rate, err = r.Limit(grant); err != nil {
		return nil, err
	}
	history, err := e.history(ctx, r.Organization)
	if err != nil {
		return nil, err
	}
	lifetime := auth.TokenLifetime
	if grant.ExpiresAt != 0 { // at least the second in which the grant was found active
		lifetime = min(lifetime, max(time.Second, grant.ExpiresAt.Time().Sub(e.Clock())))
	}
	token := auth.Token{
		ID: e.Store.NewID(prefixToken), ClientID: by.client.ID, Organization: r.Organization,
		GrantID: grant.ID, GrantVersion: grant.Revision, History: history.ID, Scopes: scopes, Expires: now.Add(lifetime),
		Thumbprint: thumbprint,
	}
	text, err := e.Issuer.Mint(now, token)
	if err != nil {
		return nil, err
	}
	use := r.use(by)
	use.GrantVersion, use.Actor.GrantID = grant.Revision, grant.ID
	if err := e.burned(e.Store.UseAssertion(ctx, use, "token.issue", tollgate.AuditTarget{Type: "client", ID: by.client.ID})); err != nil {
		return nil, err
	}
	return Token{text, tokenType(token.Thumbprint), int64(lifetime.Seconds()), scopes.String()}, nil
}

// boundTo is the thumbprint of the key that the token is to be bound to: that of the
// proof, which a client may send (RFC 9449 §5), or must (§5.2). Empty: there is none.
func (e *Endpoints) boundTo(r *Request, client *accounts.Client) (thumbprint string, err error) {
	if len(r.HTTP.Header["Dpop"]) == 0 && !client.DPoPBound {
		return "", nil
	}
	proof, fresh, err := e.prove(r.HTTP, "")
	if err == nil {
		r.Fresh, err = fresh, e.once(proof)
	}
	switch {
	case NeedsNonce(err):
		return "", &Fault{useNonce, &tollgate.Error{Code: tollgate.CodeParameterInvalid, Param: "DPoP", Message: ProofRefused(err).Message, Cause: err}}
	case errors.Is(err, auth.ErrProof):
		return "", &Fault{invalidProof, &tollgate.Error{Code: tollgate.CodeParameterInvalid, Param: "DPoP", Message: ProofRefused(err).Message, Cause: err}}
	case err != nil:
		return "", err
	}
	return proof.Thumbprint, nil
}

func tokenType(thumbprint string) string {
	if thumbprint != "" {
		return "DPoP"
	}
	return "Bearer"
}

// burned is the error of a script that burns an assertion, as the client hears it.
func (e *Endpoints) burned(err error) error {
	if errors.Is(err, rediskv.ErrReplayed) {
		return e.invalidClient(auth.Refuse(auth.ErrInvalidClient, auth.ReasonReplayed))
	}
	return err
}

// granted picks the grant and the scopes of the token: what was asked for, by
// default the client's only active grant and everything in it.
func (e *Endpoints) granted(ctx context.Context, client *accounts.Client, form Form) (*accounts.Grant, auth.Scopes, error) {
	grant, err := e.grantOf(ctx, client, form.grantID)
	if err != nil {
		return nil, nil, err
	}
	all, err := auth.ScopesOf(grant.Scopes)
	if err != nil {
		return nil, nil, err
	}
	if form.scope == "" {
		return grant, all, nil
	}
	asked, err := auth.ParseScopes(form.scope)
	if err != nil || slices.ContainsFunc(asked, func(scope auth.Scope) bool { return !all.Has(scope) }) {
		return nil, nil, fault(invalidScope, tollgate.CodeParameterInvalid, "scope",
			"scope is a list of scopes that the grant has, with single spaces between them.")
	}
	return grant, asked, nil
}

func (e *Endpoints) grantOf(ctx context.Context, client *accounts.Client, id string) (*accounts.Grant, error) {
	var found []*accounts.Grant
	for _, candidate := range client.GrantIDs {
		if id != "" && candidate != id {
			continue
		}
		grant, err := e.Store.Grant(ctx, client.OrganizationID, candidate)
		if err != nil && problem.From(err).Code != tollgate.CodeNotFound {
			return nil, err
		}
		if err == nil && grant.ClientID == client.ID && grant.At(tollgate.At(e.Clock())) == tollgate.StatusActive {
			found = append(found, grant)
		}
	}
	if len(found) == 0 && id == "" {
		return nil, fault(invalidRequest, tollgate.CodeParameterInvalid, "grant_id", "The client has no active grant.")
	}
	if len(found) != 1 {
		return nil, fault(invalidRequest, tollgate.CodeParameterInvalid, "grant_id",
			"grant_id names one of the client's active grants; it may be left out when there is exactly one.")
	}
	return found[0], nil
}
