package rediskv

import (
	"context"
	"slices"

	"tollgate"
)

// RuleJudge is asked about each rule that would newly price currencies of an
// account. Its error keeps the configuration from being applied.
type RuleJudge func(ctx context.Context, org string, ref tollgate.RuleRef, currencies []tollgate.Currency) error

// judged asks about the rules and currencies that an account would have together
// and does not have together yet. What is in force stays.
func (p *plan) judged(ctx context.Context, found fields, a *tollgate.MerchantAccount) error {
	if p.judge == nil {
		return nil
	}
	var old tollgate.MerchantAccount
	if len(found) > 0 {
		if err := decode(found["json"], &old); err != nil {
			return err
		}
	}
	refs, err := p.store.resolve(ctx, p.space, a.RuleSet.Rules)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		currencies := slices.Clone(a.Currencies)
		if slices.Contains(old.RuleSet.Rules, ref.Rule) {
			currencies = slices.DeleteFunc(currencies, func(c tollgate.Currency) bool { return slices.Contains(old.Currencies, c) })
		}
		if len(currencies) == 0 || ref.SHA256 == "" {
			continue
		}
		if err := p.judge(ctx, p.space.org, ref, currencies); err != nil {
			return err
		}
	}
	return nil
}
