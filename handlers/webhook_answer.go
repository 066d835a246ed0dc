package handlers

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// webhookAnswer is the answer with an endpoint as it becomes; a new secret is shown
// in it.
func webhookAnswer(status int, ch *tollgate.WebhookChange) (rediskv.Answer, error) {
	w := ch.Webhook.WebhookEndpoint
	w.Secret = ch.Secret
	body, err := json.Marshal(w, json.Deterministic(true))
	return rediskv.Answer{Status: status, Body: body, Reach: reachOf(w.MerchantAccountIDs)}, err
}

// sealed are the operations whose first answer shows a secret. What is kept for a
// repeat does not have it; its body is sealed all the same, because the release
// before reads no other, and kept the secret in it.
var sealed = map[string]bool{"webhooks.create": true, "webhooks.rotate": true}

// shownOnce is an endpoint in an answer whose secret has been shown before.
type shownOnce struct {
	tollgate.WebhookEndpoint
	Secret  *string `json:"secret"` // null
	Message string  `json:"message"`
}

// withoutSecret is the body that a repeat is answered with.
func withoutSecret(body []byte) ([]byte, error) {
	var w tollgate.WebhookEndpoint
	if err := json.Unmarshal(body, &w); err != nil || w.Secret == "" {
		return body, err
	}
	return json.Marshal(shownOnce{
		WebhookEndpoint: w,
		Message:         "The secret is shown once, in the first answer. To get a new one, POST /v1/webhooks/" + w.ID + "/secrets.",
	}, json.Deterministic(true))
}

// commitWebhook commits a change whose answer may show a secret.
func (s *Server) commitWebhook(c *call, idem rediskv.Idempotency, ch *tollgate.WebhookChange, plain rediskv.Answer) (*answer, error) {
	kept := plain
	if idem.Key != "" {
		body, err := withoutSecret(plain.Body)
		if err != nil {
			return nil, err
		}
		if kept.Body, err = s.vault.Seal(s.entropy, answerPlace(idem), body); err != nil {
			return nil, err
		}
	}
	result, err := s.store.CommitWebhook(c.ctx, c.caller(plain.Status), keyOf(idem), ch, kept)
	if err != nil {
		return nil, err
	}
	if !result.Repeated {
		result.Body = plain.Body
	}
	return s.answered(c, idem, result)
}

// openAnswer is the body of a kept answer; an old one had a secret.
func (s *Server) openAnswer(idem rediskv.Idempotency, kept []byte) ([]byte, error) {
	body, err := s.vault.Open(answerPlace(idem), kept)
	if err == nil {
		body, err = withoutSecret(body)
	}
	if err != nil {
		return nil, fmt.Errorf("kept answer: %w", err)
	}
	return body, nil
}

// answerPlace is where a kept answer belongs: the scope names organization and
// operation.
func answerPlace(idem rediskv.Idempotency) string { return "answer/" + idem.Scope + "/" + idem.Key }
