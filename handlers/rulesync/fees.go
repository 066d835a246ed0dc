package rulesync

import (
	"context"

	"tollgate"
	"tollgate/handlers/problem"
)

// sampleUnits are the amounts that a change of a rule set is shown with, in whole
// units of each currency. With more than manyCurrencies there is only fewUnits.
var sampleUnits, fewUnits = []int64{1, 10, 100, 1_000, 10_000}, []int64{100}

const (
	samplePayee    = "shop.example"
	manyCurrencies = 10
	// maxComparedLines bounds the answer, which is kept for repeated requests.
	maxComparedLines = 1_000
)

// CompareFees runs the modules of before and after on the samples.
func (s *Sync) CompareFees(ctx context.Context, org string, p *tollgate.ActivationPlan) (*tollgate.FeeComparison, error) {
	c := &tollgate.FeeComparison{Payee: samplePayee, Before: cited(p.Before), After: cited(p.Rules), Samples: []tollgate.FeeSample{}}
	units, room := sampleUnits, maxComparedLines
	if len(p.Currencies) > manyCurrencies {
		units = fewUnits
	}
	for _, currency := range p.Currencies {
		for _, n := range units {
			for range currency.Exponent() {
				n *= 10
			}
			one := tollgate.FeeSample{Amount: tollgate.Money{Minor: n, Currency: currency}, Currency: currency}
			in := tollgate.PricingInput{Amount: one.Amount, Payee: samplePayee}
			var err error
			if one.Before, err = s.sampleFees(ctx, org, p.Before, in, &room); err != nil {
				return nil, err
			}
			if one.After, err = s.sampleFees(ctx, org, p.Rules, in, &room); err != nil {
				return nil, err
			}
			c.Samples = append(c.Samples, one)
		}
	}
	return c, nil
}

// sampleFees prices one sample. A rule that refuses it or fails is an outcome;
// the error says that nobody could tell.
func (s *Sync) sampleFees(ctx context.Context, org string, rules []tollgate.RuleRef, in tollgate.PricingInput, room *int) (o tollgate.FeeOutcome, err error) {
	if err := ctx.Err(); err != nil {
		return o, err
	}
	var priced []tollgate.FeeLine
	if err = s.Load(ctx, org, rules...); err == nil {
		priced, err = s.Engine.Preview(rules, in)
	}
	if err != nil {
		e := problem.From(err)
		if e.Code != tollgate.CodeRuleRejected && e.Code != tollgate.CodeRuleFailed {
			return o, err
		}
		return tollgate.FeeOutcome{Lines: []tollgate.FeeLine{}, Error: &tollgate.FeeError{Code: e.Code, Message: e.Message, Rule: e.Rule}}, nil
	}
	total := tollgate.FeeTotal(priced, in.Amount.Currency)
	o.Total = &total
	if *room -= len(priced); *room >= 0 {
		o.Lines = priced
	}
	return o, nil
}

func cited(refs []tollgate.RuleRef) []tollgate.Citation {
	list := make([]tollgate.Citation, len(refs))
	for i, ref := range refs {
		list[i] = ref.Rule
	}
	return list
}
