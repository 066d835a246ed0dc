package compiler

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"tollgate"
)

// Working is how a table comes to a fee, step by step for people. ok is false where the
// table charges nothing for the input, or refuses it.
func (t *Table) Working(in tollgate.PricingInput) (steps []string, fee tollgate.Money, ok bool) {
	p, err := t.plan()
	fee.Currency = in.Amount.Currency
	if err != nil {
		return nil, fee, false
	}
	if in.Refund {
		if !p.refunds {
			return nil, fee, false
		}
		if p.refund != nil {
			p = p.refund
		}
	}
	r := p.rowOf(in)
	if r == nil {
		return nil, fee, false
	}
	text := func(minor int64) string {
		return tollgate.Money{Minor: minor, Currency: in.Amount.Currency}.String()
	}
	last := slices.IndexFunc(r.tiers, func(t tier) bool { return in.Amount.Minor <= t.upTo })
	use := r.tiers[last]
	if len(r.tiers) > 1 {
		steps = append(steps, fmt.Sprintf("tier %d of %d", last+1, len(r.tiers)))
	}
	fee.Minor = share(in.Amount.Minor, use.rate)
	if use.rate > 0 {
		steps = append(steps, fmt.Sprintf("%s %% of %s is %s", percentText(use.rate), in.Amount, text(fee.Minor)))
	}
	if use.fixed > 0 {
		fee.Minor += use.fixed
		steps = append(steps, fmt.Sprintf("plus %s fixed is %s", text(use.fixed), text(fee.Minor)))
	}
	if fee.Minor < r.minimum {
		fee.Minor = r.minimum
		steps = append(steps, "raised to the minimum of "+text(r.minimum))
	}
	if fee.Minor > r.maximum {
		fee.Minor = r.maximum
		steps = append(steps, "lowered to the maximum of "+text(r.maximum))
	}
	return steps, fee, true
}

// rowOf is the row that charges an input, nil if none does.
func (p *plan) rowOf(in tollgate.PricingInput) *row {
	c := in.Amount.Currency
	if slices.ContainsFunc(p.payees, func(pp payeePlan) bool { return pp.name == strings.ToLower(in.Payee) }) ||
		slices.ContainsFunc(p.refuses, func(rp refusePlan) bool { return slices.Contains(rp.currencies, c) != rp.except }) {
		return nil
	}
	for i := range p.rows {
		if slices.Contains(p.rows[i].currencies, c) {
			return &p.rows[i]
		}
	}
	return p.rest
}

// share is amount × rate, rounded half to even.
func share(amount, rate int64) int64 {
	q, m := new(big.Int).QuoRem(new(big.Int).Mul(big.NewInt(amount), big.NewInt(rate)), big.NewInt(rateUnit), new(big.Int))
	fee := q.Int64()
	if 2*m.Int64()+fee&1 > rateUnit {
		fee++
	}
	return fee
}

// percentText is a rate in per cent, with two places or as many as it needs.
func percentText(rate int64) string {
	text := fmt.Sprintf("%d.%04d", rate/10_000, rate%10_000)
	for strings.HasSuffix(text, "0") && len(text)-strings.Index(text, ".") > 3 {
		text = text[:len(text)-1]
	}
	return text
}
