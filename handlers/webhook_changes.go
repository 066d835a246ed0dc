package handlers

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/egress"
	"tollgate/rediskv"
)

// Bounds of a rotation's overlap, in seconds.
const (
	defaultOverlap = 24 * 60 * 60
	maxOverlap     = 7 * 24 * 60 * 60
)

// rotation is the body of POST …/secrets.
type rotation struct {
	Overlap int `json:"overlap_seconds"`
}

func readRotation(f *fields) rotation {
	return rotation{f.whole("overlap_seconds", defaultOverlap, 0, maxOverlap)}
}

func (s *Server) rotateWebhook(c *call, r rotation) (*answer, error) {
	return s.changeWebhook(c, "webhooks.rotate", r, http.StatusCreated, func(w *tollgate.Endpoint, now tollgate.Instant) (tollgate.EventType, string, error) {
		secret, err := s.rotateKeys(w, time.Duration(r.Overlap)*time.Second, now)
		return tollgate.WebhookSecretRotated, secret, err
	})
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
	return s.changeWebhook(c, "webhooks.update", nil, http.StatusOK, func(w *tollgate.Endpoint, now tollgate.Instant) (tollgate.EventType, string, error) {
		before, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
		if err != nil {
			return "", "", err
		}
		was := w.WebhookEndpoint
		r.apply(&w.WebhookEndpoint)
		if r.given["merchant_account_ids"] {
			w.MerchantAccountIDs = accounts
		}
		secret := ""
		if w.SignatureScheme != was.SignatureScheme {
			if secret, err = s.matchKeys(w, now); err != nil {
				return "", "", err
			}
		}
		after, err := json.Marshal(w.WebhookEndpoint, json.Deterministic(true))
		switch {
		case err != nil || bytes.Equal(before, after):
			return "", "", err
		case w.Status == was.Status:
			return tollgate.WebhookUpdated, secret, nil
		case w.Status == tollgate.WebhookActive:
			return tollgate.WebhookEnabled, secret, nil
		}
		return tollgate.WebhookDisabled, secret, nil
	})
}

// changeWebhook computes a change of the endpoint as it is read, and again
// when another change came first. compute gives the event, none for no
// change, and a secret that the answer must show.
func (s *Server) changeWebhook(c *call, operation string, request any, status int,
	compute func(*tollgate.Endpoint, tollgate.Instant) (tollgate.EventType, string, error),
) (*answer, error) {
	idem, err := c.idempotency(c.org, operation, request)
	if err != nil {
		return nil, err
	}
	for range maxConflicts {
		w, err := s.webhook(c, status)
		if err != nil {
			return s.orRepeated(c, idem, err)
		}
		was, now := *w, tollgate.At(s.clock())
		event, secret, err := compute(w, now)
		if err != nil {
			return nil, err
		}
		if event == "" {
			return object(w.WebhookEndpoint)
		}
		w.UpdatedAt = now
		reply, err := webhookAnswer(status, w.WebhookEndpoint, secret)
		if err != nil {
			return nil, err
		}
		a, err := s.commitSealed(c, idem, reply, func(key *rediskv.Idempotency, kept rediskv.Answer) (rediskv.Result, error) {
			facts, err := s.store.WebhookFacts(c.ctx, c.org)
			if err != nil {
				return rediskv.Result{}, err
			}
			change, err := facts.Change(s.store.Mint, s.store.Origin(c.caller(status)), was, *w, event)
			if err != nil {
				return rediskv.Result{}, err
			}
			return s.store.CommitWebhook(c.ctx, c.caller(status), key, change, kept)
		})
		if !errors.Is(err, rediskv.ErrConflict) {
			return a, err
		}
	}
	return nil, busy()
}
