package wasm

import (
	"context"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"

	"tollgate"
	"tollgate/wasm/abi"
)

// Trial is one module on its own, outside the rules of any engine, whose runs
// show more than a quote does. It is for one goroutine.
type Trial struct {
	engine *Engine
	rule   *rule
	used   *instance
}

// Outcome is what a run of a rule came to.
type Outcome struct {
	Lines   []tollgate.FeeLine
	Refused string // the message of a refusal
	Failed  error  // a trap, no fuel left, or a reply that is nonsense
	Fuel    int64  // used; the same on every machine
	Request []byte // what the module was given
	Reply   []byte // the bytes that it replied; nil when there are none
}

// NewTrial checks and compiles a module, or prepares it for the interpreter,
// which is slower and an independent judge of the compiler.
func NewTrial(ctx context.Context, c tollgate.Citation, binary []byte, interpreted bool) (*Trial, error) {
	config := wazero.NewRuntimeConfig()
	if interpreted {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	t := &Trial{engine: newEngine(ctx, config)}
	r, err := t.engine.prepare(ctx, binary)
	if err != nil {
		_ = t.engine.Close(ctx)
		return nil, err
	}
	r.ref = RefOf(c, binary)
	t.rule = r
	return t, nil
}

// Label is the one that the module's manifest gives.
func (t *Trial) Label() string { return t.rule.manifest.Label }

// Close frees the machine code.
func (t *Trial) Close(ctx context.Context) error { return t.engine.Close(ctx) }

// Run prices an input on a new instance, or on the one that earlier runs have
// used and that, unlike an engine's, keeps what they left. The error says why
// it could not be tried; what the module itself did is in the outcome.
func (t *Trial) Run(ctx context.Context, in tollgate.PricingInput, fresh bool) (Outcome, error) {
	exponent, err := checkInput(&in)
	if err == nil && in.Refund && !t.rule.refunds {
		err = fmt.Errorf("the module takes no part in refunds: it has no section %q", abi.RefundSection)
	}
	if err != nil {
		return Outcome{}, err
	}
	i := t.used
	if fresh || i == nil {
		if i, err = t.rule.instantiate(ctx); err != nil {
			return Outcome{}, err
		}
	}
	o := i.try(ctx, t.rule, &in, exponent)
	switch {
	case fresh || o.Failed != nil:
		i.discard(ctx)
		if !fresh {
			t.used = nil
		}
	default:
		t.used = i
	}
	return o, nil
}

// try is price with everything that can be seen of it.
func (i *instance) try(ctx context.Context, r *rule, in *tollgate.PricingInput, exponent byte) (o Outcome) {
	w, err := i.window()
	if err != nil {
		return Outcome{Failed: err}
	}
	n := putRequest(w, in, exponent, 0, 0)
	o.Request = slices.Clone(w[:n])
	i.stack[0] = uint64(n)
	err = i.call(ctx, i.quote)
	o.Fuel = abi.FuelPerCall - int64(i.fuel.Get())
	if err != nil {
		o.Failed = err
		return o
	}
	if w, o.Failed = i.window(); o.Failed != nil {
		return o
	}
	length := int32(uint32(i.stack[0]))
	if length > 0 && int(length) <= len(w) {
		o.Reply = slices.Clone(w[:length])
	}
	lines, err := r.readReply(nil, w, length, in.Amount.Currency, 0, &i.labels)
	if no, ok := err.(*abi.Refusal); ok {
		o.Refused = no.Error()
	} else if err != nil {
		o.Failed = err
	} else {
		o.Lines = lines
	}
	return o
}
