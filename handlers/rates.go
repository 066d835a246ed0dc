package handlers

import (
	"net/http"
	"strconv"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/rate"
	"tollgate/handlers/share"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/gcra"
)

// kind is in which limit a route's requests count.
func (r *row) kind() gcra.Kind {
	switch {
	case r.use == share.Quotes, r.sandbox && r.Method == http.MethodGet:
		return gcra.Quotes
	case r.writes():
		return gcra.Writes
	default:
		return gcra.Reads
	}
}

// limit has an authorized request counted: here, or by the first script that it runs.
func (s *Server) limit(c *call) error {
	kind := c.row.kind()
	c.rate = s.rates.Count(kind, c.client, c.grant)
	if kind == gcra.Quotes {
		return s.countedHere(c)
	}
	return c.unrecorded(s.rates.Refuse(c.rate))
}

// countedHere counts a request that the primary does not see.
func (s *Server) countedHere(c *call) error {
	c.rate = s.rates.Count(gcra.Quotes, c.client, c.grant)
	return c.unrecorded(s.rates.Take(c.rate))
}

// limitOAuth has a request of a client with an assertion counted when the assertion is
// burned: one for a token under a grant in the limit for tokens, one about a token with
// what is refused. An attempt that finds its configuration changed has counted nothing.
func (s *Server) limitOAuth(c *call, client string, grant *accounts.Grant) (*gcra.Count, error) {
	kind := gcra.Tokens
	if grant == nil {
		kind = gcra.Refused
	}
	c.rate = s.rates.Count(kind, client, grant)
	return c.rate, c.unrecorded(s.rates.Refuse(c.rate))
}

// guard refuses, before it is looked at, what comes from an address that has sent too
// many wrong signatures.
func (s *Server) guard(c *call) (err error) {
	c.rate, err = s.rates.Guard(s.transport.Proxies.From(c.request))
	return c.unrecorded(err)
}

// forged notes a refusal that has cost a verification, though nobody is known by it.
func (s *Server) forged(req *http.Request, err error) {
	switch auth.ReasonOf(err) {
	case auth.ReasonSignature, auth.ReasonKey, auth.ReasonAlgorithm, auth.ReasonUnknownClient:
		s.rates.Forged(s.transport.Proxies.From(req))
	}
}

// unrecorded marks a refusal that Redis hears nothing of: it was made so that Redis
// need not.
func (c *call) unrecorded(err error) error {
	c.silent = c.silent || err != nil
	return err
}

// countRefused is where a refusal counts that is about to be recorded: in a limit of its
// own, so that a stolen token that was revoked takes nothing from its client; nil if the
// request was counted already.
func (s *Server) countRefused(c *call, e *tollgate.Error) *gcra.Count {
	if c.rate != nil && c.rate.Asked() && e.Code != tollgate.CodeRateLimited {
		return nil
	}
	return s.rates.Count(gcra.Refused, c.client, nil)
}

// refusedTooOften is the error of a refusal that is not recorded. One that says so
// already stays as it is.
func (s *Server) refusedTooOften(c *call, e *tollgate.Error, by *gcra.Count) *tollgate.Error {
	if e.Code == tollgate.CodeRateLimited {
		return nil
	}
	c.rate = by
	return &tollgate.Error{Code: tollgate.CodeRateLimited, Message: "Too many of the client's requests were refused. Send the next one after Retry-After.", Cause: e}
}

// retryAfter is how long a client that is over its limit is to wait, in seconds.
func (c *call) retryAfter() string {
	s, _ := c.rate.State()
	return strconv.FormatInt(gcra.TooMany(s.Retry), 10)
}

func (c *call) rateHeaders() { rate.Headers(c.Header(), c.rate) }
