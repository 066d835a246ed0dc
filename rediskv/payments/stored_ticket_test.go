package payments

import (
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// While a payment can be captured again, its refunds are kept in a form after which
// the build before captures without taking lines off. They are read as refunds.
func TestStoredTicket(t *testing.T) {
	const at = 1_700_000_000_000
	for status, last := range map[tollgate.PaymentStatus]tollgate.EvaluationKind{
		tollgate.PartiallyCaptured: tollgate.EvaluationCapture, tollgate.Captured: tollgate.EvaluationRefund,
	} {
		p := &tollgate.Payment{ID: "pay_1", TicketID: "tkt_1", Status: status, Refunds: 1, Payee: "shop.example", Currency: "EUR", MerchantAccountID: "ma_1", CreatedAt: at}
		p.Amount = tollgate.Money{Minor: 100, Currency: "EUR"}
		p.Perimeter.Decision = tollgate.DecisionAllow
		ticket := tollgate.NewTicket(p)
		in := tollgate.PricingInput{Amount: p.Amount, Payee: string(p.Payee)}
		ticket.Evaluate(tollgate.EvaluationAuthorization, in, nil, nil, "evt_1", at)
		in.CaptureIndex = 1
		ticket.Evaluate(tollgate.EvaluationCapture, in, nil, nil, "evt_2", at)
		in.CaptureIndex = 0
		ticket.Evaluate(tollgate.EvaluationRefund, in, nil, nil, "evt_3", at)
		stored := storedTicket(p, ticket)
		if got := stored.Evaluations[2].Kind; got != last {
			t.Errorf("%s: the refund is kept as a %s", status, got)
		}
		var space rediskv.Space
		text, err := record.Enveloped(space.Object("tkt_1"), stored)
		if err != nil {
			t.Fatal(err)
		}
		read, err := TicketOf(space, "tkt_1", string(text))
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range ticket.Evaluations {
			if read.Evaluations[i].Kind != e.Kind {
				t.Errorf("%s: evaluation %d is read as a %s, it was a %s", status, i+1, read.Evaluations[i].Kind, e.Kind)
			}
		}
	}
}
