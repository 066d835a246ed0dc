package handlers

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

var (
	deliveryParameters = []string{"state", "event_type", "limit", "cursor"}
	pageParameters     = []string{"limit", "cursor"}
)

var deliveryStates = func() []string {
	names := make([]string, len(tollgate.DeliveryStates))
	for i, state := range tollgate.DeliveryStates {
		names[i] = string(state)
	}
	return names
}()

// listDeliveries lists an endpoint's deliveries, the newest first.
func (s *Server) listDeliveries(c *call) (*answer, error) {
	var q rediskv.DeliveryQuery
	p, err := readPage[int64](s, c, "desc", func(r *queryReader) {
		q = rediskv.DeliveryQuery{EventType: r.deliveredType("event_type")}
		for _, state := range r.choices("state", deliveryStates) {
			q.States = append(q.States, tollgate.DeliveryState(state))
		}
	})
	if err != nil {
		return nil, err
	}
	if _, err := s.webhook(c, http.StatusOK); err != nil {
		return nil, err
	}
	q.After, q.Limit = p.Position, p.limit
	rows, next, more, err := s.store.Deliveries(c.ctx, c.caller(http.StatusOK), c.pathID(), q)
	if err != nil {
		return nil, err
	}
	return pageOf(s, c, p, rows, more, next)
}

// deliveredType is an event type of which there can be deliveries.
func (q *queryReader) deliveredType(name string) string {
	text, ok := q.values[name]
	if !ok {
		return ""
	}
	for _, t := range tollgate.EventTypes {
		if t.Deliverable() && string(t) == text {
			return text
		}
	}
	q.faults.add(tollgate.Invalid(name, "%s is one event type that is delivered, such as payment.captured.", name))
	return ""
}

// listAttempts lists what was tried to deliver, the oldest first.
func (s *Server) listAttempts(c *call) (*answer, error) {
	p, err := readPage[int](s, c, "asc", func(*queryReader) {})
	if err != nil {
		return nil, err
	}
	if _, err := s.webhook(c, http.StatusOK); err != nil {
		return nil, err
	}
	rows, more, err := s.store.Attempts(c.ctx, c.caller(http.StatusOK), c.pathID(), c.params.ByName("delivery_id"), p.Position, p.limit)
	if err != nil {
		return nil, err
	}
	return pageOf(s, c, p, rows, more, p.Position+len(rows))
}

// pageOf is the answer with a page; next is where the following one begins.
func pageOf[T, P any](s *Server, c *call, p page[P], rows []T, more bool, next P) (*answer, error) {
	body := tollgate.List[tollgate.Listed[T]]{Object: "list", Data: make([]tollgate.Listed[T], len(rows)), HasMore: more}
	for i := range rows {
		body.Data[i] = tollgate.Listed[T]{Value: rows[i], Damage: damageOf(&rows[i])}
	}
	if more {
		cursor, err := p.next(s, c, next)
		if err != nil {
			return nil, err
		}
		body.NextCursor = &cursor
	}
	return object(body)
}

// damageOf is what stands in the place of a row that is stored and cannot be
// read; nil for any other.
func damageOf(row any) *tollgate.DamagedObject {
	d := &tollgate.DamagedObject{Damaged: true}
	damaged := false
	switch r := row.(type) {
	case *tollgate.Transaction:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Payment:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Refund:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.PayoutObject:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Export:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Delivery:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Rule:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.ActivationAnswer:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Shadow:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *perimeterRow:
		d.Object, d.ID, damaged = r.Object, r.ID, r.damage != nil
	case *tollgate.WebhookEndpoint:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	}
	if !damaged {
		return nil
	}
	return d
}

// replayRequest is the body of POST …/replays.
type replayRequest struct {
	Reason *string `json:"reason"`
}

func readReplay(f *fields) replayRequest { return replayRequest{f.note("reason", maxDescription)} }

// replayDelivery has a delivery sent again, whatever became of it.
func (s *Server) replayDelivery(c *call, r replayRequest) (*answer, error) {
	return s.webhookCommand(c, "webhooks.replay", r, func(caller rediskv.Caller, idem *rediskv.Idempotency, w *tollgate.StoredWebhook) (rediskv.Result, error) {
		delivery, err := s.store.Delivery(c.ctx, caller, w.ID, c.params.ByName("delivery_id"))
		if err != nil {
			return rediskv.Result{}, err
		}
		replay, err := tollgate.ReplayDelivery(s.store.Mint, s.store.Origin(caller), *delivery, r.Reason)
		if err != nil {
			return rediskv.Result{}, err
		}
		reply, err := accepted("", replay.Replay, w.MerchantAccountIDs)
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
	idem, err := c.idempotency(c.org, operation, request)
	if err != nil {
		return nil, err
	}
	result, err := rediskv.Retried(func() (rediskv.Result, error) {
		w, err := s.webhook(c, http.StatusAccepted)
		if err != nil {
			return rediskv.Result{}, err
		}
		return do(c.caller(http.StatusAccepted), keyOf(idem), w)
	})
	if err != nil {
		return s.orRepeated(c, idem, err)
	}
	return s.answered(c, idem, result)
}

// accepted is the answer 202 with the JSON of v, which is about accounts.
func accepted(location string, v any, accounts []string) (rediskv.Answer, error) {
	body, err := json.Marshal(v, json.Deterministic(true))
	return rediskv.Answer{Status: http.StatusAccepted, Location: location, Body: body, Reach: reachOf(accounts)}, err
}
