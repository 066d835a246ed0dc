package replay

import (
	"fmt"
	"slices"

	"tollgate"
	"tollgate/wasm"
)

// recomposed is a ticket put together once more, from what its evaluations
// give now.
type recomposed struct {
	kept, again *tollgate.Ticket
}

func composition(t *tollgate.Ticket) *recomposed {
	return &recomposed{t, &tollgate.Ticket{Currency: t.Currency, Total: tollgate.Money{Currency: t.Currency}}}
}

// add goes the way that the lines went when the payment was made.
func (r *recomposed) add(e *tollgate.Evaluation, lines []tollgate.FeeLine) {
	r.again.Evaluate(e.Kind, e.Pricing(), e.Rules, lines, e.EventID, e.At)
}

// counts reports whether the lines of an evaluation stand in the ticket: from
// the first capture on only those of captures and refunds do (interface §2).
func (r *recomposed) counts(i int) bool {
	all := r.kept.Evaluations
	captured := func(e tollgate.Evaluation) bool { return e.Kind == tollgate.EvaluationCapture }
	return captured(all[i]) || all[i].Kind == tollgate.EvaluationRefund || !slices.ContainsFunc(all, captured)
}

// refunds says which refunds were not priced by all rules of the payment that
// take part in refunds, and by these alone. A module that is not there is said
// of the evaluation that cites it.
func (r *recomposed) refunds(engine *wasm.Engine) (problems []string) {
	taking, err := engine.Refunding(r.kept.Pinned())
	for _, e := range r.kept.Evaluations {
		if err == nil && e.Kind == tollgate.EvaluationRefund && !slices.Equal(e.Rules, taking) {
			problems = append(problems, fmt.Sprintf("evaluation %d does not cite the rules of evaluation 1 that take part in refunds, %d of %d", e.Number, len(taking), len(r.kept.Pinned())))
		}
	}
	return problems
}

// compare says where the ticket is not what its evaluations make of it. Unless
// all of them agree, their lines have been shown to differ already, and the
// order and total of the rest say nothing more.
func (r *recomposed) compare(agree bool) []string {
	problems := wasm.Inconsistencies(r.kept)
	strays := 0
	for i, l := range r.kept.Lines {
		at := slices.IndexFunc(r.kept.Evaluations, func(e tollgate.Evaluation) bool { return e.Number == l.Evaluation })
		if at >= 0 && r.counts(at) {
			continue
		}
		strays++
		why := "which there is not"
		if at >= 0 {
			why = "whose lines the captures have replaced"
		}
		problems = append(problems, fmt.Sprintf("line %d, %s %s of %s, is of evaluation %d, %s", i+1, l.Amount, l.Label, l.Rule, l.Evaluation, why))
	}
	if !agree {
		return problems
	}
	if strays == 0 {
		for i, l := range r.again.Lines {
			if i >= len(r.kept.Lines) || r.kept.Lines[i] != l {
				problems = append(problems, fmt.Sprintf("line %d is not %s %s of %s, as evaluation %d gives it", i+1, l.Amount, l.Label, l.Rule, l.Evaluation))
			}
		}
	}
	if r.kept.Total != r.again.Total {
		problems = append(problems, fmt.Sprintf("the evaluations' lines add up to %s, and its total is %s", r.again.Total, r.kept.Total))
	}
	return problems
}
