package wasm

import "tollgate"

// Refunding lists those of some rules that take part in refunds, in their
// order. A refund's evaluation cites them alone. The error is Quote's for a rule
// that is not loaded.
func (e *Engine) Refunding(rules []tollgate.RuleRef) ([]tollgate.RuleRef, error) {
	loaded := *e.rules.Load()
	var taking []tollgate.RuleRef
	for _, ref := range rules {
		r, ok := loaded[ref]
		if !ok {
			return nil, failed(ref.Rule, ErrNotLoaded)
		}
		if r.refunds {
			taking = append(taking, ref)
		}
	}
	return taking, nil
}
