package tollgate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
)

func pricedRefund(minor int64) tollgate.Pricing {
	p := priced(minor, 0)
	p.Input.Refund = true
	return p
}

// captured is a payment of 10.00 EUR of which a part was captured, in two parts.
func captured(t *testing.T, minor int64, final bool) *tollgate.PaymentChange {
	t.Helper()
	newID, origin := counter(), tollgate.Origin{Organization: "org_1", At: 1_700_000_000_000}
	n := tollgate.NewPayment{MerchantAccountID: "ma_1", Amount: euros(1000), Payee: "shop.example", CaptureWindowHours: 168, Reservations: []tollgate.Reservation{{Counter: "bday"}, {Counter: "fday"}}}
	ch, err := tollgate.CreatePayment(newID, origin, n, tollgate.PerimeterDecision{ID: "per_1", Version: 1, Decision: tollgate.DecisionAllow}, priced(1000, 0), nil)
	for i, part := range []int64{minor / 2, minor - minor/2} {
		if err == nil {
			ch, err = tollgate.CapturePayment(newID, origin, ch.Payment, ch.Ticket, tollgate.CaptureRequest{Amount: euros(part), Final: final && i == 1}, priced(part, i+1))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func euros(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }

func TestRefundPayment(t *testing.T) {
	origin := tollgate.Origin{Organization: "org_1", RequestID: "req_1", At: 1_800_000_000_000}
	for name, test := range map[string]struct {
		captured int64
		final    bool
		refunds  []int64
		account  string
		want     string // of the last: status, refunded, refundable, fees; or a code
	}{
		"all":                     {1000, true, []int64{1000}, "active", "captured 10.00 0.00 2.00"},
		"a part":                  {1000, true, []int64{300}, "active", "captured 3.00 7.00 1.30"},
		"in parts":                {1000, true, []int64{300, 700}, "active", "captured 10.00 0.00 2.00"},
		"too much":                {1000, true, []int64{1001}, "active", "refund_amount_exceeds_refundable"},
		"too much in parts":       {1000, true, []int64{300, 701}, "active", "refund_amount_exceeds_refundable"},
		"nothing":                 {1000, true, []int64{0}, "active", "refund_amount_exceeds_refundable"},
		"nothing left":            {1000, true, []int64{1000, 1}, "active", "refund_amount_exceeds_refundable"},
		"still capturable":        {600, false, []int64{600}, "active", "partially_captured 6.00 0.00 1.20"},
		"more than captured":      {600, false, []int64{601}, "active", "refund_amount_exceeds_refundable"},
		"of what was released":    {600, true, []int64{601}, "active", "refund_amount_exceeds_refundable"},
		"nothing captured":        {0, false, []int64{1}, "active", "payment_state_invalid"},
		"a paused account":        {1000, true, []int64{1}, "paused", "captured 0.01 9.99 1.00"},
		"a closed account":        {1000, true, []int64{1}, "closed", "merchant_account_inactive"},
		"as often as it may":      {1000, true, slices.Repeat([]int64{1}, 50), "active", "captured 0.50 9.50 1.00"},
		"once more":               {1000, true, slices.Repeat([]int64{1}, 51), "active", "refund_limit_reached"},
		"once more, and too much": {1000, true, append(slices.Repeat([]int64{1}, 50), 1000), "active", "refund_limit_reached"},
	} {
		before := captured(t, max(test.captured, 2), test.final)
		if test.captured == 0 {
			var err error
			if before, err = tollgate.CreatePayment(counter(), origin, tollgate.NewPayment{MerchantAccountID: "ma_1", Amount: euros(1000), Payee: "shop.example", CaptureWindowHours: 1},
				tollgate.PerimeterDecision{Decision: tollgate.DecisionAllow}, priced(1000, 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		p, ticket, newID := before.Payment, before.Ticket, counter()
		got := ""
		for _, minor := range test.refunds {
			unchanged, _ := json.Marshal([]any{p, ticket})
			ch, err := tollgate.RefundPayment(newID, origin, p, ticket, tollgate.RefundRequest{Amount: euros(minor), Account: test.account}, pricedRefund(minor))
			if got = fmt.Sprint(p.Status, " ", p.AmountRefunded, " ", p.AmountRefundable, " ", p.FeeTotal); err == nil {
				if ch.Event.Type != tollgate.PaymentRefunded || ch.From != p.Status || ch.Refund.Amount.Minor != minor || ch.Refund.Status != "succeeded" {
					t.Errorf("%s: %+v", name, ch)
				}
				continue
			}
			e, _ := errors.AsType[*tollgate.Error](err)
			got = string(e.Code)
			if after, _ := json.Marshal([]any{p, ticket}); string(after) != string(unchanged) {
				t.Errorf("%s: an error that changes it: %s", name, after)
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// What a refund writes: its own transaction and its fee's, both of its sales day;
// an evaluation, lines behind all others, and an event with both of its sums.
func TestRefundIsWritten(t *testing.T) {
	before, reason := captured(t, 1000, true), "broken"
	lines := len(before.Ticket.Lines)
	ch, err := tollgate.RefundPayment(counter(), tollgate.Origin{Organization: "org_1", At: 1_800_000_000_000}, before.Payment, before.Ticket,
		tollgate.RefundRequest{Amount: euros(400), Reason: &reason, SalesDay: tollgate.SalesDay{Date: 20000, PayoutDate: 20002}}, pricedRefund(400))
	if err != nil {
		t.Fatal(err)
	}
	var moved []string
	for _, x := range ch.Transactions {
		moved = append(moved, fmt.Sprint(x.Type, " ", x.Status, " ", x.Amount, " ", *x.RefundID == ch.Refund.ID, " ", x.CaptureID == nil, " ", *x.BatchDate, " ", *x.AvailableOn))
	}
	if got := strings.Join(moved, ", "); got != "refund pending 4.00 true true 2024-10-04 2024-10-06, fee pending 0.40 true true 2024-10-04 2024-10-06" {
		t.Error(got)
	}
	if r := ch.Refund; r.TransactionID != ch.Transactions[0].ID || *r.BatchDate != "2024-10-04" || r.FeeTotal != euros(40) || *r.Reason != reason || ch.Note != reason {
		t.Errorf("%+v", r)
	}
	ticket := ch.Ticket
	last := ticket.Evaluations[len(ticket.Evaluations)-1]
	if last.Kind != tollgate.EvaluationRefund || last.Input.Amount != euros(400) || last.EventID != ch.Event.ID || len(ticket.Lines) != lines+1 || ticket.Lines[lines].Evaluation != last.Number {
		t.Errorf("%+v", ticket)
	}
	if ticket.Total != euros(140) || ch.Payment.FeeTotal != euros(140) {
		t.Errorf("total %s, fees %s", ticket.Total, ch.Payment.FeeTotal)
	}
	var data tollgate.PaymentEventData
	if err := json.Unmarshal(ch.Event.Data, &data); err != nil || data.RefundID != ch.Refund.ID || data.Amount != euros(400) || data.FeeTotal != euros(40) || *data.AmountRefunded != euros(400) {
		t.Errorf("%s: %v", ch.Event.Data, err)
	}
}

// A refund between two captures keeps the lines of the first.
func TestRefundBetweenCaptures(t *testing.T) {
	ch := captured(t, 600, false)
	newID, origin := counter(), tollgate.Origin{Organization: "org_1", At: 1_700_000_000_001}
	ch, err := tollgate.RefundPayment(newID, origin, ch.Payment, ch.Ticket, tollgate.RefundRequest{Amount: euros(100)}, pricedRefund(100))
	if err == nil {
		ch, err = tollgate.CapturePayment(newID, origin, ch.Payment, ch.Ticket, tollgate.CaptureRequest{Amount: euros(400), Final: true}, priced(400, 3))
	}
	if err != nil {
		t.Fatal(err)
	}
	var made []int
	for _, l := range ch.Ticket.Lines {
		made = append(made, l.Evaluation)
	}
	if !slices.Equal(made, []int{2, 3, 4, 5}) || ch.Ticket.Total != euros(110) || ch.Payment.AmountRefundable != euros(900) {
		t.Errorf("lines of %v, total %s, refundable %s", made, ch.Ticket.Total, ch.Payment.AmountRefundable)
	}
}

// A refund gives its amount back to budgets, never the payment to a frequency, and
// only where the perimeter says so.
func TestRefundReturns(t *testing.T) {
	for _, restore := range []bool{false, true} {
		ch := captured(t, 1000, true)
		if b, f := ch.Return("bday"), ch.Return("fday"); b != 0 || f != 0 {
			t.Errorf("all captured: %d, %d", b, f)
		}
		ch, err := tollgate.RefundPayment(counter(), tollgate.Origin{Organization: "org_1", At: 1}, ch.Payment, ch.Ticket, tollgate.RefundRequest{Amount: euros(300), Restore: restore}, pricedRefund(300))
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if restore {
			want = 300
		}
		if b, f := ch.Return("bday"), ch.Return("fday"); b != want || f != 0 {
			t.Errorf("restore %v: %d, %d", restore, b, f)
		}
	}
}

// A payment that was answered before there were refunds has refunded nothing.
func TestPaymentOfBefore(t *testing.T) {
	text, err := json.Marshal(captured(t, 600, true).Payment)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), `"amount_refunded":"0.00","amount_refundable":"6.00",`, "", 1)
	var p tollgate.Payment
	if err := json.Unmarshal([]byte(old), &p); err != nil || old == string(text) || p.AmountRefunded != euros(0) || p.AmountRefundable != euros(600) {
		t.Errorf("%+v: %v", p, err)
	}
}
