package wasm

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"tollgate"
)

const (
	currenciesSection = "tollgate.currencies"
	maxCurrencies     = 4096 // bytes of the section
)

// The words of a table's and a package's otherwise.
const (
	otherwiseRefuse = "refuse"
	otherwiseFree   = "free"
)

// Free is what a module says that it leaves free on purpose: a JSON object in
// the custom section "tollgate.currencies", which older builds pass over.
type Free struct {
	Currencies []tollgate.Currency `json:"free,omitzero" toml:"free"`
	Otherwise  string              `json:"otherwise,omitzero" toml:"otherwise"` // "free": whatever it does not charge
}

func parseFree(b []byte) (f Free, err error) {
	if len(b) > maxCurrencies {
		return f, fmt.Errorf("section %q of %d bytes, at most %d are allowed", currenciesSection, len(b), maxCurrencies)
	}
	if err := json.Unmarshal(b, &f); err != nil { // a later build may say more
		return f, fmt.Errorf("section %q: %w", currenciesSection, err)
	}
	return f, f.check()
}

func (f Free) check() error {
	for _, c := range f.Currencies {
		if _, err := tollgate.ParseCurrency(string(c)); err != nil {
			return fmt.Errorf("free: %w", err)
		}
	}
	if f.Otherwise != "" && f.Otherwise != otherwiseFree {
		return fmt.Errorf("otherwise is %.20q, and a module that is not a table can only say %q", f.Otherwise, otherwiseFree)
	}
	return nil
}

func (f Free) says() bool { return len(f.Currencies) > 0 || f.Otherwise != "" }

func (f Free) covers(c tollgate.Currency) bool {
	return f.Otherwise == otherwiseFree || slices.Contains(f.Currencies, c)
}

// section is the custom section's content; none where nothing is said.
func (f Free) section() ([]byte, error) {
	if !f.says() {
		return nil, nil
	}
	text, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("section %q: %w", currenciesSection, err)
	}
	return append(appendBytes(nil, currenciesSection), text...), nil
}

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
		case answered && !r.free.covers(c):
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
