package tollgate_test

import (
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
)

// refundedTicket is the ticket of a payment of 100.00 that was captured in part,
// refunded, captured again, released, and refunded once more. Of its two rules
// one takes part in refunds.
func refundedTicket(t *testing.T) *tollgate.Ticket {
	t.Helper()
	newID, at := counter(), tollgate.Origin{Organization: "org_1", At: 1_700_000_000_000}
	other := tollgate.RuleRef{Rule: tollgate.Citation{Name: "refund_fee", Version: 1}, SHA256: strings.Repeat("b", 64)}
	pricing := func(minor int64, index int) tollgate.Pricing {
		p := priced(minor, index)
		p.Rules = append(p.Rules, other)
		return p
	}
	n := tollgate.NewPayment{MerchantAccountID: "ma_1", Amount: pricing(10_000, 0).Input.Amount, Payee: "shop.example", CaptureWindowHours: 168}
	c, err := tollgate.CreatePayment(newID, at, n, tollgate.PerimeterDecision{ID: "per_1", Version: 1, Decision: tollgate.DecisionAllow}, pricing(10_000, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	capture := func(minor int64, index int) {
		p := pricing(minor, index)
		if _, err := tollgate.CapturePayment(newID, at, c.Payment, c.Ticket, tollgate.CaptureRequest{Amount: p.Input.Amount}, p); err != nil {
			t.Fatal(err)
		}
	}
	refund := func(minor int64) {
		in := tollgate.PricingInput{Amount: tollgate.Money{Minor: minor, Currency: "EUR"}, Payee: "shop.example", Refund: true}
		id := newID(tollgate.PrefixEvent)
		lines := []tollgate.FeeLine{{Label: "Refund fee", Amount: tollgate.Money{Minor: 25, Currency: "EUR"}, Rule: other.Rule}}
		c.Ticket.Evaluate(tollgate.EvaluationRefund, in, []tollgate.RuleRef{other}, lines, id, at.At)
		c.Ticket.Refer(id)
	}
	capture(6_000, 1)
	refund(4_000)
	capture(1_000, 2)
	if _, err := tollgate.TransitionPayment(newID, at, c.Payment, c.Ticket, tollgate.TriggerCancel, nil); err != nil {
		t.Fatal(err)
	}
	refund(3_000)
	return c.Ticket
}

// A refund's lines stand beside those of the captures, and replace none.
func TestTicketOfRefunds(t *testing.T) {
	ticket := refundedTicket(t)
	var evaluations []int
	for _, l := range ticket.Lines {
		evaluations = append(evaluations, l.Evaluation)
	}
	if !slices.Equal(evaluations, []int{2, 3, 4, 5}) || ticket.Total.Minor != 600+25+100+25 {
		t.Errorf("lines of %v, total %s", evaluations, ticket.Total)
	}
	if problems := wasm.Inconsistencies(ticket); len(problems) > 0 {
		t.Error(problems)
	}
	for i, refund := range []bool{false, false, true, false, true} {
		e := &ticket.Evaluations[i]
		in := e.Pricing()
		if in.Refund != refund || in.Amount != e.Input.Amount || in.Payee != "shop.example" || in.CaptureIndex != e.Input.CaptureIndex {
			t.Errorf("evaluation %d priced %+v", i+1, in)
		}
	}
}

func TestTicketOfRefundsContradictsItself(t *testing.T) {
	for what, k := range map[string]struct {
		change func(*tollgate.Ticket)
		want   string
	}{
		"more than was captured by then": {func(t *tollgate.Ticket) { t.Evaluations[2].Input.Amount.Minor = 6_001 }, "evaluation 3 refunds more than was captured"},
		"more in all":                    {func(t *tollgate.Ticket) { t.Evaluations[4].Input.Amount.Minor = 3_001 }, "evaluation 5 refunds more than was captured"},
		"the index of a capture":         {func(t *tollgate.Ticket) { t.Evaluations[2].Input.CaptureIndex = 1 }, "evaluation 3 has capture_index 1, not 0"},
		"a capture counts no refund":     {func(t *tollgate.Ticket) { t.Evaluations[3].Input.CaptureIndex = 3 }, "evaluation 4 has capture_index 3, not 2"},
		"another payee":                  {func(t *tollgate.Ticket) { t.Evaluations[2].Input.Payee = "other.example" }, "evaluation 3 priced EUR"},
		"another rule": {
			func(t *tollgate.Ticket) { t.Evaluations[2].Rules[0].SHA256 = strings.Repeat("c", 64) },
			"evaluation 3 cites other rules than evaluation 1",
		},
		"a rule twice": {func(t *tollgate.Ticket) {
			t.Evaluations[2].Rules = append(t.Evaluations[2].Rules, t.Evaluations[2].Rules[0])
		}, "evaluation 3 cites other rules than evaluation 1"},
		"rules in another order": {func(t *tollgate.Ticket) {
			t.Evaluations[2].Rules = []tollgate.RuleRef{t.Evaluations[0].Rules[1], t.Evaluations[0].Rules[0]}
		}, "evaluation 3 cites other rules than evaluation 1"},
		"a capture without all rules": {
			func(t *tollgate.Ticket) { t.Evaluations[3].Rules = t.Evaluations[3].Rules[:1] },
			"evaluation 4 cites other rules than evaluation 1",
		},
		"another event":         {func(t *tollgate.Ticket) { t.Evaluations[2].EventID = "evt_other" }, "event_ids do not have"},
		"another event, later":  {func(t *tollgate.Ticket) { t.Evaluations[4].EventID = "evt_other" }, "event_ids do not have"},
		"an event that is gone": {func(t *tollgate.Ticket) { t.EventIDs = slices.Delete(t.EventIDs, 2, 3) }, "event_ids do not have"},
		"an event too many":     {func(t *tollgate.Ticket) { t.EventIDs = append(t.EventIDs, "evt_other") }, "event_ids have 1 events behind"},
		"an event too many in between": {func(t *tollgate.Ticket) {
			t.EventIDs = slices.Insert(t.EventIDs, 2, "evt_other")
		}, "event_ids"},
	} {
		ticket := refundedTicket(t)
		k.change(ticket)
		if problems := wasm.Inconsistencies(ticket); !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, k.want) }) {
			t.Errorf("%s: %q, want %q", what, problems, k.want)
		}
	}
}
