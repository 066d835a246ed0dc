package main

import (
	"context"
	"fmt"
	"slices"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/wasm"
)

// silenceJudge refuses a rule that says nothing about a currency of an account
// that a file gives it to, as an activation does. Modules are loaded when they
// are asked about.
func silenceJudge(store *rediskv.Store) (judge rediskv.RuleJudge, stop func()) {
	var engine *wasm.Engine
	judge = func(ctx context.Context, org string, ref tollgate.RuleRef, currencies []tollgate.Currency) error {
		if engine == nil {
			var err error
			if engine, err = wasm.NewEngine(ctx); err != nil {
				return err
			}
			if err := engine.LoadShipped(ctx); err != nil {
				return err
			}
		}
		if !engine.Has(ref) {
			module, err := store.Module(ctx, org, ref)
			if err == nil {
				_, err = engine.Load(ctx, ref.Rule, module)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", ref.Rule, err)
			}
		}
		silent := slices.DeleteFunc(engine.Silent(ref), func(c tollgate.Currency) bool { return !slices.Contains(currencies, c) })
		if len(silent) == 0 {
			return nil
		}
		return tollgate.Invalid("rule_set", "%s charges nothing in %s and does not say that this is meant; give it a rule that has a fee for them, or says otherwise = %q or %q",
			ref.Rule, joined(silent, ""), "refuse", "free")
	}
	return judge, func() {
		if engine != nil {
			_ = engine.Close(context.Background())
		}
	}
}
