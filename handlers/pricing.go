package handlers

import (
	"slices"

	"tollgate"
	"tollgate/rediskv"
)

// typicalLines is room for the lines of most rule sets.
const typicalLines = 8

// priced runs the rules of an account as they are now.
func (s *Server) priced(a *rediskv.Account, in tollgate.PricingInput) (tollgate.Pricing, error) {
	lines, err := s.rules.Quote(make([]tollgate.FeeLine, 0, typicalLines), a.RuleSet.Rules, in)
	if err != nil {
		return tollgate.Pricing{}, err
	}
	refs := make([]tollgate.RuleRef, len(a.RuleSet.Rules))
	for i, rule := range a.RuleSet.Rules {
		var ok bool
		if refs[i], ok = s.rules.Ref(rule); !ok {
			return tollgate.Pricing{}, ruleFailed(rule)
		}
	}
	return tollgate.Pricing{Input: in, Rules: refs, Lines: lines}, nil
}

// pricedAgain runs the very modules that a payment was created with: a
// citation whose bytes are others would change what the payer was promised.
func (s *Server) pricedAgain(pinned []tollgate.RuleRef, in tollgate.PricingInput) (tollgate.Pricing, error) {
	rules := make([]tollgate.Citation, len(pinned))
	for i, ref := range pinned {
		if now, ok := s.rules.Ref(ref.Rule); !ok || now != ref {
			return tollgate.Pricing{}, ruleFailed(ref.Rule)
		}
		rules[i] = ref.Rule
	}
	lines, err := s.rules.Quote(make([]tollgate.FeeLine, 0, typicalLines), rules, in)
	return tollgate.Pricing{Input: in, Rules: pinned, Lines: lines}, err
}

func ruleFailed(rule tollgate.Citation) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeRuleFailed, Rule: &rule, Message: "The pricing rule " + rule.String() + " could not be evaluated."}
}

// usable reports why no payment can be made on an account at the moment, or
// not in this currency.
func usable(a *rediskv.Account, currency tollgate.Currency) error {
	switch {
	case a.Active():
		return takes(a, currency, "currency")
	case a.Status != tollgate.StatusActive:
		return problemError(tollgate.CodeMerchantAccountInactive, "The merchant account is "+a.Status+".")
	default:
		return problemError(tollgate.CodeMerchantAccountInactive, "The merchant account's organization is not active.")
	}
}

// takes reports whether an account has a currency.
func takes(a *rediskv.Account, currency tollgate.Currency, param string) error {
	if slices.Contains(a.Currencies, currency) {
		return nil
	}
	return &tollgate.Error{
		Code: tollgate.CodeCurrencyUnsupported, Param: param,
		Message: "The merchant account does not take " + string(currency) + ".",
	}
}
