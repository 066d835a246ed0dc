package handlers

import (
	"context"

	"tollgate"
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

// feeComparison is what samples are charged before and after an activation: each
// amount in each currency of its accounts.
type feeComparison struct {
	Payee   string              `json:"payee"`  // of all samples
	Before  []tollgate.Citation `json:"before"` // the rules in force
	After   []tollgate.Citation `json:"after"`
	Samples []feeSample         `json:"samples"`
}

type feeSample struct {
	Amount   tollgate.Money    `json:"amount"`
	Currency tollgate.Currency `json:"currency"`
	Before   feeOutcome        `json:"before"`
	After    feeOutcome        `json:"after"`
}

// feeOutcome is what a sample is charged, or why it cannot be priced.
type feeOutcome struct {
	Total *tollgate.Money `json:"total"` // null with an error
	Lines []quoteLine     `json:"lines"` // null where there are too many to show
	Error *feeError       `json:"error"`
}

type feeError struct {
	Code    tollgate.Code      `json:"code"`
	Message string             `json:"message"`
	Rule    *tollgate.Citation `json:"rule"`
}

// compareFees runs the modules of before and after on the samples.
func (s *Server) compareFees(ctx context.Context, org string, p *tollgate.ActivationPlan) (*feeComparison, error) {
	c := &feeComparison{Payee: samplePayee, Before: cited(p.Before), After: cited(p.Rules), Samples: []feeSample{}}
	units, room := sampleUnits, maxComparedLines
	if len(p.Currencies) > manyCurrencies {
		units = fewUnits
	}
	for _, currency := range p.Currencies {
		for _, n := range units {
			for range currency.Exponent() {
				n *= 10
			}
			one := feeSample{Amount: tollgate.Money{Minor: n, Currency: currency}, Currency: currency}
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
func (s *Server) sampleFees(ctx context.Context, org string, rules []tollgate.RuleRef, in tollgate.PricingInput, room *int) (o feeOutcome, err error) {
	if err := ctx.Err(); err != nil {
		return o, err
	}
	for i := 0; i < len(rules) && err == nil; i++ {
		err = s.loadRule(ctx, org, rules[i])
	}
	var priced []tollgate.FeeLine
	if err == nil {
		priced, err = s.rules.Preview(rules, in)
	}
	if err != nil {
		e := errorOf(err)
		if e.Code != tollgate.CodeRuleRejected && e.Code != tollgate.CodeRuleFailed {
			return o, err
		}
		return feeOutcome{Lines: []quoteLine{}, Error: &feeError{e.Code, e.Message, e.Rule}}, nil
	}
	total := tollgate.FeeTotal(priced, in.Amount.Currency)
	o.Total = &total
	if *room -= len(priced); *room >= 0 {
		o.Lines = quoteLines(priced)
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
