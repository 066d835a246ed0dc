package handlers

import (
	"net/http"
	"slices"

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
		Object: "webhook_endpoint", ID: s.store.Mint(tollgate.PrefixWebhook), CreatedAt: now, UpdatedAt: now,
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
		change, err := tollgate.CreateWebhook(s.store.Mint, s.store.Origin(c.caller(http.StatusCreated)), there, w)
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

// listWebhooks lists the endpoints that the grant reaches, the oldest first.
func (s *Server) listWebhooks(c *call) (*answer, error) {
	p, err := readPage[string](s, c, "asc", func(*input.Query) {})
	if err != nil {
		return nil, err
	}
	var found []tollgate.WebhookEndpoint
	after, more := p.Position, true
	for more && len(found) <= p.Limit {
		var rows []tollgate.StoredWebhook
		if rows, more, err = s.store.Webhooks(c.ctx, c.caller(http.StatusOK), after, 2*tollgate.MaxWebhooks); err != nil {
			return nil, err
		}
		for _, w := range rows {
			after = w.ID
			if c.reaches(&w.WebhookEndpoint) {
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

// reaches reports whether the grant covers all that an endpoint is sent.
func (c *call) reaches(w *tollgate.WebhookEndpoint) bool {
	if len(w.MerchantAccountIDs) == 0 {
		return len(c.grant.MerchantAccountIDs) == 0
	}
	return !slices.ContainsFunc(w.MerchantAccountIDs, func(id string) bool { return !c.grant.Covers(id) })
}

// webhook reads the endpoint that a path names, if the grant reaches it.
func (s *Server) webhook(c *call, status int) (*tollgate.StoredWebhook, error) {
	w, err := s.store.Webhook(c.ctx, c.caller(status), c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.reaches(&w.WebhookEndpoint) {
		return nil, problem.New(tollgate.CodeMerchantAccountForbidden, "The grant does not cover all merchant accounts of this endpoint.")
	}
	return w, nil
}

func (s *Server) readWebhook(c *call) (*answer, error) {
	w, err := s.webhook(c, http.StatusOK)
	if err != nil {
		return nil, err
	}
	return object(w.WebhookEndpoint)
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
		change, err := tollgate.DeleteWebhook(s.store.Mint, s.store.Origin(caller), *w)
		if err != nil {
			return nil, err
		}
		if _, err := s.store.CommitWebhook(c.ctx, caller, nil, change, rediskv.Answer{}); err != nil {
			return nil, err
		}
		return object(deleted{"webhook_endpoint", w.ID, true})
	})
}
