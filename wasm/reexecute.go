package wasm

import (
	"tollgate"
)

// Reexecute runs an evaluation's modules again on its exact input. The lines
// agree with the ticket's when tollgate.LinesSHA256 of them is the evaluation's
// LinesSHA256. All modules must be loaded.
func (e *Engine) Reexecute(ev *tollgate.Evaluation) ([]tollgate.FeeLine, error) {
	return e.Quote(nil, ev.Rules, ev.Pricing())
}
