package provision

import (
	"context"
	"fmt"
	"slices"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// silence refuses a rule that says nothing about a currency of an account that a
// file gives it to, as an activation does. Modules are loaded when they are asked
// about.
type silence struct {
	store  *store.Store
	engine *wasm.Engine // nil until then
}

func (s *silence) judge(ctx context.Context, org string, priced tollgate.NewlyPriced) error {
	if s.engine == nil {
		var err error
		if s.engine, err = wasm.NewEngine(ctx); err != nil {
			return err
		}
		if err := s.engine.LoadBuiltin(ctx); err != nil {
			return err
		}
	}
	ref := priced.Rule
	if !s.engine.Has(ref) {
		module, err := s.store.Module(ctx, org, ref)
		if err == nil {
			_, err = s.engine.Load(ctx, ref.Rule, module)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", ref.Rule, err)
		}
	}
	silent := slices.DeleteFunc(s.engine.Silent(ref), func(c tollgate.Currency) bool { return !slices.Contains(priced.Currencies, c) })
	if len(silent) == 0 {
		return nil
	}
	return tollgate.Invalid("rule_set", "%s charges nothing in %s and does not say that this is meant; give it a rule that has a fee for them, or says otherwise = %q or %q",
		ref.Rule, cli.Joined(silent, ""), "refuse", "free")
}

func (s *silence) close() {
	if s.engine != nil {
		_ = s.engine.Close(context.Background())
	}
}
