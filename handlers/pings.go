package handlers

import (
	"tollgate"
	"tollgate/rediskv"
)

// testWebhook has a signed ping sent: a delivery like others, whatever the
// endpoint's filters.
func (s *Server) testWebhook(c *call) (*answer, error) {
	return s.webhookCommand(c, "webhooks.test", nil, func(caller rediskv.Caller, idem *rediskv.Idempotency, w *tollgate.StoredWebhook) (rediskv.Result, error) {
		ping, err := tollgate.PingWebhook(s.store.Mint, s.store.Origin(caller), w)
		if err != nil {
			return rediskv.Result{}, err
		}
		reply, err := accepted("", ping.Delivery, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitPing(c.ctx, caller, idem, ping, reply)
	})
}
