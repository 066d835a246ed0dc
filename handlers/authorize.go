package handlers

import (
	"cmp"
	"fmt"

	"tollgate"
	"tollgate/handlers/oauth"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/history"
)

// authorize finds out who asks: a genuine token (RFC 9068 §4), a grant that is
// in force in the version that the token names, and the route's scope.
func (s *Server) authorize(c *call) error {
	v := visitorOf(c.request.Context())
	if v == nil || v.Proof == nil { // its door has verified the proof, which is of the door
		var refused *tollgate.Error
		if v, c.rate, refused = s.present(c.request); c.rate != nil {
			return c.unrecorded(refused)
		}
		if refused != nil {
			return refused
		}
	}
	// From here on the client is known, and what it is refused is audited.
	token := v.Token
	c.token, c.client, c.org, c.nonce = token, token.ClientID, token.Organization, v.Fresh
	if err := s.checkHistory(c); err != nil {
		return err
	}
	if err := s.checkGrant(c); err != nil {
		return err
	}
	if !token.Scopes.Has(c.row.Scope) {
		return problem.New(tollgate.CodeScopeMissing, fmt.Sprintf("This needs the scope %s, which the access token does not have.", c.row.Scope))
	}
	if err := s.limit(c); err != nil || v.Proof == nil || !c.row.writes() {
		return err
	}
	return s.burn(c, v)
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
			return nil, oauth.TokenInvalid(err), nil
		}
		return nil, nil, err
	}
	if ended := oauth.Ended(c.token, grant, tollgate.At(s.clock())); ended != nil {
		refusal = oauth.TokenInvalid(ended)
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
