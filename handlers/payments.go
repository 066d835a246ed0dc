package handlers

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
)

// Lengths of free text (interface §4).
const (
	maxReference   = 64
	maxDescription = 255
)

// paymentRequest is the body of POST /v1/payments, checked. Its JSON is the
// normalized request that the Idempotency-Key stands for.
type paymentRequest struct {
	Account     string                 `json:"merchant_account_id"`
	Amount      tollgate.Money         `json:"amount"`
	Currency    tollgate.Currency      `json:"currency"`
	Payee       string                 `json:"payee"`
	Method      tollgate.CaptureMethod `json:"capture_method"`
	Reference   *string                `json:"reference"`
	Description *string                `json:"description"`
	Metadata    tollgate.Metadata      `json:"metadata"`

	payee   tollgate.Payee
	refusal *tollgate.Error // of a payee that earlier releases took
}

func parsePayment(f *input.Fields) paymentRequest {
	r := paymentRequest{
		Account: f.ID("merchant_account_id"), Amount: f.Money("amount", "currency"), Currency: f.Currency("currency"),
	}
	r.payee, r.Payee, r.refusal = f.TakenPayee("payee")
	r.Method = tollgate.CaptureMethod(f.Choice("capture_method", string(tollgate.CaptureManual), string(tollgate.CaptureManual), string(tollgate.CaptureAutomatic)))
	r.Reference, r.Description, r.Metadata = f.Note("reference", maxReference), f.Note("description", maxDescription), f.Metadata()
	return r
}

func (r paymentRequest) Refused() *tollgate.Error { return r.refusal }

// earlier is the request as earlier releases normalized it, where that differs.
func (r paymentRequest) earlier() []any {
	text := r.payee.Earlier()
	if r.refusal != nil || text == r.Payee {
		return nil
	}
	r.Payee = text
	return []any{r}
}

// createPayment prices with the configuration as it is cached and commits; if
// the commit finds that the configuration was no longer in force, it is done
// again with the new one.
func (s *Server) createPayment(c *call, r paymentRequest) (*answer, error) {
	return fresh(s, c, func() (*answer, error) { return s.tryCreate(c, r) })
}

func (s *Server) tryCreate(c *call, r paymentRequest) (*answer, error) {
	account, err := s.account(c, r.Account, "merchant_account_id")
	if err != nil && r.refusal != nil {
		return nil, r.refusal
	}
	if err != nil {
		return nil, err
	}
	r.Account = account.ID
	idem, err := c.idempotency(account.ID, "payments.create", r, r.earlier()...)
	if err != nil {
		return nil, err
	}
	if r.refusal != nil {
		return s.orRepeated(c, idem, r.refusal)
	}
	if err := usable(account, r.Currency, "currency"); err != nil {
		return s.orRepeated(c, idem, err)
	}
	now := s.clock()
	result, priced, err := s.commitPayment(c, account, r, idem, now, account.Perimeter.Decide(r.Amount, r.payee, now))
	if full, ok := errors.AsType[*payments.BudgetError](err); ok {
		result, priced, err = s.commitPayment(c, account, r, idem, now, account.Perimeter.Exceeded(full.Reservation))
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return s.refusePayment(c, "create", idem, account, refused.error)
	}
	if err != nil {
		return nil, err
	}
	if !result.Repeated {
		s.shadows.Offer(account, priced)
	}
	return s.answered(c, idem, result)
}

// refusal is an error because of which there is no payment.
type refusal struct{ error }

func (s *Server) commitPayment(c *call, a *accounts.Account, r paymentRequest, idem rediskv.Idempotency, now time.Time, d tollgate.PerimeterDecision) (rediskv.Result, tollgate.Pricing, error) {
	// The rules come first: a payment that a rule refuses does not exist, one
	// that the perimeter denies is kept as declined.
	authorized, err := s.priced(c.ctx, a.OrganizationID, a.Rules, tollgate.PricingInput{Amount: r.Amount, Payee: r.Payee})
	if err != nil {
		return rediskv.Result{}, authorized, &refusal{err}
	}
	change, err := s.newPayment(c, a, r, now, d, authorized)
	if err != nil {
		return rediskv.Result{}, authorized, &refusal{err}
	}
	reply, err := s.paymentAnswer(c, change.Payment)
	if err != nil {
		return rediskv.Result{}, authorized, err
	}
	result, err := s.store.CreatePayment(c.ctx, c.caller(reply.Status), idem, a, change, reply)
	return result, authorized, err
}

