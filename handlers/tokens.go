package handlers

import (
	"context"
	"net/http"
	"strings"

	"tollgate/handlers/oauth"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/gcra"
)

// isOAuth reports whether requests and errors take OAuth's form.
func (c *call) isOAuth() bool { return strings.HasPrefix(c.request.URL.Path, "/oauth2/") }

// issueToken exchanges a client assertion for an access token (spec §5).
func (s *Server) issueToken(c *call) (*answer, error) {
	return s.asked(c, "grant_type", s.oauth.Issue)
}

// revokeToken ends an access token of the client.
func (s *Server) revokeToken(c *call) (*answer, error) { return s.asked(c, "token", s.oauth.Revoke) }

// introspectToken says what an access token of the client means now.
func (s *Server) introspectToken(c *call) (*answer, error) {
	return s.asked(c, "token", s.oauth.Introspect)
}

// asked answers a client that authenticates with an assertion. needs is the parameter
// that must stand beside it.
func (s *Server) asked(c *call, needs string, do func(context.Context, *oauth.Request) (any, error)) (*answer, error) {
	form, err := oauth.Parse(c.request.Header, c.body, needs)
	if err != nil {
		return nil, err
	}
	if err := s.guard(c); err != nil {
		return nil, err
	}
	r := &oauth.Request{Form: form, HTTP: c.request, Audit: c.audited(http.StatusOK)}
	r.Limit = func(grant *accounts.Grant) (*gcra.Count, error) { return s.limitOAuth(c, r.ClientID, grant) }
	return fresh(s, c, func() (*answer, error) {
		v, err := do(c.ctx, r)
		c.assertion, c.client, c.org, c.nonce = r.Assertion, r.ClientID, r.Organization, r.Fresh
		if r.ClientID == "" {
			s.forged(c.request, err)
		}
		if err != nil {
			return nil, err
		}
		return object(v)
	})
}
