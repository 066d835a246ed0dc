package handlers

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/history"
)

// authorize finds out who asks: a genuine token (RFC 9068 §4), a grant that is
// in force in the version that the token names, and the route's scope.
func (s *Server) authorize(c *call) error {
	if err := s.guard(c); err != nil && !s.knows(c.request) {
		return err
	}
	c.rate, c.silent = nil, false
	token, refused := s.Bearer(c.request.Header)
	if refused != nil {
		s.forged(c.request, refused)
		return refused
	}
	// From here on the client is known, and what it is refused is audited.
	c.token, c.client, c.org = token, token.ClientID, token.Organization
	if err := s.checkHistory(c); err != nil {
		return err
	}
	if err := s.checkGrant(c); err != nil {
		return err
	}
	if !token.Scopes.Has(c.row.Scope) {
		return problem.New(tollgate.CodeScopeMissing, fmt.Sprintf("This needs the scope %s, which the access token does not have.", c.row.Scope))
	}
	return s.limit(c)
}

// Bearer reads the access token of a request that comes through a Door, and verifies
// it: it is genuine, and has not expired. Redis is not asked. Whether the grant is in
// force and has a scope, each route says that the door calls with the same token.
func (s *Server) Bearer(h http.Header) (*auth.Token, *tollgate.Error) {
	text, missing := bearer(h["Authorization"])
	if missing != nil {
		return nil, missing
	}
	token, refused := s.verifier.Verify(text)
	if refused != nil {
		return nil, tokenRefused(refused)
	}
	return token, nil
}

// knows reports whether the token of a request was verified before.
func (s *Server) knows(req *http.Request) bool {
	text, missing := bearer(req.Header["Authorization"])
	return missing == nil && s.verifier.Knows(text)
}

// tokenRefused is what a client hears of a token that is not taken.
func tokenRefused(cause error) *tollgate.Error {
	if errors.Is(cause, auth.ErrTokenExpired) {
		return &tollgate.Error{Code: tollgate.CodeTokenExpired, Message: "The access token has expired; get a new one.", Cause: cause}
	}
	return tokenInvalid(cause)
}

// checkGrant compares the token with the grant as it is cached; scripts
// compare the version again (interface §5).
func (s *Server) checkGrant(c *call) error {
	grant, refusal, err := s.judgeGrant(c)
	if refusal != nil && s.store.DoubtGrant(c.org, c.token.GrantID) {
		grant, refusal, err = s.judgeGrant(c)
	}
	if err == nil && refusal != nil {
		err = s.suspect(c, grant)
	}
	if err = cmp.Or(err, refusal); err != nil {
		return err
	}
	c.grant = grant
	if c.connection != nil {
		c.connection.Belongs(c.org, c.client)
	}
	return nil
}

// judgeGrant says why a token is refused under its grant.
func (s *Server) judgeGrant(c *call) (grant *accounts.Grant, refusal, err error) {
	grant, err = s.store.Grant(c.ctx, c.org, c.token.GrantID)
	if err != nil {
		if e := problem.From(err); e.Code == tollgate.CodeNotFound {
			return nil, tokenInvalid(err), nil
		}
		return nil, nil, err
	}
	switch status := grant.At(tollgate.At(s.clock())); {
	case status != tollgate.StatusActive:
		refusal = tokenInvalid(fmt.Errorf("the grant is %s", status))
	case grant.Revision != c.token.GrantVersion:
		refusal = tokenInvalid(fmt.Errorf("the grant is at version %d, the token at %d", grant.Revision, c.token.GrantVersion))
	case grant.ClientID != c.token.ClientID:
		refusal = tokenInvalid(errors.New("the grant is another client's"))
	}
	return grant, refusal, nil
}

// refused is the error of a request whose grant was in force as it is cached. Where its
// grant, or what a write names, is not there by the time it is carried out, it may be lost.
func (s *Server) refused(c *call, err error) error {
	code := problem.From(err).Code
	if c.grant != nil && code == tollgate.CodeNotFound && c.row.writes() {
		return cmp.Or(s.checkHistoryAgain(c), err)
	}
	if c.grant == nil || code != tollgate.CodeTokenInvalid {
		return err
	}
	s.store.Refresh(c.org)
	grant, refusal, unread := s.judgeGrant(c)
	if refusal == nil {
		return cmp.Or(unread, err)
	}
	return cmp.Or(s.suspect(c, grant), err)
}

// suspect says that a token is refused because data was lost, where it was: its grant
// is not there, or not as it was when the token was issued.
func (s *Server) suspect(c *call, grant *accounts.Grant) error {
	evidence, has := "", int64(0)
	if grant != nil {
		has = grant.Revision
	}
	if c.token.History != "" && has < c.token.GrantVersion {
		evidence = history.Token
	}
	return s.store.SuspectHistory(c.ctx, c.org, c.token.History, evidence, c.token.GrantVersion, has)
}

// bearer takes the token out of "Authorization: Bearer <token>" (RFC 6750
// §2.1). Two headers are no choice between them.
func bearer(headers []string) (string, *tollgate.Error) {
	if len(headers) == 0 {
		return "", problem.New(tollgate.CodeTokenMissing, "This needs an access token: Authorization: Bearer <token>.")
	}
	scheme, token, ok := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", tokenInvalid(nil)
	}
	return token, nil
}

// tokenInvalid says the same for every reason; the cause is for the log.
func tokenInvalid(cause error) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeTokenInvalid, Message: "The access token is not valid.", Cause: cause}
}

// challenge is WWW-Authenticate (RFC 6750 §3): without an error for a request
// that carried no token.
func challenge(code tollgate.Code, r *row) string {
	switch code {
	case tollgate.CodeTokenMissing:
		return `Bearer realm="tollgate"`
	case tollgate.CodeScopeMissing:
		return fmt.Sprintf(`Bearer realm="tollgate", error="insufficient_scope", scope="%s"`, r.Scope)
	case tollgate.CodeTokenExpired:
		return `Bearer realm="tollgate", error="invalid_token", error_description="The access token has expired"`
	default:
		return `Bearer realm="tollgate", error="invalid_token", error_description="The access token is not valid"`
	}
}
