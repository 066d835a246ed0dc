package handlers

import (
	"errors"
	"fmt"
	"time"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/rediskv/accounts"
)

// quoteTool is the name that the specification gives the quote (spec §2).
const quoteTool = "quote_ticket"

// quoteRequest is the quote input; prefix is what its parameters are called
// by: "input." when the call was wrapped.
type quoteRequest struct {
	prefix  string
	account string
	amount  tollgate.Money
	payee   tollgate.Payee
}

// parseQuote reads {"tool":"quote_ticket","input":{…}}, with name for tool as
// tool-calling clients send it, or the bare input (interface §2).
func parseQuote(f *input.Fields) quoteRequest {
	if !f.Has("tool") && !f.Has("name") && !f.Has("input") {
		return parseQuoteInput(f)
	}
	name := "tool"
	if f.Has("name") && !f.Has("tool") {
		name = "name"
	}
	if tool, ok := f.Text(name, true); ok && tool != quoteTool {
		f.Wrong(name, "is "+quoteTool)
	}
	inner := f.Object("input", true)
	if inner == nil {
		return quoteRequest{}
	}
	return parseQuoteInput(inner)
}

func parseQuoteInput(f *input.Fields) quoteRequest {
	q := quoteRequest{prefix: f.Prefix, amount: f.Money("amount", "currency")}
	f.Currency("currency") // the amount has it
	q.payee, q.account = f.Payee("payee"), f.ID("merchant_account_id")
	return q
}

// defaultMaxStaleness is how long quotes go on with a configuration that Redis
// cannot confirm.
const defaultMaxStaleness = 10 * time.Minute

// confirmedOften is how old a confirmation may be while nothing is wrong: it
// comes with every look at what has changed, once a second.
const confirmedOften = 5 * time.Second

// quotable finds the account of a quote, and when it and the caller's grant were
// last known to be current (0: they are). What has not been confirmed for too
// long is read once more; while Redis is away there is no quote then.
func (s *Server) quotable(c *call, id, param string) (a *accounts.Account, asOf tollgate.Instant, err error) {
	for again := false; ; again = true {
		if a, err = s.account(c, id, param); err != nil {
			return nil, 0, err
		}
		known, current := s.store.AsOf(c.org, c.grant.ID, a.ID)
		age := s.clock().Sub(known.Time())
		switch {
		case current && age <= max(s.maxStaleness, confirmedOften):
			return a, 0, nil
		case s.maxStaleness > 0 && age <= s.maxStaleness:
			return a, known, nil
		case again:
			return nil, 0, &tollgate.Error{
				Code: tollgate.CodeStoreUnavailable, Message: "The configuration has not been confirmed for too long to quote with; try again.",
				Cause: fmt.Errorf("last known to be current at %s", known),
			}
		}
		s.store.Distrust(c.org, c.grant.ID, a.ID)
		if err := s.checkGrant(c); err != nil {
			return nil, 0, err
		}
	}
}

// quote prices without submitting anything. With the configuration cached it
// asks Redis nothing, so it goes on when Redis is down. Only of a perimeter with
// budgets or frequencies it reads what is left of them, and consumes nothing;
// when Redis is down it leaves them to the commit, which checks all of it again.
// Of an account that takes no payments it says so as a payment would, with the
// price beside it.
func (s *Server) quote(c *call, q quoteRequest) (*answer, error) {
	a, asOf, err := s.quotable(c, q.account, q.prefix+"merchant_account_id")
	if err != nil {
		return nil, err
	}
	unusable := usable(a, q.amount.Currency, q.prefix+"currency")
	if unusable != nil && takes(a, q.amount.Currency, "") != nil {
		return nil, unusable // there is no price
	}
	priced, err := s.priced(c.ctx, a.OrganizationID, a.Rules, tollgate.PricingInput{Amount: q.amount, Payee: q.payee.String()})
	if err != nil && unusable != nil {
		return nil, unusable // as the payment, which is not priced
	}
	if err != nil {
		return nil, err
	}
	now := s.clock()
	d := a.Perimeter.Decide(q.amount, q.payee, now)
	if d.Decision != tollgate.DecisionDeny {
		full, err := s.exceeded(c, a.Perimeter.Reservations(a.ID, q.amount, q.payee, now))
		switch {
		case err != nil && (s.maxStaleness == 0 || !away(err)):
			return nil, err
		case err != nil && asOf == 0: // Redis went away behind the look at the configuration
			asOf, _ = s.store.AsOf(c.org, c.grant.ID, a.ID)
		case full != nil:
			d = a.Perimeter.Exceeded(*full)
		}
	}
	ans, err := object(tollgate.Quote{
		Object: "quote", Lines: priced.Lines, Total: tollgate.FeeTotal(priced.Lines, q.amount.Currency), Currency: q.amount.Currency,
		Perimeter: tollgate.QuoteDecision(d), RuleSet: tollgate.RuleSetRef{ID: a.RuleSet.ID, Version: a.RuleSet.Version},
		Digest: tollgate.LinesSHA256(priced.Lines), AsOf: asOf,
	})
	if unusable != nil && err == nil {
		unusable.Context.Quote = ans.body
		return nil, unusable
	}
	s.shadows.Offer(a, priced)
	return ans, err
}

// exceeded finds a limit that has no room, on the replica nearby where there is one:
// a quote consumes nothing, and the commit looks again.
func (s *Server) exceeded(c *call, of []tollgate.Reservation) (*tollgate.Reservation, error) {
	if len(of) > 0 {
		if near := s.near(c, 0); near != nil {
			if full, err := near.Exceeded(c.ctx, c.org, of); err == nil {
				return full, nil
			}
		}
	}
	return s.store.Exceeded(c.ctx, c.org, of)
}

// away says that Redis could not be asked.
func away(err error) bool {
	e, ok := errors.AsType[*tollgate.Error](err)
	return ok && e.Code == tollgate.CodeStoreUnavailable
}
