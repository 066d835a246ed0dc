package handlers

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/egress"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
)

// createWebhook makes an endpoint and its first keys. Its accounts are those
// of the grant at most, so that nobody is sent what they could not list.
func (s *Server) createWebhook(c *call, r webhookRequest) (*answer, error) {
	idem, err := c.idempotency(c.org, "webhooks.create", r)
	if err != nil {
		return nil, err
	}
	if err := egress.CheckURL(r.URL, s.development); err != nil {
		return s.orRepeated(c, idem, err)
	}
	accounts, err := s.webhookAccounts(c, r.Accounts)
	if err != nil {
		return s.orRepeated(c, idem, err)
	}
	now := tollgate.At(s.clock())
	w := tollgate.StoredWebhook{WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: s.store.NewID(tollgate.PrefixWebhook), CreatedAt: now, UpdatedAt: now,
		URL: r.URL, Description: r.Description, Status: tollgate.WebhookActive, EventTypes: r.EventTypes, MerchantAccountIDs: accounts,
		SignatureScheme: r.Scheme, SchemaVersion: tollgate.SchemaVersion, Metadata: r.Metadata,
	}}
	secret, err := s.webhookKeys().Make(&w, now)
	if err != nil {
		return nil, err
	}
	return rediskv.Retried(func() (*answer, error) {
		there, err := s.store.WebhookList(c.ctx, c.org)
		if err != nil {
			return nil, err
		}
		change, err := tollgate.CreateWebhook(s.store.NewID, s.store.Origin(c.caller(http.StatusCreated)), there, w)
		if err != nil {
			return s.orRepeated(c, idem, err)
		}
		change.Secret = secret
		reply, err := webhookAnswer(http.StatusCreated, change)
		if err != nil {
			return nil, err
		}
		reply.Location = "/v1/webhooks/" + w.ID
		return s.commitWebhook(c, idem, change, reply)
	})
}

// webhookAccounts are the accounts whose events an endpoint gets: those that
// are named, which must exist and be the grant's, or all of the grant.
func (s *Server) webhookAccounts(c *call, named []string) ([]string, error) {
	if len(named) == 0 {
		return c.grant.MerchantAccountIDs, nil
	}
	for _, id := range named {
		if _, err := s.account(c, id, "merchant_account_ids"); err != nil {
			return nil, err
		}
	}
	return named, nil
}

// webhookKeys makes the keys of endpoints.
func (s *Server) webhookKeys() tollgate.WebhookKeys {
	return tollgate.WebhookKeys{Seal: s.seal, Entropy: s.entropy}
}

// listWebhooks lists the endpoints that the grant reaches, the oldest first.
func (s *Server) listWebhooks(c *call) (*answer, error) {
	p, err := readPage[string](s, c, "asc", nil)
	if err != nil {
		return nil, err
	}
	var found []tollgate.WebhookEndpoint
	after, more := p.Position, true
	for more && len(found) <= p.Limit {
		var rows []tollgate.StoredWebhook
		if rows, more, err = c.store.Webhooks(c.ctx, c.caller(http.StatusOK), after, 2*tollgate.MaxWebhooks); err != nil {
			return nil, err
		}
		for _, w := range rows {
			after = w.ID
			if c.reaches(w.MerchantAccountIDs) {
				found = append(found, w.WebhookEndpoint)
			}
		}
	}
	if len(found) <= p.Limit {
		return pageOf(p, found, false, "")
	}
	found = found[:p.Limit]
	return pageOf(p, found, true, found[p.Limit-1].ID)
}

