package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate"
	"tollgate/wasm/abi"
)

// Quote runs rules in their order and appends their lines to dst. Each rule
// sees how many lines the rules before it made and what they add up to. It
// reads and writes nothing outside the engine, and the same input and modules
// give the same lines on every machine. With room in dst it does not allocate.
// A refund is priced by those of the rules that take part in refunds; the others
// are not run, but must be loaded too.
//
// The error is a *tollgate.Error: CodeRuleRejected with the rule's own message
// when it refuses the payment; CodeRuleFailed when the rule is not loaded,
// traps, runs out of fuel, or replies with nonsense (the cause says which, for
// the log); CodeAmountInvalid, CodeCurrencyUnsupported or CodePayeeInvalid for
// an input that no request can carry. dst is then returned as it came.
func (e *Engine) Quote(dst []tollgate.FeeLine, rules []tollgate.RuleRef, in tollgate.PricingInput) ([]tollgate.FeeLine, error) {
	return e.quote(e.Observe, dst, rules, &in)
}

// Shadow prices as Quote does, for comparison only: its runs are observed
// apart.
func (e *Engine) Shadow(rules []tollgate.RuleRef, in tollgate.PricingInput) ([]tollgate.FeeLine, error) {
	return e.quote(e.ObserveShadow, nil, rules, &in)
}

// Preview prices as Quote does what nobody has asked to pay: no observer hears
// of it.
func (e *Engine) Preview(rules []tollgate.RuleRef, in tollgate.PricingInput) ([]tollgate.FeeLine, error) {
	return e.quote(nil, nil, rules, &in)
}

type observer = func(ref tollgate.RuleRef, d time.Duration, err error)

func (e *Engine) quote(observe observer, dst []tollgate.FeeLine, rules []tollgate.RuleRef, in *tollgate.PricingInput) ([]tollgate.FeeLine, error) {
	exponent, err := checkInput(in)
	if err != nil {
		return dst, err
	}
	loaded, now := *e.rules.Load(), e.loads.Load()
	first := len(dst)
	var sum int64
	for i := range rules {
		from := len(dst)
		r, ok := loaded[rules[i]]
		if !ok {
			return dst[:first], failed(rules[i].Rule, ErrNotLoaded)
		}
		if in.Refund && !r.refunds {
			continue
		}
		if r.used.Load() != now { // seldom, so that cores need not pass it around
			r.used.Store(now)
		}
		if observe == nil {
			dst, err = r.run(dst, in, exponent, from-first, sum)
		} else {
			dst, err = e.observed(observe, r, dst, in, exponent, from-first, sum)
		}
		if err != nil {
			return dst[:first], err
		}
		for j := from; j < len(dst); j++ {
			sum += dst[j].Amount.Minor
		}
	}
	return dst, nil
}

// ErrNotLoaded is the cause of a failure for want of the rule: whoever has its
// module can load it and quote again.
var ErrNotLoaded = errors.New("the rule is not loaded")

func (e *Engine) observed(observe observer, r *rule, dst []tollgate.FeeLine, in *tollgate.PricingInput, exponent byte, lines int, sum int64) ([]tollgate.FeeLine, error) {
	var start, end time.Time
	if e.Now != nil {
		start = e.Now()
	}
	dst, err := r.run(dst, in, exponent, lines, sum)
	if e.Now != nil {
		end = e.Now()
	}
	observe(r.ref, end.Sub(start), err)
	return dst, err
}

// run calls one rule on an idle instance, or on a new one.
func (r *rule) run(dst []tollgate.FeeLine, in *tollgate.PricingInput, exponent byte, lines int, sum int64) ([]tollgate.FeeLine, error) {
	idle, _ := r.idle.Get().(*instance)
	out, i, err := r.price(idle, dst, in, exponent, lines, sum)
	if i != nil {
		r.idle.Put(i)
	}
	if err == nil {
		return out, nil
	}
	if no, ok := err.(*abi.Refusal); ok {
		return dst, rejected(r.ref.Rule, no)
	}
	return dst, failed(r.ref.Rule, err)
}

// price calls the rule on an idle instance or, without one, on a new one: they
// do the same (state.go). It returns the instance that can be used again, if
// any; one that failed may be in any state and is discarded.
func (r *rule) price(i *instance, dst []tollgate.FeeLine, in *tollgate.PricingInput, exponent byte, lines int, sum int64) ([]tollgate.FeeLine, *instance, error) {
	// Fuel ends the call, not a context: a module cannot wait for anything.
	ctx := context.Background()
	if i == nil {
		var err error
		if i, err = r.instantiate(ctx); err != nil {
			return dst, nil, err
		}
	}
	out, err := i.price(ctx, r, dst, in, exponent, lines, sum)
	switch {
	case broken(err):
		i.discard(ctx)
		return dst, nil, err
	case i.outgrown(&r.initial):
		i.discard(ctx)
		return out, nil, err
	}
	return out, i, err
}

// broken reports whether a call has failed; a refusal is an answer.
func broken(err error) bool {
	if err == nil {
		return false
	}
	_, no := err.(*abi.Refusal)
	return !no
}

func (i *instance) price(ctx context.Context, r *rule, dst []tollgate.FeeLine, in *tollgate.PricingInput, exponent byte, lines int, sum int64) ([]tollgate.FeeLine, error) {
	if i.requested > 0 {
		i.reset(&r.initial, abi.RequestHeader+uint32(len(in.Payee)))
	}
	i.requested = putRequest(i.view, in, exponent, lines, sum)
	i.stack[0] = uint64(i.requested)
	if err := i.call(ctx, i.quote); err != nil {
		return dst, err
	}
	w := i.view
	if r.initial.grows {
		var err error
		if w, err = i.window(); err != nil {
			return dst, err
		}
	}
	return r.readReply(dst, w, int32(uint32(i.stack[0])), in.Amount.Currency, sum, &i.labels)
}

func checkInput(in *tollgate.PricingInput) (exponent byte, err error) {
	if in.Amount.Minor < 0 || in.Amount.Minor > tollgate.MaxMinor {
		return 0, inputError(tollgate.CodeAmountInvalid, "amount", "An amount is at most 15 digits and not negative.")
	}
	if len(in.Amount.Currency) != 3 {
		return 0, inputError(tollgate.CodeCurrencyUnsupported, "currency", "A currency is an ISO 4217 code.")
	}
	if len(in.Payee) > abi.MaxPayee {
		return 0, inputError(tollgate.CodePayeeInvalid, "payee", "A payee has at most 255 bytes.")
	}
	return byte(in.Amount.Currency.Exponent()), nil
}

func inputError(code tollgate.Code, param, message string) error {
	return &tollgate.Error{Code: code, Param: param, Message: message}
}

// rejected and failed take the citation by value so that the pointer in the
// error allocates on these paths only.
func rejected(c tollgate.Citation, no *abi.Refusal) error {
	return &tollgate.Error{Code: tollgate.CodeRuleRejected, Message: no.Error(), Rule: &c}
}

func failed(c tollgate.Citation, cause error) error {
	return &tollgate.Error{
		Code: tollgate.CodeRuleFailed, Rule: &c, Cause: cause,
		Message: fmt.Sprintf("The pricing rule %s could not be evaluated.", c),
	}
}
