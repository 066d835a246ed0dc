package wasm

import (
	"slices"

	"tollgate"
)

// soundingUnits are the amounts, in whole units, that a module is asked about to
// learn whether it charges in a currency; 0 is the highest amount there is.
var soundingUnits = []int64{1_000, 100, 10, 1, 10_000, 0}

// soundingPayee is nobody's. A module that charges some payees only is seen as
// one that charges nothing.
const soundingPayee = "shop.example"

// Silent lists the currencies, in their order, in which a rule charges nothing
// without saying that this is meant: it answers samples with no line, while in
// other currencies it makes lines. A rule that makes none in any currency is no
// fee, but a gate, and is silent about none; nor is one that refuses a currency
// or fails in it. They are found by running the module, once. A rule that is not
// loaded has none.
func (e *Engine) Silent(ref tollgate.RuleRef) []tollgate.Currency {
	r, ok := (*e.rules.Load())[ref]
	if !ok {
		return nil
	}
	return slices.Clone(r.silent())
}

func (r *rule) findSilent() (list []tollgate.Currency) {
	charges := false
	for _, c := range tollgate.Currencies() {
		switch answered, charged := r.sound(c); {
		case charged:
			charges = true
		case answered && !r.free.Covers(c):
			list = append(list, c)
		}
	}
	if !charges {
		return nil
	}
	slices.Sort(list)
	return list
}

// sound reports whether the module answers any sample in a currency at all, and
// whether with a line.
func (r *rule) sound(c tollgate.Currency) (answered, charged bool) {
	for _, minor := range soundingUnits {
		for range c.Exponent() {
			minor *= 10
		}
		if minor == 0 {
			minor = tollgate.MaxMinor
		}
		in := tollgate.PricingInput{Amount: tollgate.Money{Minor: minor, Currency: c}, Payee: soundingPayee}
		lines, err := r.run(nil, &in, byte(c.Exponent()), 0, 0)
		if err != nil {
			continue
		}
		if answered = true; len(lines) > 0 {
			return true, true
		}
	}
	return answered, false
}
