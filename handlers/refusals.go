package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/oauth"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
)

// countTimeout bounds the counting of a stranger's refusal, which must not
// make it slow when Redis is down.
const countTimeout = 500 * time.Millisecond

// refuse writes down what does not succeed, in the log and as recordRefusal does, before
// it is told. It returns the error that is told instead; nil: this one.
func (s *Server) refuse(c *call, status int, e *tollgate.Error, err error) (instead *tollgate.Error) {
	switch {
	case status >= 500 && c.request.Context().Err() == nil: // else the client has gone, and nothing failed here
		s.log.Error("request failed", "request_id", c.id, "code", e.Code, "error", err)
	case e.Cause != nil:
		s.log.Info("request refused", "request_id", c.id, "code", e.Code, "error", err)
	}
	if status < 500 {
		instead = s.recordRefusal(c, status, e, err)
	}
	if cmp.Or(instead, e).Code == tollgate.CodeRateLimited {
		c.Header().Set("Retry-After", c.retryAfter())
	}
	return instead
}

// recordRefusal leaves one trace of every refused request: an entry in the
// audit record of a client that is known, one more in the count of the reason
// and minute for everybody else (interface §5). It is best effort: with Redis
// down the answer is the same, and the log has it. A client that is refused too often
// gets the error that it returns instead; nil: the same answer.
func (s *Server) recordRefusal(c *call, status int, e *tollgate.Error, err error) *tollgate.Error {
	if c.silent {
		return nil
	}
	reason := string(cmp.Or(auth.ReasonOf(err), auth.Reason(e.Code)))
	if fault, ok := errors.AsType[*oauth.Fault](err); ok {
		reason = fault.Kind
	}
	var caller rediskv.Caller
	entry := tollgate.AuditEntry{Outcome: "refused", Reason: reason}
	switch {
	case c.token != nil:
		caller, entry.Reason, entry.Target = c.caller(status), string(e.Code), c.refusedTarget()
		entry.Type = "request.refused"
		if status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound {
			entry.Type, entry.Outcome = "access.denied", "denied"
		}
	case c.assertion.ClientID != "":
		caller = oauth.Caller(c.org, c.assertion, c.audited(status))
		entry.Type, entry.Target = oauth.Entry(c.request.URL.Path), tollgate.AuditTarget{Type: "client", ID: c.assertion.ClientID}
	default:
		s.countRefusal(c.ctx, c.id, reason)
		return nil
	}
	if e.Code == tollgate.CodeRateLimited {
		s.rates.Refused(c.rate)
	}
	caller.Rate = s.countRefused(c, e)
	if err := s.rates.Refuse(caller.Rate); err != nil {
		return s.refusedTooOften(c, e, caller.Rate)
	}
	if c.org != "" { // whoever is refused without end does not write without end beside the others
		if done, err := s.shares.Refusals.Turn(c.ctx, c.org, c.client); err == nil {
			defer done()
		}
	}
	switch err := s.store.Audit(c.ctx, caller, entry); {
	case err != nil && problem.From(err).Code == tollgate.CodeRateLimited:
		s.rates.Refused(caller.Rate)
		return s.refusedTooOften(c, e, caller.Rate)
	case err != nil:
		s.log.Error("audit entry not written", "request_id", c.id, "code", e.Code, "error", err)
	}
	if c.rate == nil || !c.rate.Asked() {
		c.rate = caller.Rate
	}
	return nil
}

// refusedTarget is the last object that the path names, else what the request
// is about as far as it was read.
func (c *call) refusedTarget() tollgate.AuditTarget {
	n := len(c.params)
	if n > 0 && c.params[n-1].Key == "kid" { // a key is its client's
		n--
	}
	if n > 0 && tollgate.ValidID(c.params[n-1].Value) {
		return tollgate.AuditTarget{Type: strings.TrimSuffix(c.params[n-1].Key, "_id"), ID: c.params[n-1].Value}
	}
	return c.target
}

// countRefusal counts a request of somebody unknown.
func (s *Server) countRefusal(ctx context.Context, id, reason string) {
	n := s.strangers.Add(reason)
	if n == 0 {
		return // writeRefusals has it
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	if err := s.store.CountRefusals(ctx, reason, n); err != nil {
		s.log.Error("refusal not counted", "request_id", id, "reason", reason, "refusals", n, "error", err)
	}
}

// writeRefusals writes the counts that came too fast to be written one by one.
func (s *Server) writeRefusals(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	for reason, n := range s.strangers.Rest() {
		if err := s.store.CountRefusals(ctx, reason, n); err != nil {
			s.log.Error("refusals not counted", "reason", reason, "refusals", n, "error", err)
		}
	}
}

// refusal is a whole answer.
func (s *Server) refusal(code tollgate.Code, param, message string) []byte {
	id := s.store.NewID(tollgate.PrefixRequest)
	a := problem.Of(&tollgate.Error{Code: code, Param: param, Message: message}, id)
	s.observer.Request("none", a.Status, 0)
	s.log.Info("request refused", "request_id", id, "status", a.Status, "code", code)
	s.countRefusal(context.Background(), id, string(code))
	help := s.helpOn(code)
	if help != "" {
		help = "Link: " + help + "\r\n"
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\nRequest-Id: %s\r\n"+
		"X-Content-Type-Options: nosniff\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		a.Status, http.StatusText(a.Status), mediaProblem, id, help, len(a.Body), a.Body)
}