// newPayment prices the capture of a payment that is captured at once.
func (s *Server) newPayment(c *call, a *accounts.Account, r paymentRequest, now time.Time, decision tollgate.PerimeterDecision, authorized tollgate.Pricing) (*tollgate.PaymentChange, error) {
	var captured *tollgate.Pricing
	if decision.Decision == tollgate.DecisionAllow && r.Method == tollgate.CaptureAutomatic {
		in := authorized.Input
		in.CaptureIndex = 1
		first, err := s.priced(c.ctx, a.OrganizationID, a.Rules, in)
		if err != nil {
			return nil, err
		}
		captured = &first
	}
	return tollgate.CreatePayment(s.store.NewID, c.origin(now), tollgate.NewPayment{
		MerchantAccountID: a.ID, Amount: r.Amount, Payee: r.Payee, CaptureMethod: r.Method,
		CaptureWindowHours: a.CaptureWindowHours, SalesDay: a.Cutoffs.SalesDay(tollgate.At(now), a.Closed), Reference: r.Reference, Description: r.Description, Metadata: r.Metadata,
		Reservations: a.Perimeter.Reservations(a.ID, r.Amount, r.payee, now), Numbered: s.store.Layout() >= rediskv.Together,
	}, decision, authorized, captured)
}

// paymentAnswer is what the creation of a payment is answered with, now and
// when it is repeated.
func (s *Server) paymentAnswer(c *call, p *tollgate.Payment) (rediskv.Answer, error) {
	if p.Status == tollgate.Declined {
		return problem.Of(&tollgate.Error{
			Code: tollgate.CodePerimeterDenied, Message: "The perimeter denied this payment: " + string(p.Perimeter.Reason) + ".",
			Context: tollgate.ErrorContext{Perimeter: &p.Perimeter, PaymentID: p.ID, TicketID: p.TicketID, Status: p.Status},
		}, c.id), nil
	}
	body, err := bodies.Of(p)
	return rediskv.Answer{Status: http.StatusCreated, Location: placeOf(p), Body: body, Shows: true}, err
}

func placeOf(p *tollgate.Payment) string { return "/v1/payments/" + p.ID }

// refusePayment answers for a rule: its refusal is kept for repeats, its
// failure is not (interface §4).
func (s *Server) refusePayment(c *call, action string, idem rediskv.Idempotency, a *accounts.Account, err error) (*answer, error) {
	e := problem.From(err)
	if e.Code != tollgate.CodeRuleRejected || idem.Key == "" {
		return s.orRepeated(c, idem, err)
	}
	reply := problem.Of(e, c.id)
	result, err := s.store.RefusePayment(c.ctx, c.caller(reply.Status), action, idem, a, reply, string(e.Code)+" "+e.Rule.String())
	if err != nil {
		return nil, err
	}
	return s.answered(c, idem, result)
}

var paymentParameters = []string{
	"status", "merchant_account_id", "payee", "currency", "reference", "created_after", "created_before", "order", "limit", "cursor",
}

// listPayments searches payments, the newest first.
func (s *Server) listPayments(c *call) (*answer, error) {
	return search(s, c, func(r *input.Query) ledger.TransactionQuery { return parseSearch(r, tollgate.PaymentStatuses) }, c.store.Payments)
}

func (s *Server) getPayment(c *call) (*answer, error) {
	p, t, err := s.payment(c, http.StatusOK)
	if err != nil {
		return nil, err
	}
	return c.tagged(tagOf(t), func() (*answer, error) { return object(p) })
}

// tagOf is the ETag of a ticket, and of its payment. What both are shown as depends on
// what is stored, and on how this build writes it (bodies.Version): not on the clock, and
// not on who asks. With each change of either goes one event, whose id the ticket has. The
// revision would not do: a Redis that has lost its latest writes counts from an earlier one
// again.
func tagOf(t *tollgate.Ticket) string {
	if len(t.EventIDs) == 0 {
		return ""
	}
	tag := bodies.Version + "-" + t.EventIDs[len(t.EventIDs)-1]
	if t.ErasedAt != 0 { // of which no event tells
		tag += "-erased"
	}
	return `"` + tag + `"`
}

