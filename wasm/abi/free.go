package abi

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"tollgate"
)

const (
	CurrenciesSection = "tollgate.currencies"
	maxCurrencies     = 4096 // bytes of the section
)

// The words of a table's and a package's otherwise.
const (
	OtherwiseRefuse = "refuse"
	OtherwiseFree   = "free"
)

// Free is what a module says that it leaves free on purpose: a JSON object in
// the custom section "tollgate.currencies", which older builds pass over.
type Free struct {
	Currencies []tollgate.Currency `json:"free,omitzero" toml:"free"`
	Otherwise  string              `json:"otherwise,omitzero" toml:"otherwise"` // "free": whatever it does not charge
}

func parseFree(b []byte) (f Free, err error) {
	if len(b) > maxCurrencies {
		return f, fmt.Errorf("section %q of %d bytes, at most %d are allowed", CurrenciesSection, len(b), maxCurrencies)
	}
	if err := json.Unmarshal(b, &f); err != nil { // a later build may say more
		return f, fmt.Errorf("section %q: %w", CurrenciesSection, err)
	}
	return f, f.Check()
}

// Check reports what is wrong with what a module says.
func (f Free) Check() error {
	for _, c := range f.Currencies {
		if _, err := tollgate.ParseCurrency(string(c)); err != nil {
			return fmt.Errorf("free: %w", err)
		}
	}
	if f.Otherwise != "" && f.Otherwise != OtherwiseFree {
		return fmt.Errorf("otherwise is %.20q, and a module that is not a table can only say %q", f.Otherwise, OtherwiseFree)
	}
	return nil
}

func (f Free) says() bool { return len(f.Currencies) > 0 || f.Otherwise != "" }

// Covers reports whether a currency is free on purpose.
func (f Free) Covers(c tollgate.Currency) bool {
	return f.Otherwise == OtherwiseFree || slices.Contains(f.Currencies, c)
}

// Section is the custom section's content; none where nothing is said.
func (f Free) Section() ([]byte, error) {
	if !f.says() {
		return nil, nil
	}
	text, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("section %q: %w", CurrenciesSection, err)
	}
	return append(AppendBytes(nil, CurrenciesSection), text...), nil
}
