package wasm

import (
	"fmt"
	"slices"
	"strings"

	"tollgate"
)

type ticketCheck struct{ *tollgate.Ticket }

// Inconsistencies says where a ticket contradicts itself, as far as that shows
// without running a rule (interface §2): its evaluations against each other,
// its head, its decision and its events. Lines and total need the rules.
func Inconsistencies(ticket *tollgate.Ticket) []string {
	t := ticketCheck{ticket}
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if t.Object != "ticket" {
		say("object is %q", t.Object)
	}
	if !strings.HasPrefix(t.PaymentID, tollgate.PrefixPayment) || t.ID != tollgate.TicketOf(t.PaymentID) {
		say("%q is not the ticket of payment %q", t.ID, t.PaymentID)
	}
	if len(t.Evaluations) == 0 {
		say("the ticket has no evaluations")
		return found
	}
	t.checkHead(say)
	t.checkCaptures(say)
	t.checkEvents(say)
	return found
}

func (t ticketCheck) checkHead(say func(string, ...any)) {
	first := &t.Evaluations[0]
	switch in := first.Input; {
	case t.Amount != in.Amount:
		say("amount is %s %s, and evaluation 1 priced %s %s", t.Amount, t.Currency, in.Amount, in.Currency)
	case t.Currency != in.Currency:
		say("currency is %s, and evaluation 1 priced %s", t.Currency, in.Currency)
	case t.Payee != in.Payee:
		say("payee is %q, and evaluation 1 priced one of %q", t.Payee, in.Payee)
	}
	if first.Input.CaptureIndex != 0 {
		say("evaluation 1 has capture_index %d", first.Input.CaptureIndex)
	}
	if t.CreatedAt != first.At {
		say("created_at is %s, and evaluation 1 was made at %s", t.CreatedAt, first.At)
	}
	kind := tollgate.EvaluationAuthorization
	if t.Perimeter.Decision == tollgate.DecisionReview {
		kind = tollgate.EvaluationReview
	}
	if first.Kind != kind {
		say("evaluation 1 is of kind %q, not %q as the perimeter decided %q", first.Kind, kind, t.Perimeter.Decision)
	}
	p := t.Perimeter
	switch p.Decision {
	case tollgate.DecisionAllow, tollgate.DecisionDeny, tollgate.DecisionReview:
		if (p.Decision == tollgate.DecisionAllow) != (p.Reason == "") || (p.Decision == tollgate.DecisionReview) != (p.Reason == tollgate.ReasonAmountNeedsReview) {
			say("the perimeter decided %q with the reason %q", p.Decision, p.Reason)
		}
	default:
		say("the perimeter decided %q", p.Decision)
	}
	// Only what waits for a review can be decided in another way later.
	reviewed := p.Decision == tollgate.DecisionReview && (t.Decision == tollgate.DecisionAllow || t.Decision == tollgate.DecisionDeny)
	if t.Decision != p.Decision && !reviewed {
		say("decision is %q, and the perimeter decided %q", t.Decision, p.Decision)
	}
	if len(t.Evaluations) > 1 && t.Decision != tollgate.DecisionAllow {
		say("decision is %q, and it was captured", t.Decision)
	}
}

// checkCaptures compares every evaluation behind the first with it: a capture
// takes a part of its amount, priced with the rules of the creation, and a
// refund a part of what is captured by then, priced with some of them.
func (t ticketCheck) checkCaptures(say func(string, ...any)) {
	captured, refunded, captures := int64(0), int64(0), uint32(0)
	for i, e := range t.Evaluations {
		n, index, pinned := i+1, uint32(0), t.Pinned()
		if e.Number != n {
			say("evaluation %d has the number %d", n, e.Number)
		}
		if i == 0 {
			continue
		}
		if e.Kind == tollgate.EvaluationRefund {
			refunded += e.Input.Amount.Minor
			pinned = slices.DeleteFunc(slices.Clone(pinned), func(ref tollgate.RuleRef) bool { return !slices.Contains(e.Rules, ref) })
		} else {
			captured += e.Input.Amount.Minor
			captures++
			index = captures
		}
		switch {
		case e.Kind != tollgate.EvaluationCapture && e.Kind != tollgate.EvaluationRefund:
			say("evaluation %d is of kind %q, not %q", n, e.Kind, tollgate.EvaluationCapture)
		case e.Input.CaptureIndex != index:
			say("evaluation %d has capture_index %d, not %d", n, e.Input.CaptureIndex, index)
		case e.Input.Currency != t.Currency || e.Input.Payee != t.Payee:
			say("evaluation %d priced %s for %q, and the ticket is of %s for %q", n, e.Input.Currency, e.Input.Payee, t.Currency, t.Payee)
		case captured > t.Amount.Minor:
			say("evaluation %d captures more than the amount %s", n, t.Amount)
		case refunded > captured:
			say("evaluation %d refunds more than was captured", n)
		}
		if !slices.Equal(e.Rules, pinned) {
			say("evaluation %d cites other rules than evaluation 1", n)
		}
	}
}

// checkEvents compares event_ids, one for each transition (interface §3), with
// the events of the evaluations.
func (t ticketCheck) checkEvents(say func(string, ...any)) {
	reviewed, captured := t.Perimeter.Decision == tollgate.DecisionReview, len(t.Evaluations) > 1
	at, further := 0, 1 // it may have been canceled, released or expired in the end
	for i, e := range t.Evaluations {
		switch {
		case i == 1 && e.EventID == t.Evaluations[0].EventID:
			further = 0 // it was captured at once
		case i == 1 && reviewed:
			at = 2 // behind the approval
		case i > 0:
			at++
		}
		if e.Kind == tollgate.EvaluationRefund && further > 0 && at+1 < len(t.EventIDs) && t.EventIDs[at+1] == e.EventID {
			at, further = at+1, 0 // behind the release of what was not captured
		}
		if at >= len(t.EventIDs) || t.EventIDs[at] != e.EventID {
			say("event_ids do not have the event %q of evaluation %d at its place", e.EventID, i+1)
		}
	}
	switch {
	case t.Perimeter.Decision == tollgate.DecisionDeny:
		further = 0
	case reviewed && !captured:
		further = 2
	}
	if n := len(t.EventIDs) - at - 1; n > further {
		say("event_ids have %d events behind the last evaluation, where %d can be", n, further)
	} else if n < 1 && reviewed && !captured && t.Decision != tollgate.DecisionReview {
		say("decision is %q, and event_ids do not have the review's event", t.Decision)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(t.EventIDs)))) != len(t.EventIDs) {
		say("event_ids have an event twice")
	}
}