// payment reads the payment that a path names, if the grant reaches it.
func (s *Server) payment(c *call, status int) (*tollgate.Payment, *tollgate.Ticket, error) {
	p, t, err := c.store.Payment(c.ctx, c.caller(status), c.pathID())
	if err != nil {
		return nil, nil, err
	}
	if !c.grant.Covers(p.MerchantAccountID) {
		return nil, nil, accountForbidden()
	}
	return p, t, nil
}

// maxConflicts bounds how often a change is computed again because another one
// came first. Each conflict is somebody else's success, and 50 captures are
// the most that a payment takes.
const maxConflicts = 64

// computed is a transition and what to answer when it is made.
type computed struct {
	change  *tollgate.PaymentChange
	account *accounts.Account // of a capture: whose sales day it belongs to
	body    any
}

// transition carries out a transition of an existing payment. request gives what
// its Idempotency-Key stands for, compute the change and what to answer. It is
// computed first from the copy that this instance may have of the payment, and
// committed if the payment still is so. What a copy says no to, and what is no
// longer the payment, or the sales day of a capture, that it was computed from, is
// computed again from Redis: a copy is never the reason of a refusal.
func (s *Server) transition(c *call, operation string, status int,
	request func(*tollgate.Payment) (any, error),
	compute func(*tollgate.Payment, *tollgate.Ticket) (computed, error),
) (*answer, error) {
	decide := func(p *tollgate.Payment, t *tollgate.Ticket) (idem rediskv.Idempotency, made computed, err error) {
		normalized, err := request(p)
		if err != nil {
			return idem, made, err
		}
		if idem, err = c.idempotency(p.MerchantAccountID, operation, normalized); err == nil {
			made, err = compute(p, t)
		}
		return idem, made, err
	}
	if p, t := s.store.Kept(c.org, c.pathID()); p != nil && c.grant.Covers(p.MerchantAccountID) {
		if idem, made, err := decide(p, t); err == nil {
			if a, err := s.commitTransition(c, idem, made, status); !s.outdated(c, err) {
				return a, err
			}
		}
	}
	for range maxConflicts {
		p, t, err := s.payment(c, status)
		if err != nil {
			return nil, err
		}
		idem, made, err := decide(p, t)
		if err != nil && problem.From(err).Code == tollgate.CodeAuthorizationExpired {
			err = s.store.Lapse(c.ctx, c.caller(status), p)
		}
		if err != nil {
			return s.refuseTransition(c, idem, p.MerchantAccountID, err)
		}
		if a, err := s.commitTransition(c, idem, made, status); !s.outdated(c, err) {
			return a, err
		}
	}
	return nil, problem.New(tollgate.CodePaymentStateInvalid, "The payment is being changed by too many requests at once; try again.")
}

// outdated reports whether a commit found that something was no longer as it was
// computed from.
func (s *Server) outdated(c *call, err error) bool {
	if errors.Is(err, rediskv.ErrStale) {
		s.store.Refresh(c.org)
		return true
	}
	return errors.Is(err, rediskv.ErrConflict)
}

func (s *Server) commitTransition(c *call, idem rediskv.Idempotency, made computed, status int) (*answer, error) {
	text, err := bodies.Of(made.body)
	if err != nil {
		return nil, err
	}
	result, err := s.store.Transition(c.ctx, c.caller(status), keyOf(idem), made.account, made.change, rediskv.Answer{Status: status, Body: text, Shows: true})
	if err != nil {
		return nil, err
	}
	return s.answered(c, idem, result)
}

// refuseTransition answers for a payment that is not in a state for the change,
// or for a rule that refused to price it; a rule's refusal is kept.
func (s *Server) refuseTransition(c *call, idem rediskv.Idempotency, accountID string, refusal error) (*answer, error) {
	if problem.From(refusal).Code != tollgate.CodeRuleRejected || idem.Key == "" {
		return s.orRepeated(c, idem, refusal)
	}
	return fresh(s, c, func() (*answer, error) {
		account, err := s.store.Account(c.ctx, c.org, accountID)
		if err != nil {
			return nil, err
		}
		return s.refusePayment(c, strings.TrimPrefix(idem.Operation(), "payments."), idem, account, refusal)
	})
}
