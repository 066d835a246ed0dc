package wasm

import (
	"context"

	"github.com/tetratelabs/wazero"

	"tollgate"
	"tollgate/wasm/abi"
)

// NewInterpreter is an engine that interprets: slower, and an independent
// judge of what the compiler makes of a module.
func NewInterpreter(ctx context.Context) *Engine {
	return newEngine(ctx, wazero.NewRuntimeConfigInterpreter())
}

// LoadBare loads a module without fuel, as the yardstick of what fuel costs.
func (e *Engine) LoadBare(ctx context.Context, c tollgate.Citation, module []byte) error {
	m, err := abi.Parse(module)
	if err != nil {
		return err
	}
	r, err := e.compile(ctx, m, m.Bare(), nil)
	if err != nil {
		return err
	}
	r.ref = RefOf(c, module)
	(*e.rules.Load())[r.ref] = r
	return nil
}

// Refs are the loaded rules with these citations; a citation that is not
// loaded, or of several modules, has no sum.
func (e *Engine) Refs(cited ...tollgate.Citation) []tollgate.RuleRef {
	refs := make([]tollgate.RuleRef, len(cited))
	for i, c := range cited {
		refs[i].Rule = c
		found := 0
		for ref := range *e.rules.Load() {
			if ref.Rule == c {
				refs[i], found = ref, found+1
			}
		}
		if found != 1 {
			refs[i].SHA256 = ""
		}
	}
	return refs
}

// SetRoom gives the rules beside the built-in ones so many bytes, and keeps the
// last ones in any case.
func (e *Engine) SetRoom(bytes int64, least int) { e.room, e.least = bytes, least }

// DropIdle makes the next quote of each rule use a fresh instance.
func (e *Engine) DropIdle(ctx context.Context) {
	for _, r := range *e.rules.Load() {
		for i, ok := r.idle.Get().(*instance); ok; i, ok = r.idle.Get().(*instance) {
			i.discard(ctx)
		}
	}
}

// OneInstance prices inputs one after another on a single instance of a rule,
// until one fails, and returns the fuel that each has used.
func (e *Engine) OneInstance(c tollgate.Citation, inputs ...tollgate.PricingInput) (lines []tollgate.FeeLine, fuel []int64, err error) {
	ctx := context.Background()
	r := (*e.rules.Load())[e.Refs(c)[0]]
	i, err := r.instantiate(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, in := range inputs {
		lines, err = i.price(ctx, r, lines, &in, byte(in.Amount.Currency.Exponent()), 0, 0)
		fuel = append(fuel, abi.FuelPerCall-int64(i.fuel.Get()))
		if err != nil {
			break
		}
	}
	return lines, fuel, err
}

// ReadReply is the reply parser alone.
func ReadReply(dst []tollgate.FeeLine, window []byte, n int32, label string, c tollgate.Currency, sum int64) ([]tollgate.FeeLine, error) {
	r := &rule{manifest: abi.Manifest{ABI: abi.ABI, Label: label}}
	return r.readReply(dst, window, n, c, sum, new(labels))
}

// Check is what Load does before it compiles: the structural limits, then the
// instrumented module.
func Check(module []byte) (instrumented []byte, err error) {
	m, err := abi.Parse(module)
	if err != nil {
		return nil, err
	}
	return m.Instrument(), nil
}
