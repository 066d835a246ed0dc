package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
)

// cancelRequest and reviewRequest are the bodies of the two steps that a
// person takes; their JSON is what the Idempotency-Key stands for.
type cancelRequest struct {
	Reason *string `json:"reason"`
}

type reviewRequest struct {
	Decision string  `json:"decision"` // approve or reject
	Note     *string `json:"note"`
}

func parseCancel(f *input.Fields) cancelRequest {
	return cancelRequest{f.Note("reason", maxDescription)}
}

func parseReview(f *input.Fields) reviewRequest {
	return reviewRequest{f.Choice("decision", "", "approve", "reject"), f.Note("note", maxDescription)}
}

func (s *Server) cancelPayment(c *call, r cancelRequest) (*answer, error) {
	return s.step(c, "payments.cancel", r, tollgate.TriggerCancel, r.Reason)
}

func (s *Server) reviewPayment(c *call, r reviewRequest) (*answer, error) {
	trigger := tollgate.TriggerApprove
	if r.Decision == "reject" {
		trigger = tollgate.TriggerReject
	}
	return s.step(c, "payments.review", r, trigger, r.Note)
}

// step carries out a trigger other than a capture and answers with the payment.
func (s *Server) step(c *call, operation string, request any, trigger tollgate.Trigger, reason *string) (*answer, error) {
	return s.transition(c, operation, http.StatusOK, func(*tollgate.Payment) (any, error) {
		return request, nil
	}, func(p *tollgate.Payment, t *tollgate.Ticket) (computed, error) {
		change, err := tollgate.TransitionPayment(s.store.NewID, c.origin(s.clock()), p, t, trigger, reason)
		return computed{change: change, body: p}, err
	})
}
