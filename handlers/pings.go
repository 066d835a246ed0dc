package handlers

import (
	"tollgate"
	"tollgate/rediskv"
)

// testWebhook has a signed ping sent: a delivery like others, whatever the
// endpoint's filters.
func (s *Server) testWebhook(c *call) (*answer, error) {
	return s.webhookCommand(c, "webhooks.test", nil, func(idem *rediskv.Idempotency, w *tollgate.Endpoint) (rediskv.Result, error) {
		now := tollgate.At(s.clock())
		ping, err := tollgate.NewEvent(s.store.Mint(tollgate.PrefixEvent), tollgate.EventPing, now, c.org, "", c.id, struct {
			WebhookID string `json:"webhook_id"`
		}{w.ID})
		if err != nil {
			return rediskv.Result{}, err
		}
		delivery := tollgate.Delivery{
			Object: "delivery", ID: tollgate.DeliveryOf(ping.ID, w.ID), CreatedAt: now, WebhookID: w.ID,
			EventID: ping.ID, EventType: ping.Type, State: tollgate.DeliveryPending,
		}
		if w.Status != tollgate.WebhookActive {
			delivery.State = tollgate.DeliveryHeld
		}
		reply, err := accepted("", delivery, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.PingWebhook(c.ctx, c.caller(reply.Status), idem, w.ID, ping, reply)
	})
}
