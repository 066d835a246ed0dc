package handlers

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/health"
	"tollgate/rediskv/history"
)

const (
	clientCredentials = "client_credentials"
	jwtBearer         = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // RFC 7523 §2.2
)

// tokenAnswer is RFC 6749 §5.1.
type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"` // seconds
	Scope       string `json:"scope"`
}

// tokenForm is the body of a token request.
type tokenForm struct{ assertion, clientID, scope, grantID string }

// parseTokenForm reads the form (RFC 6749 §4.4.2). Parameters may not stand
// twice; unknown ones are ignored (§3.2).
func parseTokenForm(c *call) (form tokenForm, err error) {
	got, err := parseForm(string(c.body))
	if err != nil {
		return form, err
	}
	if len(c.request.Header["Authorization"]) > 0 || got["client_secret"] != "" {
		return form, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "client_assertion",
			"A client authenticates with its assertion and nothing beside it.") // RFC 6749 §2.3
	}
	for _, name := range []string{"grant_type", "client_assertion_type", "client_assertion"} {
		if got[name] == "" {
			return form, oauthError(invalidRequest, tollgate.CodeParameterMissing, name, name+" is missing.")
		}
	}
	if got["grant_type"] != clientCredentials {
		return form, oauthError(unsupportedGrantType, tollgate.CodeParameterInvalid, "grant_type", "grant_type is "+clientCredentials+".")
	}
	if got["client_assertion_type"] != jwtBearer {
		return form, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "client_assertion_type", "client_assertion_type is "+jwtBearer+".")
	}
	return tokenForm{got["client_assertion"], got["client_id"], got["scope"], got["grant_id"]}, nil
}

func parseForm(body string) (input.Values, error) {
	form := make(input.Values)
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		value, valueErr := url.QueryUnescape(rawValue)
		if err != nil || valueErr != nil || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "", "The body is not a form in UTF-8.")
		}
		if _, twice := form[name]; twice {
			return nil, oauthError(invalidRequest, tollgate.CodeParameterInvalid, input.Shortened(name), "A parameter may stand once.")
		}
		form[name] = value
	}
	return form, nil
}

// issueToken exchanges a client assertion for an access token (spec §5).
func (s *Server) issueToken(c *call) (*answer, error) {
	form, err := parseTokenForm(c)
	if err != nil {
		return nil, err
	}
	if err := s.guard(c); err != nil {
		return nil, err
	}
	return fresh(s, c, func() (*answer, error) { return s.tryIssue(c, form) })
}

// tryIssue checks everything that costs nothing to repeat; the jti is burned
// last, in one script with the audit entry, and only for a token that exists.
func (s *Server) tryIssue(c *call, form tokenForm) (*answer, error) {
	if err := s.checkClock(); err != nil {
		return nil, err
	}
	client, assertion, err := s.authenticate(c, form)
	if err != nil {
		return nil, err
	}
	now := s.wall()
	grant, scopes, err := s.granted(c, client, form)
	if err != nil {
		return nil, err
	}
	if err := s.limitToken(c, grant); err != nil {
		return nil, err
	}
	org, err := s.store.Organization(c.ctx, client.OrganizationID)
	if err != nil {
		return nil, err
	}
	if org.Status != tollgate.StatusActive {
		return nil, s.invalidClient(auth.Refuse(auth.ErrInvalidClient, auth.ReasonOrganization))
	}
	history, err := s.history(c)
	if err != nil {
		return nil, err
	}
	lifetime := auth.TokenLifetime
	if grant.ExpiresAt != 0 { // at least the second in which the grant was found active
		lifetime = min(lifetime, max(time.Second, grant.ExpiresAt.Time().Sub(s.clock())))
	}
	token := auth.Token{
		ID: s.store.NewID(prefixToken), ClientID: client.ID, Organization: client.OrganizationID,
		GrantID: grant.ID, GrantVersion: grant.Revision, History: history.ID, Scopes: scopes, Expires: now.Add(lifetime),
	}
	text, err := s.issuer.Mint(now, token)
	if err != nil {
		return nil, err
	}
	caller := tokenCaller(c, assertion, http.StatusOK)
	caller.Rate = c.rate
	caller.GrantVersion, caller.Actor.GrantID = grant.Revision, grant.ID
	err = s.store.IssueToken(c.ctx, accounts.TokenIssue{
		Caller: caller, JTI: assertion.JTI, AssertionExpires: assertion.Expires,
		ClientRevision: client.Revision, OrganizationRevision: org.Revision,
	})
	if errors.Is(err, rediskv.ErrReplayed) {
		return nil, s.invalidClient(auth.Refuse(auth.ErrInvalidClient, auth.ReasonReplayed))
	}
	if err != nil {
		return nil, err
	}
	return object(tokenAnswer{text, "Bearer", int64(lifetime.Seconds()), scopes.String()})
}

