package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/rediskv"
)

// recoveryRequest is the body of POST …/recoveries.
type recoveryRequest struct {
	Since tollgate.Instant `json:"since"`
}

func readRecoveryRequest(f *fields) recoveryRequest { return recoveryRequest{f.instant("since", true)} }

// recoverWebhook stores a job that sends what the endpoint missed since a
// moment; the worker carries it out.
func (s *Server) recoverWebhook(c *call, r recoveryRequest) (*answer, error) {
	return s.webhookCommand(c, "webhooks.recover", r, func(idem *rediskv.Idempotency, w *tollgate.Endpoint) (rediskv.Result, error) {
		now := tollgate.At(s.clock())
		if r.Since > now {
			return rediskv.Result{}, tollgate.Invalid("since", "since lies in the future.")
		}
		recovery := tollgate.Recovery{
			Object: "recovery", ID: s.store.Mint(tollgate.PrefixRecovery), CreatedAt: now, WebhookID: c.pathID(),
			Since: r.Since, State: "pending",
		}
		reply, err := accepted("/v1/webhooks/"+recovery.WebhookID+"/recoveries/"+recovery.ID, recovery, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.Recover(c.ctx, c.caller(reply.Status), idem, recovery.WebhookID, recovery, reply)
	})
}

func (s *Server) readRecovery(c *call) (*answer, error) {
	if _, err := s.webhook(c, http.StatusOK); err != nil {
		return nil, err
	}
	r, err := s.store.Recovery(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("recovery_id"))
	if err != nil {
		return nil, err
	}
	return object(r)
}
