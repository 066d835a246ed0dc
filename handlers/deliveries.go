package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
	"tollgate/rediskv/webhooks"
)

var deliveryParameters = []string{"state", "event_type", "limit", "cursor"}

var deliveryStates = words(tollgate.DeliveryStates)

// listDeliveries lists an endpoint's deliveries, the newest first.
func (s *Server) listDeliveries(c *call) (*answer, error) {
	var q webhooks.DeliveryQuery
	p, err := readPage[int64](s, c, "desc", func(r *input.Query) {
		q = webhooks.DeliveryQuery{EventType: r.DeliveredType("event_type")}
		for _, state := range r.Choices("state", deliveryStates) {
			q.States = append(q.States, tollgate.DeliveryState(state))
		}
	})
	if err != nil {
		return nil, err
	}
	reached := s.webhookReached(c)
	q.After, q.Limit = p.Position, p.Limit
	rows, next, more, err := c.store.Deliveries(c.ctx, c.caller(http.StatusOK), c.pathID(), q)
	if reached(&err); err != nil {
		return nil, err
	}
	return pageOf(p, rows, more, next)
}

// webhookReached finds out, beside what is read of an endpoint, whether the grant
// reaches it.
func (s *Server) webhookReached(c *call) (done func(err *error)) {
	return rediskv.Beside(func() error { _, err := s.webhook(c, http.StatusOK); return err })
}

// listAttempts lists what was tried to deliver, the oldest first.
func (s *Server) listAttempts(c *call) (*answer, error) {
	p, err := readPage[int](s, c, "asc", nil)
	if err != nil {
		return nil, err
	}
	reached := s.webhookReached(c)
	rows, more, err := c.store.Attempts(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("delivery_id"), p.Position, p.Limit)
	if reached(&err); err != nil {
		return nil, err
	}
	return pageOf(p, rows, more, p.Position+len(rows))
}

// replayRequest is the body of POST …/replays.
type replayRequest struct {
	Reason *string `json:"reason"`
}

func parseReplay(f *input.Fields) replayRequest {
	return replayRequest{f.Note("reason", maxDescription)}
}

// replayDelivery has a delivery sent again, whatever became of it.
func (s *Server) replayDelivery(c *call, r replayRequest) (*answer, error) {
	return s.webhookCommand(c, "webhooks.replay", r, func(caller rediskv.Caller, idem *rediskv.Idempotency, w *tollgate.StoredWebhook) (rediskv.Result, error) {
		delivery, err := s.store.Delivery(c.ctx, caller, w.ID, c.params.ByName("delivery_id"))
		if err != nil {
			return rediskv.Result{}, err
		}
		replay, err := tollgate.ReplayDelivery(s.store.NewID, s.store.Origin(caller), *delivery, r.Reason)
		if err != nil {
			return rediskv.Result{}, err
		}
		reply, err := reply(http.StatusAccepted, "", replay.Replay, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitReplay(c.ctx, caller, idem, replay, reply)
	})
}

// webhookCommand carries out what is queued for the worker: nothing of it is
// secret, and the answer is 202.
func (s *Server) webhookCommand(c *call, operation string, request any,
	do func(rediskv.Caller, *rediskv.Idempotency, *tollgate.StoredWebhook) (rediskv.Result, error),
) (*answer, error) {
	return s.command(c, operation, request, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		w, err := s.webhook(c, http.StatusAccepted)
		if err != nil {
			return rediskv.Result{}, err
		}
		return do(c.caller(http.StatusAccepted), idem, w)
	})
}

// recoveryRequest is the body of POST …/recoveries.
type recoveryRequest struct {
	Since tollgate.Instant `json:"since"`
}

func parseRecoveryRequest(f *input.Fields) recoveryRequest {
	return recoveryRequest{f.Instant("since", true)}
}

// recoverWebhook stores a job that sends what the endpoint missed since a
// moment; the worker carries it out.
func (s *Server) recoverWebhook(c *call, r recoveryRequest) (*answer, error) {
	return s.webhookCommand(c, "webhooks.recover", r, func(caller rediskv.Caller, idem *rediskv.Idempotency, w *tollgate.StoredWebhook) (rediskv.Result, error) {
		recovery, err := tollgate.RecoverWebhook(s.store.NewID, s.store.Origin(caller), w.ID, r.Since)
		if err != nil {
			return rediskv.Result{}, err
		}
		reply, err := reply(http.StatusAccepted, "/v1/webhooks/"+w.ID+"/recoveries/"+recovery.ID, recovery, w.MerchantAccountIDs)
		if err != nil {
			return rediskv.Result{}, err
		}
		return s.store.CommitRecovery(c.ctx, caller, idem, recovery, reply)
	})
}

func (s *Server) getRecovery(c *call) (*answer, error) {
	reached := s.webhookReached(c)
	r, err := c.store.Recovery(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("recovery_id"))
	if reached(&err); err != nil {
		return nil, err
	}
	return object(r)
}
