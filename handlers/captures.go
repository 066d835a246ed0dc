package handlers

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// captureRequest is the body of a capture. Its amount can only be read beside
// the payment, which has the currency.
type captureRequest struct {
	amount    string // empty: all that is capturable
	final     bool
	reference *string
	metadata  tollgate.Metadata
}

func readCapture(f *fields) captureRequest {
	f.money("amount", false, "") // its form
	amount := ""
	if f.has("amount") && f.members["amount"].Kind() == '"' {
		amount = unquote(f.members["amount"])
	}
	return captureRequest{amount, f.flag("final_capture", true), f.note("reference", maxReference), f.metadata()}
}

// maxConflicts bounds how often a change is computed again because another one
// came first. Each conflict is somebody else's success, and 50 captures are
// the most that a payment takes.
const maxConflicts = 64

// capturePayment captures from the payment as it is read, and again from what
// a racing change made of it.
func (s *Server) capturePayment(c *call, r captureRequest) (*answer, error) {
	return s.change(c, "payments.capture", http.StatusCreated, func(p *tollgate.Payment) (any, error) {
		return r.normalized(p)
	}, func(p *tollgate.Payment, t *tollgate.Ticket) (computed, error) {
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

// computed is a transition and what to answer when it is made.
type computed struct {
	change  *tollgate.PaymentChange
	account *rediskv.Account // of a capture or a refund: whose sales day it belongs to
	body    any
}

// normalized is what the Idempotency-Key stands for. "All" stays "all": what
// that is depends on when it is asked.
func (r captureRequest) normalized(p *tollgate.Payment) (any, error) {
	amount, err := normalizedAmount(r.amount, p.Currency)
	return struct {
		Amount    string            `json:"amount"`
		Final     bool              `json:"final_capture"`
		Reference *string           `json:"reference"`
		Metadata  tollgate.Metadata `json:"metadata"`
	}{amount, r.final, r.reference, r.metadata}, err
}

func normalizedAmount(amount string, c tollgate.Currency) (string, error) {
	if amount == "" {
		return "all", nil
	}
	m, err := parseAmount(amount, c)
	return m.String(), err
}

func (s *Server) newCapture(c *call, r captureRequest, a *rediskv.Account, p *tollgate.Payment, t *tollgate.Ticket) (*tollgate.PaymentChange, error) {
	amount := p.AmountCapturable
	if r.amount != "" {
		var err error
		if amount, err = parseAmount(r.amount, p.Currency); err != nil {
			return nil, err
		}
	}
	now := s.clock()
	tried := *p // the payment says no before the rules are asked
	if _, _, err := tried.Capture(amount, r.final, tollgate.At(now)); err != nil {
		return nil, err
	}
	priced, err := s.priced(c.ctx, c.org, t.Pinned(), tollgate.PricingInput{Amount: amount, Payee: p.Payee, CaptureIndex: uint32(p.Captures) + 1})
	if err != nil {
		return nil, err
	}
	return tollgate.CapturePayment(s.store.Mint, c.origin(now), p, t, tollgate.CaptureRequest{
		Amount: amount, Final: r.final, Reference: r.reference, Metadata: r.metadata, Batch: a.Cutoffs.Batch(tollgate.At(now), a.Closed),
	}, priced)
}

// change carries out a transition of an existing payment. request gives what
// its Idempotency-Key stands for, compute the change and what to answer. It is
// computed again when the payment, or the sales day of a capture, is no longer
// the one that it was computed from.
func (s *Server) change(c *call, operation string, status int,
	request func(*tollgate.Payment) (any, error),
	compute func(*tollgate.Payment, *tollgate.Ticket) (computed, error),
) (*answer, error) {
	for range maxConflicts {
		p, t, err := s.payment(c, status)
		if err != nil {
			return nil, err
		}
		normalized, err := request(p)
		if err != nil {
			return nil, err
		}
		idem, err := c.idempotency(p.MerchantAccountID, operation, normalized)
		if err != nil {
			return nil, err
		}
		made, err := compute(p, t)
		if err != nil && errorOf(err).Code == tollgate.CodeAuthorizationExpired {
			err = s.store.Lapse(c.ctx, c.caller(status), p)
		}
		if err != nil {
			return s.refuseChange(c, idem, p.MerchantAccountID, err)
		}
		a, err := s.commitChange(c, idem, made, status)
		switch {
		case errors.Is(err, rediskv.ErrStale):
			s.store.Refresh(c.org)
		case !errors.Is(err, rediskv.ErrConflict):
			return a, err
		}
	}
	return nil, problemError(tollgate.CodePaymentStateInvalid, "The payment is being changed by too many requests at once; try again.")
}

func (s *Server) commitChange(c *call, idem rediskv.Idempotency, made computed, status int) (*answer, error) {
	text, err := json.Marshal(made.body, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	result, err := s.store.ChangePayment(c.ctx, c.caller(status), keyOf(idem), made.account, made.change, rediskv.Answer{Status: status, Body: text})
	if err != nil {
		return nil, err
	}
	return s.answered(c, idem, result)
}

// refuseChange answers for a payment that is not in a state for the change,
// or for a rule that refused to price it; a rule's refusal is kept.
func (s *Server) refuseChange(c *call, idem rediskv.Idempotency, accountID string, refusal error) (*answer, error) {
	if errorOf(refusal).Code != tollgate.CodeRuleRejected || idem.Key == "" {
		return s.orRepeated(c, idem, refusal)
	}
	for range maxAttempts {
		account, err := s.store.Account(c.ctx, c.org, accountID)
		if err != nil {
			return nil, err
		}
		a, err := s.refusePayment(c, strings.TrimPrefix(idem.Operation(), "payments."), idem, account, refusal)
		if !errors.Is(err, rediskv.ErrStale) {
			return a, err
		}
		s.store.Refresh(c.org)
	}
	return nil, busy()
}
