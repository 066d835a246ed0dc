package handlers

import (
	"context"
	"errors"
	"slices"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/handlers/rulesync"
	"tollgate/rediskv/accounts"
	"tollgate/wasm"
)

// typicalLines is room for the lines of most rule sets.
const typicalLines = 8

// priced runs modules by their exact bytes: those of the rule set in
// force, or those that a payment was created with, whatever has been activated
// since. A module that the engine does not have is fetched once and kept, so
// that the usual quote asks nobody.
func (s *Server) priced(ctx context.Context, org string, rules []tollgate.RuleRef, in tollgate.PricingInput) (tollgate.Pricing, error) {
	var p tollgate.Pricing
	var err error
	for range len(rules) + 1 { // each turn brings one module
		p, err = s.quoted(rules, in)
		if err == nil || !errors.Is(err, wasm.ErrNotLoaded) {
			break
		}
		missing := slices.IndexFunc(rules, func(ref tollgate.RuleRef) bool { return !s.rules.Has(ref) })
		if missing < 0 {
			continue
		}
		start := s.wall()
		if failed := s.sync.Load(ctx, org, rules[missing]); rulesync.Passes(failed) {
			return tollgate.Pricing{}, failed
		} else if failed != nil { // it fails as one does that cannot be run
			err = failed
			if s.rules.Observe != nil {
				s.rules.Observe(rules[missing], s.wall().Sub(start), err)
			}
			break
		}
	}
	s.sync.Note(p.Rules, err)
	return p, err
}

// quoted runs modules that the engine has. A refund's pricing cites those that
// take part in refunds.
func (s *Server) quoted(rules []tollgate.RuleRef, in tollgate.PricingInput) (tollgate.Pricing, error) {
	p := tollgate.Pricing{Input: in, Rules: rules}
	if in.Refund {
		taking, err := s.rules.Refunding(rules)
		if err != nil {
			return p, err
		}
		p.Rules = taking
	}
	var err error
	p.Lines, err = s.rules.Quote(make([]tollgate.FeeLine, 0, typicalLines), p.Rules, in)
	return p, err
}

// usable reports why no payment can be made on an account at the moment, or
// not in this currency, which is the parameter param.
func usable(a *accounts.Account, currency tollgate.Currency, param string) *tollgate.Error {
	switch {
	case a.Active():
		return takes(a, currency, param)
	case a.Status != tollgate.StatusActive:
		return problem.New(tollgate.CodeMerchantAccountInactive, "The merchant account is "+a.Status+".")
	default:
		return problem.New(tollgate.CodeMerchantAccountInactive, "The merchant account's organization is not active.")
	}
}

// takes reports whether an account has a currency.
func takes(a *accounts.Account, currency tollgate.Currency, param string) *tollgate.Error {
	if slices.Contains(a.Currencies, currency) {
		return nil
	}
	return &tollgate.Error{
		Code: tollgate.CodeCurrencyUnsupported, Param: param,
		Message: "The merchant account does not take " + string(currency) + ".",
	}
}
