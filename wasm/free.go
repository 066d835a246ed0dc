package wasm

import (
	"fmt"
	"github.com/go-json-experiment/json"
	"slices"
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
