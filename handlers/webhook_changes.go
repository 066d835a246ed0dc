package handlers

import (
	"net/http"
	"time"

	"tollgate"
	"tollgate/handlers/egress"
	"tollgate/handlers/input"
	"tollgate/rediskv"
)

// webhookKeys makes the keys of endpoints.
func (s *Server) webhookKeys() tollgate.WebhookKeys {
	return tollgate.WebhookKeys{Vault: s.vault, Entropy: s.entropy}
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

func readRotation(f *input.Fields) rotation {
	return rotation{f.Whole("overlap_seconds", defaultOverlap, 0, maxOverlap)}
}

func (s *Server) rotateWebhook(c *call, r rotation) (*answer, error) {
	return s.changeWebhook(c, "webhooks.rotate", r, http.StatusCreated, func(w tollgate.StoredWebhook, o tollgate.Origin) (*tollgate.WebhookChange, error) {
		return tollgate.RotateWebhook(s.store.Mint, o, s.webhookKeys(), w, time.Duration(r.Overlap)*time.Second)
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
	return s.changeWebhook(c, "webhooks.update", nil, http.StatusOK, func(w tollgate.StoredWebhook, o tollgate.Origin) (*tollgate.WebhookChange, error) {
		return tollgate.ChangeWebhook(s.store.Mint, o, s.webhookKeys(), w, r.applied(w.WebhookEndpoint, accounts))
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
