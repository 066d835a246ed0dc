package oauth

import (
	"context"

	"tollgate"
	"tollgate/handlers/auth"
)

// Revoke ends an access token of the client (RFC 7009). The answer is the same for
// whatever is no token of its own, or none any more: there is nothing to be learned
// from it. One script burns the jti, writes the revocation and the audit entry.
func (e *Endpoints) Revoke(ctx context.Context, r *Request) (any, error) {
	by, token, err := e.about(ctx, r)
	if err != nil {
		return nil, err
	}
	use := r.use(by)
	if token == nil {
		err = e.Store.UseAssertion(ctx, use, "token.revoke", tollgate.AuditTarget{Type: "client", ID: r.ClientID})
	} else {
		use.GrantVersion, use.Actor.GrantID = token.GrantVersion, token.GrantID
		err = e.Store.RevokeToken(ctx, use, token.ID, token.Expires)
	}
	return struct{}{}, e.burned(err)
}

// about is who asks about a token, and the token: if it is genuine, the client's, and has
// not expired; else nil.
func (e *Endpoints) about(ctx context.Context, r *Request) (by asked, token *auth.Token, err error) {
	if by, err = e.authenticate(ctx, r); err != nil {
		return by, nil, err
	}
	if r.rate, err = r.Limit(nil); err != nil {
		return by, nil, err
	}
	token, refused := e.Verifier.Verify(r.Form.token)
	if refused != nil || token.ClientID != r.ClientID || token.Organization != r.Organization {
		return by, nil, nil
	}
	return by, token, nil
}
