package wasm

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"tollgate"
	"tollgate/wasm/abi"
)

// Backtest prices past evaluations again, with a candidate in the place of a
// rule, and adds up what that would have changed. It writes nothing.
type Backtest struct {
	Engine    *Engine
	Reference tollgate.Citation // the rule whose place the candidate takes
	Candidate tollgate.RuleRef  // loaded

	// Find loads a module that the engine does not have. It is asked once for
	// each; evaluations whose modules it does not find are counted apart.
	Find func(tollgate.RuleRef) error

	// Largest is how many of the largest differences of each group are kept.
	Largest int

	missing map[tollgate.RuleRef]error
	sets    []*backtestSet
	swap    backtestRule // the candidate
	before  []tollgate.FeeLine
	after   []tollgate.FeeLine
}

// backtestSet is the rules of an evaluation, which most others share.
type backtestSet struct {
	refs  []tollgate.RuleRef
	rules []backtestRule
	at    int // of the reference; -1 when it is not among them
}

// backtestRule is a rule with an instance of its own.
type backtestRule struct {
	*rule
	instance *instance
}

// Run takes tickets one after another and keeps none of them. It ends at the
// first error that comes instead of a ticket.
func (b *Backtest) Run(tickets iter.Seq2[*tollgate.Ticket, error]) (*BacktestResult, error) {
	r := &BacktestResult{Groups: map[BacktestKey]*BacktestGroup{}, Missing: map[tollgate.RuleRef]int64{}}
	b.missing = map[tollgate.RuleRef]error{}
	b.swap.rule = (*b.Engine.rules.Load())[b.Candidate]
	if b.swap.rule == nil {
		return r, fmt.Errorf("backtest: %s: %w", b.Candidate.Rule, ErrNotLoaded)
	}
	for t, err := range tickets {
		if err != nil {
			return r, fmt.Errorf("backtest: %w", err)
		}
		r.Tickets++
		for i := range t.Evaluations {
			r.Evaluations++
			b.evaluate(r, t, &t.Evaluations[i])
		}
	}
	return r, nil
}

func (b *Backtest) evaluate(r *BacktestResult, t *tollgate.Ticket, e *tollgate.Evaluation) {
	refs := e.Rules
	if e.Kind == tollgate.EvaluationRefund { // where the reference takes no part, the candidate may
		refs = t.Pinned()
	}
	s, missing := b.set(refs)
	switch {
	case s == nil:
		r.Affected++
		r.Missing[missing]++
		return
	case s.at < 0:
		return
	}
	r.Affected++
	in := e.Pricing()
	exponent, err := checkInput(&in)
	if err == nil {
		b.before, err = priceAll(b.before[:0], s.rules[:s.at], &in, exponent)
	}
	first := len(b.before) // of the reference's lines
	if err == nil {
		b.before, err = priceAll(b.before, s.rules[s.at:s.at+1], &in, exponent)
	}
	after := len(b.before)
	if err == nil {
		b.before, err = priceAll(b.before, s.rules[s.at+1:], &in, exponent)
	}
	if err != nil || tollgate.LinesSHA256(b.before) != e.LinesSHA256 {
		r.Broken++
		r.broken(t, e)
		return
	}

	change := BacktestChange{TicketID: t.ID, Evaluation: e.Number, Amount: e.Input.Amount}
	change.Before = tollgate.FeeTotal(b.before, e.Input.Currency)
	b.after = append(b.after[:0], b.before[:first]...)
	b.after, err = b.swap.price(b.after, &in, exponent)
	if err == nil && sameSum(b.after[first:], b.before[first:after]) {
		b.after = append(b.after, b.before[after:]...) // the rules behind see no difference
	} else if err == nil {
		b.after, err = priceAll(b.after, s.rules[s.at+1:], &in, exponent)
	}
	if err != nil {
		change.Outcome = outcomeOf(err)
	} else {
		change.After = tollgate.FeeTotal(b.after, e.Input.Currency)
	}
	kind := e.Kind
	if kind == tollgate.EvaluationReview { // an authorization that somebody looks at
		kind = tollgate.EvaluationAuthorization
	}
	r.group(BacktestKey{t.MerchantAccountID, e.Input.Currency, kind}).add(change, b.Largest)
}

// sameSum reports whether lines are as many and add up to the same: that is
// all that rules see of those before them.
func sameSum(a, b []tollgate.FeeLine) bool {
	return len(a) == len(b) && tollgate.FeeTotal(a, "").Minor == tollgate.FeeTotal(b, "").Minor
}

// set returns the rules of an evaluation, or nil and the first that is not to
// be had. Rules without the reference are not looked for.
func (b *Backtest) set(refs []tollgate.RuleRef) (*backtestSet, tollgate.RuleRef) {
	for i, s := range b.sets {
		if slices.Equal(s.refs, refs) {
			b.sets[0], b.sets[i] = b.sets[i], b.sets[0]
			return s, tollgate.RuleRef{}
		}
	}
	s := &backtestSet{refs: slices.Clone(refs)}
	s.at = slices.IndexFunc(refs, func(ref tollgate.RuleRef) bool { return ref.Rule == b.Reference })
	for _, ref := range refs {
		if s.at < 0 {
			break
		}
		r := (*b.Engine.rules.Load())[ref]
		if r == nil {
			if b.find(ref) == nil {
				r = (*b.Engine.rules.Load())[ref]
			}
			if r == nil {
				return nil, ref
			}
		}
		s.rules = append(s.rules, backtestRule{rule: r})
	}
	b.sets = append(b.sets[:min(len(b.sets), maxSets-1)], s)
	return s, tollgate.RuleRef{}
}

const maxSets = 64

func (b *Backtest) find(ref tollgate.RuleRef) error {
	err, asked := b.missing[ref]
	if !asked {
		err = ErrNotLoaded
		if b.Find != nil {
			err = b.Find(ref)
		}
		b.missing[ref] = err
	}
	return err
}

func priceAll(dst []tollgate.FeeLine, rules []backtestRule, in *tollgate.PricingInput, exponent byte) (_ []tollgate.FeeLine, err error) {
	for i := range rules {
		if dst, err = rules[i].price(dst, in, exponent); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// price appends the rule's lines to those of the rules before it, none to those
// of a refund in which it takes no part.
func (r *backtestRule) price(dst []tollgate.FeeLine, in *tollgate.PricingInput, exponent byte) ([]tollgate.FeeLine, error) {
	if in.Refund && !r.refunds {
		return dst, nil
	}
	dst, i, err := r.rule.price(r.instance, dst, in, exponent, len(dst), tollgate.FeeTotal(dst, "").Minor)
	r.instance = i
	return dst, err
}

func outcomeOf(err error) string {
	var no *abi.Refusal
	if errors.As(err, &no) {
		return "refused: " + no.Error()
	}
	return "failed"
}
