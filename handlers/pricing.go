package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tollgate"
	"tollgate/rediskv"
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
		if failed := s.loadRule(ctx, org, rules[missing]); passes(failed) {
			return tollgate.Pricing{}, failed
		} else if failed != nil { // it fails as one does that cannot be run
			err = failed
			if s.rules.Observe != nil {
				s.rules.Observe(rules[missing], s.wall().Sub(start), err)
			}
			break
		}
	}
	s.outcomes.note(p.Rules, err)
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

// loadRule fetches a published module and compiles it. However many requests
// need it, it is done once.
func (s *Server) loadRule(ctx context.Context, org string, ref tollgate.RuleRef) error {
	if s.rules.Has(ref) {
		return nil
	}
	_, err, _ := s.loading.Do(org+" "+ref.Rule.String()+" "+ref.SHA256, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		release, err := s.shares.compiling.Acquire(ctx, org, "")
		if err != nil {
			return nil, shareExhausted(err)
		}
		defer release()
		module, err := s.store.Module(ctx, org, ref)
		if err != nil {
			return nil, err
		}
		loaded, err := s.rules.Load(ctx, ref.Rule, module)
		if err == nil && loaded != ref {
			err = fmt.Errorf("its SHA-256 is %s, not %s", loaded.SHA256, ref.SHA256)
		}
		return nil, err
	})
	switch {
	case err == nil:
		return nil
	case passes(err):
		return err
	default:
		return &tollgate.Error{
			Code: tollgate.CodeRuleFailed, Rule: &ref.Rule, Cause: err,
			Message: "The pricing rule " + ref.Rule.String() + " could not be evaluated.",
		}
	}
}

// passes reports whether a rule could not be loaded just now, and nothing is
// known of the rule itself.
func passes(err error) bool {
	if err == nil {
		return false
	}
	code := errorOf(err).Code
	return code == tollgate.CodeStoreUnavailable || code == tollgate.CodeShareExhausted
}

// usable reports why no payment can be made on an account at the moment, or
// not in this currency, which is the parameter param.
func usable(a *rediskv.Account, currency tollgate.Currency, param string) *tollgate.Error {
	switch {
	case a.Active():
		return takes(a, currency, param)
	case a.Status != tollgate.StatusActive:
		return problemError(tollgate.CodeMerchantAccountInactive, "The merchant account is "+a.Status+".")
	default:
		return problemError(tollgate.CodeMerchantAccountInactive, "The merchant account's organization is not active.")
	}
}

// takes reports whether an account has a currency.
func takes(a *rediskv.Account, currency tollgate.Currency, param string) *tollgate.Error {
	if slices.Contains(a.Currencies, currency) {
		return nil
	}
	return &tollgate.Error{
		Code: tollgate.CodeCurrencyUnsupported, Param: param,
		Message: "The merchant account does not take " + string(currency) + ".",
	}
}
