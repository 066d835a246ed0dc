package oauth

import (
	"cmp"
	"context"
	"errors"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/health"
	"tollgate/rediskv/history"
)

// checkClock refuses to issue tokens by a clock that is known to be wrong: they would
// be valid too long, or not at all, and assertions would be used twice.
func (e *Endpoints) checkClock() error {
	off, wrong := errors.AsType[*health.ClockError](e.Store.CheckClock(health.ClockLimit))
	if !wrong {
		return nil
	}
	return &tollgate.Error{
		Code: tollgate.CodeStoreUnavailable, Cause: off,
		Message: "This instance's clock and that of its store are more than a minute apart, so it issues no tokens. Try again: another instance may answer.",
	}
}

// authenticate finds the client and checks its assertion (RFC 7523 §3), and that its
// organization is active. Nothing is burned yet.
func (e *Endpoints) authenticate(ctx context.Context, r *Request) (by asked, err error) {
	if err := e.checkClock(); err != nil {
		return by, err
	}
	by.now = e.Wall()
	if by.client, err = e.client(ctx, r); err != nil {
		if auth.ReasonOf(err) != "" {
			err = e.invalidClient(err)
		}
		return by, err
	}
	by.organization, err = e.Store.Organization(ctx, by.client.OrganizationID)
	if err == nil && by.organization.Status != tollgate.StatusActive {
		err = e.invalidClient(auth.Refuse(auth.ErrInvalidClient, auth.ReasonOrganization))
	}
	return by, err
}

// client finds the client whose assertion a request has. Whether there is such a client
// does not show: who is unknown is checked as long. Errors are refusals, or the store's.
func (e *Endpoints) client(ctx context.Context, r *Request) (*accounts.Client, error) {
	id, err := auth.PeekClientID(r.Form.assertion)
	if err != nil {
		return nil, err
	}
	if r.Form.clientID != "" && r.Form.clientID != id { // RFC 7521 §4.2
		return nil, auth.Refuse(auth.ErrInvalidClient, auth.ReasonSubject)
	}
	client, keys := &accounts.Client{}, auth.ClientKeys{} // those of nobody
	found, strange, err := e.Store.Claimed(ctx, id)
	switch {
	case err == nil:
		client = found
		if len(client.Keys) == 0 {
			break // it has lost its last one: nothing verifies
		}
		if keys, err = e.keys.of(client.Keys); err != nil {
			return nil, err
		}
	case problem.From(err).Code != tollgate.CodeNotFound:
		return nil, err
	}
	assertion, err := auth.VerifyAssertion(r.Form.assertion, keys, id, e.Issuer.Name, e.Wall(), e.Aliases...)
	if assertion.ClientID != "" { // it is the client's own, whatever it says
		r.Assertion, r.ClientID, r.Organization = assertion, client.ID, client.OrganizationID
	}
	if assertion.ClientID == "" { // nobody, if Redis has what it had
		if emptied, err := strange(ctx); err != nil || emptied {
			return nil, cmp.Or(err, history.Lost())
		}
	}
	if client.Status != tollgate.StatusActive { // nobody's is not, either
		err = auth.Refuse(auth.ErrInvalidClient, auth.ReasonUnknownClient)
	}
	return client, err
}

// PublicKeys are those of a client or a rule signer, stored as JWKs.
func PublicKeys(stored []string) (auth.ClientKeys, error) {
	jwks := make([][]byte, len(stored))
	for i, key := range stored {
		jwks[i] = []byte(key)
	}
	return auth.ParseClientKeys(jwks)
}
