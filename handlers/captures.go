package handlers

import (
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv/accounts"
)

// captureRequest is the body of a capture. Its amount can only be read beside
// the payment, which has the currency.
type captureRequest struct {
	Amount    string            `json:"amount"` // empty: all that is capturable
	Final     bool              `json:"final_capture"`
	Reference *string           `json:"reference"`
	Metadata  tollgate.Metadata `json:"metadata"`
}

func parseCapture(f *input.Fields) captureRequest {
	return captureRequest{f.Amount("amount", false), f.Flag("final_capture", true), f.Note("reference", maxReference), f.Metadata()}
}

// capturePayment captures from the payment as it is read, and again from what
// a racing change made of it.
func (s *Server) capturePayment(c *call, r captureRequest) (*answer, error) {
	return s.transition(c, "payments.capture", http.StatusCreated, r.normalized, func(p *tollgate.Payment, t *tollgate.Ticket) (computed, error) {
		account, err := s.store.Account(c.ctx, c.org, p.MerchantAccountID)
		if err != nil {
			return computed{}, err
		}
		change, err := s.newCapture(c, r, account, p, t)
		if err != nil {
			return computed{}, err
		}
		return computed{change, account, change.Capture}, nil
	})
}

// normalized is what the Idempotency-Key stands for. "All" stays "all": what
// that is depends on when it is asked.
func (r captureRequest) normalized(p *tollgate.Payment) (any, error) {
	amount, err := r.of(p)
	if err != nil {
		return nil, err
	}
	if r.Amount == "" {
		r.Amount = "all"
	} else {
		r.Amount = amount.String()
	}
	return r, nil
}

// of is how much of a payment is captured.
func (r captureRequest) of(p *tollgate.Payment) (tollgate.Money, error) {
	if r.Amount == "" {
		return p.AmountCapturable, nil
	}
	return input.ParseAmount(r.Amount, p.Currency)
}

func (s *Server) newCapture(c *call, r captureRequest, a *accounts.Account, p *tollgate.Payment, t *tollgate.Ticket) (*tollgate.PaymentChange, error) {
	amount, err := r.of(p)
	if err != nil {
		return nil, err
	}
	now := s.clock()
	tried := *p // the payment says no before the rules are asked
	if _, _, err := tried.Capture(amount, r.Final, tollgate.At(now)); err != nil {
		return nil, err
	}
	priced, err := s.priced(c.ctx, c.org, t.Pinned(), tollgate.PricingInput{Amount: amount, Payee: string(p.Payee), CaptureIndex: uint32(p.Captures) + 1})
	if err != nil {
		return nil, err
	}
	return tollgate.CapturePayment(s.store.NewID, c.origin(now), p, t, tollgate.CaptureRequest{
		Amount: amount, Final: r.Final, Reference: r.Reference, Metadata: r.Metadata, SalesDay: a.Cutoffs.SalesDay(tollgate.At(now), a.Closed),
	}, priced)
}
