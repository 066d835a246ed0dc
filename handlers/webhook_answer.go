package handlers

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// webhookAnswer is the answer with an endpoint; secret is shown in the answers
// that make one.
func webhookAnswer(status int, w tollgate.WebhookEndpoint, secret string) (rediskv.Answer, error) {
	w.Secret = secret
	body, err := json.Marshal(w, json.Deterministic(true))
	return rediskv.Answer{Status: status, Body: body}, err
}

// commitSealed commits something whose answer holds a secret. What is kept for
// a repeat must give the same bytes, and a secret must not lie in Redis in the
// clear, so the kept body is sealed.
func (s *Server) commitSealed(idem rediskv.Idempotency, plain rediskv.Answer,
	commit func(*rediskv.Idempotency, rediskv.Answer) (rediskv.Result, error),
) (*answer, error) {
	var key *rediskv.Idempotency
	kept := plain
	if idem.Key != "" {
		var err error
		if kept.Body, err = s.vault.Seal(s.entropy, answerPlace(idem), plain.Body); err != nil {
			return nil, err
		}
		key = &idem
	}
	result, err := commit(key, kept)
	if err != nil {
		return nil, err
	}
	if !result.Repeated {
		result.Body = plain.Body
		return stored(result), nil
	}
	return s.openAnswer(idem, stored(result))
}

// orRepeatedSealed is orRepeated for an answer that commitSealed has kept.
func (s *Server) orRepeatedSealed(c *call, idem rediskv.Idempotency, refusal error) (*answer, error) {
	a, err := s.orRepeated(c, idem, refusal)
	if err != nil {
		return nil, err
	}
	return s.openAnswer(idem, a)
}

func (s *Server) openAnswer(idem rediskv.Idempotency, a *answer) (*answer, error) {
	body, err := s.vault.Open(answerPlace(idem), a.body)
	if err != nil {
		return nil, fmt.Errorf("kept answer: %w", err)
	}
	a.body = body
	return a, nil
}

// answerPlace is where a kept answer belongs: the scope names organization and
// operation.
func answerPlace(idem rediskv.Idempotency) string { return "answer/" + idem.Scope + "/" + idem.Key }