const prefixToken = "tok_"

// checkClock refuses to issue tokens by a clock that is known to be wrong: they would
// be valid too long, or not at all, and assertions would be used twice.
func (s *Server) checkClock() error {
	off, wrong := errors.AsType[*health.ClockError](s.store.CheckClock(health.ClockLimit))
	if !wrong {
		return nil
	}
	return &tollgate.Error{
		Code: tollgate.CodeStoreUnavailable, Cause: off,
		Message: "This instance's clock and that of its store are more than a minute apart, so it issues no tokens. Try again: another instance may answer.",
	}
}

// authenticate finds the client and checks its assertion (RFC 7523 §3). Whether
// there is such a client does not show: who is unknown is checked as long.
func (s *Server) authenticate(c *call, form tokenForm) (*accounts.Client, auth.Assertion, error) {
	refuse := func(err error) error {
		if auth.ReasonOf(err) != "" {
			return s.invalidClient(err)
		}
		return err
	}
	id, err := auth.PeekClientID(form.assertion)
	if err == nil && form.clientID != "" && form.clientID != id {
		err = auth.Refuse(auth.ErrInvalidClient, auth.ReasonSubject) // RFC 7521 §4.2
	}
	if err != nil {
		return nil, auth.Assertion{}, refuse(err)
	}
	client, keys := &accounts.Client{}, auth.ClientKeys{} // those of nobody
	found, err := s.store.Client(c.ctx, id)
	switch {
	case err == nil:
		client = found
		if len(client.Keys) == 0 {
			break // it has lost its last one: nothing verifies
		}
		if keys, err = publicKeys(client.Keys); err != nil {
			return nil, auth.Assertion{}, err
		}
	case problem.From(err).Code != tollgate.CodeNotFound:
		return nil, auth.Assertion{}, err
	}
	assertion, err := auth.VerifyAssertion(form.assertion, keys, id, s.issuer.Name, s.wall(), s.aliases...)
	if assertion.ClientID == "" {
		s.forged(c.request, err)
	} else { // it is the client's own, whatever it says
		c.assertion, c.client, c.org = assertion, client.ID, client.OrganizationID
	}
	if client.ID == "" { // nobody, if Redis has what it had
		if emptied, err := s.store.Emptied(c.ctx); err != nil || emptied {
			return nil, auth.Assertion{}, cmp.Or(err, history.Lost())
		}
	}
	switch {
	case client.ID == "" || (err == nil && client.Status != tollgate.StatusActive):
		err = auth.Refuse(auth.ErrInvalidClient, auth.ReasonUnknownClient)
	case err == nil:
		return client, assertion, nil
	}
	return nil, auth.Assertion{}, refuse(err)
}

// publicKeys are those of a client or a rule signer.
func publicKeys(stored []string) (auth.ClientKeys, error) {
	jwks := make([][]byte, len(stored))
	for i, key := range stored {
		jwks[i] = []byte(key)
	}
	return auth.ParseClientKeys(jwks)
}

// granted picks the grant and the scopes of the token: what was asked for, by
// default the client's only active grant and everything in it.
func (s *Server) granted(c *call, client *accounts.Client, form tokenForm) (*accounts.Grant, auth.Scopes, error) {
	grant, err := s.grantOf(c, client, form.grantID)
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
		return nil, nil, oauthError(invalidScope, tollgate.CodeParameterInvalid, "scope",
			"scope is a list of scopes that the grant has, with single spaces between them.")
	}
	return grant, asked, nil
}

func (s *Server) grantOf(c *call, client *accounts.Client, id string) (*accounts.Grant, error) {
	var found []*accounts.Grant
	for _, candidate := range client.GrantIDs {
		if id != "" && candidate != id {
			continue
		}
		grant, err := s.store.Grant(c.ctx, client.OrganizationID, candidate)
		if err != nil && problem.From(err).Code != tollgate.CodeNotFound {
			return nil, err
		}
		if err == nil && grant.ClientID == client.ID && grant.At(tollgate.At(s.clock())) == tollgate.StatusActive {
			found = append(found, grant)
		}
	}
	if len(found) == 0 && id == "" {
		return nil, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "grant_id", "The client has no active grant.")
	}
	if len(found) != 1 {
		return nil, oauthError(invalidRequest, tollgate.CodeParameterInvalid, "grant_id",
			"grant_id names one of the client's active grants; it may be left out when there is exactly one.")
	}
	return found[0], nil
}

func tokenCaller(c *call, assertion auth.Assertion, status int) rediskv.Caller {
	return rediskv.Caller{
		Organization: c.org, Request: c.audited(status),
		Actor: tollgate.Actor{ClientID: assertion.ClientID, KeyID: assertion.KeyID},
	}
}
