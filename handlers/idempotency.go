package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/bodies"
)

// idempotency identifies a request for the store. request is the decoded one
// with its defaults filled in and amounts as Money prints them: white space,
// order and spelled-out defaults make no other request. earlier is what earlier
// releases made of it, where that can differ.
func (c *call) idempotency(account, operation string, request any, earlier ...any) (rediskv.Idempotency, error) {
	idem := rediskv.Idempotency{Scope: account + ":" + operation, Key: c.idem}
	var err error
	if idem.Fingerprint, err = c.fingerprint(operation, request); err != nil {
		return idem, err
	}
	for _, request := range earlier {
		if idem.Earlier, err = c.fingerprint(operation, request); err != nil {
			return idem, err
		}
	}
	return idem, nil
}

func (c *call) fingerprint(operation string, request any) (string, error) {
	text, err := bodies.Of(&struct {
		Operation string `json:"operation"`
		ID        string `json:"id"`
		Request   any    `json:"request"`
	}{operation, c.pathIDs(), request})
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// command carries out a change: do reads facts, decides and commits, again when
// another change came first. What it is refused for depends on the moment, so a
// repeat gets the first answer.
func (s *Server) command(c *call, operation string, request any, do func(*rediskv.Idempotency) (rediskv.Result, error), earlier ...any) (*answer, error) {
	idem, err := c.idempotency(c.org, operation, request, earlier...)
	if err != nil {
		return nil, err
	}
	result, err := rediskv.Retried(func() (rediskv.Result, error) { return do(keyOf(idem)) })
	if err != nil {
		return s.orRepeated(c, idem, err)
	}
	return s.answered(c, idem, result)
}

// keyOf is what the store is told of an Idempotency-Key; nothing without one.
func keyOf(idem rediskv.Idempotency) *rediskv.Idempotency {
	if idem.Key == "" {
		return nil
	}
	return &idem
}

// orRepeated is what a refusal becomes whose reason can change from one
// request to the next: the answer of an earlier request with the same key, if
// there was one that the grant reaches, else the refusal. Where that cannot be told, as
// while too few replicas have the earlier one, the request is to be sent again: a refusal
// would tell a client that what was carried out was not.
func (s *Server) orRepeated(c *call, idem rediskv.Idempotency, refusal error) (*answer, error) {
	refused := problem.From(refusal).Code
	if idem.Key == "" || refused == tollgate.CodeMerchantAccountForbidden || refused == tollgate.CodeScopeMissing {
		return nil, refusal
	}
	earlier, ok, err := s.store.FindRepeated(c.ctx, c.caller(problem.StatusOf(refused)), idem)
	switch {
	case err != nil && (refused != tollgate.CodeStoreUnavailable || problem.From(err).Code != tollgate.CodeStoreUnavailable):
		return nil, err // it cannot be told, the key is another request's, or the grant is gone
	case err != nil || !ok || !c.reachesAnswer(idem, earlier.Reach):
		return nil, refusal
	}
	return s.answered(c, idem, earlier)
}

// reachesAnswer reports whether the grant covers what a kept answer is about. A
// record of the release before does not say: it is about the account that its
// key belongs to, or may be about any.
func (c *call) reachesAnswer(idem rediskv.Idempotency, reach []string) bool {
	if len(reach) == 0 {
		if reach = []string{rediskv.ReachAll}; idem.Account() != c.org {
			reach[0] = idem.Account()
		}
	}
	switch reach[0] {
	case rediskv.ReachNone:
		return true
	case rediskv.ReachAll:
		reach = nil
	}
	return c.reaches(reach)
}

// reachOf is what an answer about accounts is about; none are all.
func reachOf(accounts []string) []string {
	if len(accounts) == 0 {
		return []string{rediskv.ReachAll}
	}
	return accounts
}

// reply is an answer with the JSON of v, which is about accounts; none are all.
func reply(status int, location string, v any, accounts []string) (rediskv.Answer, error) {
	body, err := bodies.Of(v)
	return rediskv.Answer{Status: status, Location: location, Body: body, Reach: reachOf(accounts)}, err
}

// answered is the answer of a commit. One that repeats an earlier request's goes
// into the audit record before it is given, and shows no secret. One that is
// not what was kept is not given.
func (s *Server) answered(c *call, idem rediskv.Idempotency, r rediskv.Result) (*answer, error) {
	if !r.Repeated {
		return stored(r), nil
	}
	var err error
	if r.Shown != "" {
		var p *tollgate.Payment
		r.Body, p, err = s.store.Shown(c.ctx, c.caller(r.Status), r.Shown)
		if _, told := errors.AsType[*tollgate.Error](err); told { // the payment is damaged, or Redis is away
			return nil, err
		}
		if err == nil && idem.Operation() == "payments.create" {
			r.Location = placeOf(p)
		}
	} else if sealed[idem.Operation()] {
		r.Body, err = s.openAnswer(idem, r.Body)
	} else if r.Status != http.StatusNoContent && !jsontext.Value(r.Body).IsValid() {
		err = errors.New("kept answer: no JSON")
	}
	if err != nil {
		return nil, s.store.DamagedAnswer(c.ctx, c.caller(http.StatusInternalServerError), idem, err)
	}
	entry := tollgate.AuditEntry{
		Type: "request.repeated", Outcome: "succeeded", Reason: idem.Operation(),
		Target: tollgate.AuditTarget{Type: "merchant_account", ID: idem.Account()},
	}
	if idem.Account() == c.org {
		entry.Target.Type = "organization"
	}
	if err := s.store.Audit(c.ctx, c.caller(r.Status), entry); err != nil {
		return nil, err
	}
	return stored(r), nil
}
