// Package oauth is the authorization server (RFC 6749): it exchanges the signed
// assertion of a client for an access token, revokes tokens and tells of them. It
// knows how OAuth words requests, errors and challenges; routes, limits and the log
// are package handlers'.
package oauth

import (
	"context"
	"net/http"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/secret"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/history"
	"tollgate/rediskv/store"
)

// Endpoints answer the requests of /oauth2/*. Clock is the service's time, by which
// grants are in force, and Wall real time, by which tokens and assertions are.
type Endpoints struct {
	Store       *store.Store
	Issuer      *auth.Issuer
	Verifier    *auth.Verifier
	Aliases     []string // other names of the issuer, for the sandbox alone
	Clock, Wall func() time.Time
	// Development tells a client what is wrong with its assertion.
	Development bool
	Vault       *secret.Vault // makes nonces, and knows those of other instances

	used usedProofs
	keys parsedKeys
}

// Request is one request of a client.
type Request struct {
	Form  Form
	HTTP  *http.Request
	Audit tollgate.AuditRequest // with the status of success
	Fresh string                // set to a nonce for the client's next proof
	// Limit is the rate limit in which the request counts once its client is known: with
	// the grant of a token that is to be issued, or nil. The error is CodeRateLimited.
	Limit func(*accounts.Grant) (*gcra.Count, error)
	rate  *gcra.Count

	// What is known of the client, once the signature of its assertion was found to
	// be the client's, whatever else is wrong with it.
	Assertion              auth.Assertion
	ClientID, Organization string
}

// Caller is the client of a request, for the store.
func Caller(organization string, assertion auth.Assertion, audited tollgate.AuditRequest) rediskv.Caller {
	return rediskv.Caller{
		Organization: organization, Request: audited,
		Actor: tollgate.Actor{ClientID: assertion.ClientID, KeyID: assertion.KeyID},
	}
}

// asked are a client whose assertion holds, and its organization, which is active.
type asked struct {
	client       *accounts.Client
	organization *accounts.Organization
	now          time.Time // real time
}

// use is what the assertion of a request is used up for.
func (r *Request) use(by asked) accounts.AssertionUse {
	caller := Caller(r.Organization, r.Assertion, r.Audit)
	caller.Rate = r.rate
	return accounts.AssertionUse{
		Caller: caller, JTI: r.Assertion.JTI, Expires: r.Assertion.Expires,
		ClientRevision: by.client.Revision, OrganizationRevision: by.organization.Revision, Now: by.now,
	}
}

// Entry is the type of the audit entries of a path of /oauth2/*.
func Entry(path string) string {
	switch path {
	case "/oauth2/revoke":
		return "token.revoke"
	case "/oauth2/introspect":
		return "token.introspect"
	default:
		return "token.issue"
	}
}

// history is that of an organization, within which a token may be issued.
func (e *Endpoints) history(ctx context.Context, organization string) (history.Record, error) {
	r, err := e.Store.HistoryFor(ctx, organization)
	if err == nil && !r.Open {
		err = history.Lost()
	}
	return r, err
}
