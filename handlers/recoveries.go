package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
)

// recoveryRequest is the body of POST …/recoveries.
type recoveryRequest struct {
	Since tollgate.Instant `json:"since"`
}

func readRecoveryRequest(f *input.Fields) recoveryRequest {
	return recoveryRequest{f.Instant("since", true)}
}

// recoverWebhook stores a job that sends what the endpoint missed since a
// moment; the worker carries it out.
func (s *Server) recoverWebhook(c *call, r recoveryRequest) (*answer, error) {
	return s.webhookCommand(c, "webhooks.recover", r, func(caller rediskv.Caller, idem *rediskv.Idempotency, w *tollgate.StoredWebhook) (rediskv.Result, error) {
		recovery, err := tollgate.RecoverWebhook(s.store.Mint, s.store.Origin(caller), w.ID, r.Since)
		if err != nil {
			return rediskv.Result{}, err
		}
		reply, err := accepted("/v1/webhooks/"+w.ID+"/recoveries/"+recovery.ID, recovery, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitRecovery(c.ctx, caller, idem, recovery, reply)
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