// webhook reads the endpoint that a path names, if the grant reaches it.
func (s *Server) webhook(c *call, status int) (*tollgate.StoredWebhook, error) {
	w, err := c.store.Webhook(c.ctx, c.caller(status), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.reaches(w.MerchantAccountIDs) {
		return nil, problem.New(tollgate.CodeMerchantAccountForbidden, "The grant does not cover all merchant accounts of this endpoint.")
	}
	return w, nil
}

func (s *Server) getWebhook(c *call) (*answer, error) {
	w, err := s.webhook(c, http.StatusOK)
	if err != nil {
		return nil, err
	}
	return object(w.WebhookEndpoint)
}

// updateWebhook changes what the request names. A change that changes nothing
// is answered and not committed: it has no event.
func (s *Server) updateWebhook(c *call, r webhookChange) (*answer, error) {
	if r.given["url"] {
		if err := egress.CheckURL(r.URL, s.development); err != nil {
			return nil, err
		}
	}
	accounts, err := s.webhookAccounts(c, r.Accounts)
	if err != nil {
		return nil, err
	}
	return s.changeWebhook(c, "webhooks.update", nil, http.StatusOK, func(w tollgate.StoredWebhook, o tollgate.Origin) (*tollgate.WebhookChange, error) {
		return tollgate.ChangeWebhook(s.store.NewID, o, s.webhookKeys(), w, r.applied(w.WebhookEndpoint, accounts))
	})
}

// changeWebhook decides on the endpoint as it is read, and again when another
// change came first.
func (s *Server) changeWebhook(c *call, operation string, request any, status int,
	decide func(tollgate.StoredWebhook, tollgate.Origin) (*tollgate.WebhookChange, error),
) (*answer, error) {
	idem, err := c.idempotency(c.org, operation, request)
	if err != nil {
		return nil, err
	}
	return rediskv.Retried(func() (*answer, error) {
		w, err := s.webhook(c, status)
		if err != nil {
			return s.orRepeated(c, idem, err)
		}
		change, err := decide(*w, s.store.Origin(c.caller(status)))
		if err != nil {
			return nil, err
		}
		if change == nil {
			return object(w.WebhookEndpoint)
		}
		reply, err := webhookAnswer(status, change)
		if err != nil {
			return nil, err
		}
		return s.commitWebhook(c, idem, change, reply)
	})
}

// Bounds of a rotation's overlap, in seconds.
const (
	defaultOverlap = 24 * 60 * 60
	maxOverlap     = 7 * 24 * 60 * 60
)

// rotation is the body of POST …/secrets.
type rotation struct {
	Overlap int `json:"overlap_seconds"`
}

func parseRotation(f *input.Fields) rotation {
	return rotation{f.Whole("overlap_seconds", defaultOverlap, 0, maxOverlap)}
}

func (s *Server) rotateWebhook(c *call, r rotation) (*answer, error) {
	return s.changeWebhook(c, "webhooks.rotate", r, http.StatusCreated, func(w tollgate.StoredWebhook, o tollgate.Origin) (*tollgate.WebhookChange, error) {
		return tollgate.RotateWebhook(s.store.NewID, o, s.webhookKeys(), w, time.Duration(r.Overlap)*time.Second)
	})
}

// deleted is the body that is left of a deleted object.
type deleted struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

func (s *Server) deleteWebhook(c *call) (*answer, error) {
	return rediskv.Retried(func() (*answer, error) {
		caller := c.caller(http.StatusOK)
		w, err := s.webhook(c, http.StatusOK)
		if err != nil {
			return nil, err
		}
		change, err := tollgate.DeleteWebhook(s.store.NewID, s.store.Origin(caller), *w)
		if err != nil {
			return nil, err
		}
		if _, err := s.store.CommitWebhook(c.ctx, caller, nil, change, rediskv.Answer{}); err != nil {
			return nil, err
		}
		return object(deleted{"webhook_endpoint", w.ID, true})
	})
}

// testWebhook has a signed ping sent: a delivery like others, whatever the
// endpoint's filters.
func (s *Server) testWebhook(c *call) (*answer, error) {
	return s.webhookCommand(c, "webhooks.test", nil, func(caller rediskv.Caller, idem *rediskv.Idempotency, w *tollgate.StoredWebhook) (rediskv.Result, error) {
		ping, err := tollgate.PingWebhook(s.store.NewID, s.store.Origin(caller), w)
		if err != nil {
			return rediskv.Result{}, err
		}
		reply, err := reply(http.StatusAccepted, "", ping.Delivery, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitPing(c.ctx, caller, idem, ping, reply)
	})
}

// webhookAnswer is the answer with an endpoint as it becomes; a new secret is shown
// in it.
func webhookAnswer(status int, ch *tollgate.WebhookChange) (rediskv.Answer, error) {
	w := ch.Webhook.WebhookEndpoint
	w.Secret = ch.Secret
	return reply(status, "", w, w.MerchantAccountIDs)
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
		if kept.Body, err = s.seal(answerPlace(idem), body); err != nil {
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

// seal encrypts a secret for its place.
func (s *Server) seal(place string, text []byte) ([]byte, error) {
	return s.vault.Seal(s.entropy, place, text)
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
