package handlers

import (
	"errors"
	"net/http"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
)

// refundRequest is the body of a refund. Its amount can only be read beside the
// payment, which has the currency.
type refundRequest struct {
	Amount string  `json:"amount"` // empty: all that is refundable
	Reason *string `json:"reason"`
}

func parseRefund(f *input.Fields) refundRequest {
	return refundRequest{f.Amount("amount", false), f.Note("reason", maxDescription)}
}

// normalized is what the Idempotency-Key stands for. "All" stays "all".
func (r refundRequest) normalized(p *tollgate.Payment) (any, error) {
	if r.Amount == "" {
		r.Amount = "all"
		return r, nil
	}
	amount, err := input.ParseAmount(r.Amount, p.Currency)
	r.Amount = amount.String()
	return r, err
}

// refundPayment refunds from the payment as it is read, and again from what a
// racing change made of it.
func (s *Server) refundPayment(c *call, r refundRequest) (*answer, error) {
	return s.transition(c, "payments.refund", http.StatusCreated, r.normalized, func(p *tollgate.Payment, t *tollgate.Ticket) (computed, error) {
		account, err := s.store.Account(c.ctx, c.org, p.MerchantAccountID)
		if err != nil {
			return computed{}, err
		}
		change, err := s.newRefund(c, r, account, p, t)
		if err != nil {
			return computed{}, err
		}
		return computed{change, account, change.Refund}, nil
	})
}

func (s *Server) newRefund(c *call, r refundRequest, a *accounts.Account, p *tollgate.Payment, t *tollgate.Ticket) (*tollgate.PaymentChange, error) {
	now := s.clock()
	request := tollgate.RefundRequest{Amount: p.AmountRefundable, Reason: r.Reason, Account: a.Status, SalesDay: a.Cutoffs.SalesDay(tollgate.At(now), a.Closed)}
	var err error
	if r.Amount != "" {
		if request.Amount, err = input.ParseAmount(r.Amount, p.Currency); err != nil {
			return nil, err
		}
	}
	tried := *p // the payment says no before the rules are asked
	if _, err := tried.Refund(request, tollgate.At(now)); err != nil {
		return nil, err
	}
	if request.Restore, err = s.restores(c, a, p); err != nil {
		return nil, err
	}
	priced, err := s.priced(c.ctx, c.org, t.Pinned(), tollgate.PricingInput{Amount: request.Amount, Payee: string(p.Payee), Refund: true})
	if err != nil {
		return nil, err
	}
	return tollgate.RefundPayment(s.store.NewID, c.origin(now), p, t, request, priced)
}

// restores reports whether a refund goes back to the budgets that counted the
// payment, as the version of the perimeter says that decided about it: as a rule the
// account's, which is known.
func (s *Server) restores(c *call, a *accounts.Account, p *tollgate.Payment) (bool, error) {
	if !p.Budgeted() {
		return false, nil
	}
	ref := tollgate.PerimeterRef{ID: p.Perimeter.ID, Version: p.Perimeter.Version}
	if a.MerchantAccount.Perimeter == ref {
		return a.Perimeter.RefundsRestoreBudget(), nil
	}
	found, err := s.store.PerimeterDocuments(c.ctx, c.org, []tollgate.PerimeterRef{ref})
	if err != nil {
		return false, err
	}
	if found[0].Damage != nil || found[0].PerimeterDocument == nil {
		return false, s.store.DamagedPerimeter(c.ctx, c.org, ref, errors.Join(found[0].Damage, errors.New("it is not there")))
	}
	decided, err := found[0].Compile()
	if err != nil {
		return false, s.store.DamagedPerimeter(c.ctx, c.org, ref, err)
	}
	return decided.RefundsRestoreBudget(), nil
}

// listRefunds lists a payment's refunds in the order in which they were made.
func (s *Server) listRefunds(c *call) (*answer, error) {
	page, err := readPage[int](s, c, "asc", func(*input.Query) {})
	if err != nil {
		return nil, err
	}
	var p *tollgate.Payment
	read := rediskv.Beside(func() (err error) { p, _, err = s.payment(c, http.StatusOK); return err })
	rows, err := c.store.Refunds(c.ctx, c.caller(http.StatusOK), c.pathID())
	if read(&err); err != nil {
		return nil, err
	}
	rows = rows[min(page.Position, len(rows)):]
	more := len(rows) > page.Limit
	rows = rows[:min(page.Limit, len(rows))]
	for i := range rows {
		rows[i].Payment = p
	}
	return pageOf(page, rows, more, page.Position+len(rows))
}

// getRefund answers a refund with its payment as it is now.
func (s *Server) getRefund(c *call) (*answer, error) {
	caller := c.caller(http.StatusOK)
	r, err := c.store.Refund(c.ctx, caller, c.pathID())
	if err != nil {
		return nil, err
	}
	if !c.grant.Covers(r.MerchantAccountID) {
		return nil, accountForbidden()
	}
	if r.Payment, _, err = c.store.Payment(c.ctx, caller, r.PaymentID); err != nil {
		return nil, err
	}
	return object(r)
}
