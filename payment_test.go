package tollgate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/wasm"
)

// table is interface §3 once more, written by hand from the page.
var table = map[string]string{
	"requires_review approve":         "authorized payment.authorized",
	"requires_review reject":          "declined payment.declined",
	"requires_review cancel":          "canceled payment.canceled",
	"requires_review expire":          "expired payment.expired",
	"authorized capture_part":         "partially_captured payment.captured",
	"authorized capture_all":          "captured payment.captured",
	"authorized cancel":               "canceled payment.canceled",
	"authorized expire":               "expired payment.expired",
	"partially_captured capture_part": "partially_captured payment.captured",
	"partially_captured capture_all":  "captured payment.captured",
	"partially_captured cancel":       "captured payment.released",
	"partially_captured expire":       "captured payment.released",
	"partially_captured refund":       "partially_captured payment.refunded",
	"captured refund":                 "captured payment.refunded",
}

func TestTransitionTable(t *testing.T) {
	states := []tollgate.PaymentStatus{
		tollgate.RequiresReview, tollgate.Authorized, tollgate.PartiallyCaptured, tollgate.Captured, tollgate.Declined, tollgate.Canceled, tollgate.Expired,
	}
	triggers := []tollgate.Trigger{
		tollgate.TriggerApprove, tollgate.TriggerReject, tollgate.TriggerCapturePart, tollgate.TriggerCaptureAll, tollgate.TriggerCancel, tollgate.TriggerExpire, tollgate.TriggerRefund,
	}
	for _, from := range states {
		possible := 0
		for _, trigger := range triggers {
			p := &tollgate.Payment{ID: "pay_1", Status: from}
			next, err := p.Next(trigger)
			want := table[fmt.Sprint(from, " ", trigger)]
			if want != "" {
				if trigger != tollgate.TriggerRefund { // what was captured can always be refunded
					possible++
				}
				if err != nil || fmt.Sprint(next.To, " ", next.Event) != want {
					t.Errorf("%s %s: %v %v, want %s", from, trigger, next, err, want)
				}
				continue
			}
			var e *tollgate.Error
			if !errors.As(err, &e) || e.Code != tollgate.CodePaymentStateInvalid || e.Context.Status != from {
				t.Errorf("%s %s: %v %v, want payment_state_invalid", from, trigger, next, err)
			}
		}
		if from.Terminal() != (possible == 0) {
			t.Errorf("%s: terminal is %v", from, from.Terminal())
		}
	}
}

// counter mints ids that tell nothing but their order.
func counter() tollgate.NewIDFunc {
	n := 0
	return func(prefix string) string { n++; return fmt.Sprintf("%s%026d", prefix, n) }
}

var cite = tollgate.Citation{Name: "card_fee", Version: 2}

func priced(minor int64, index int) tollgate.Pricing {
	amount := tollgate.Money{Minor: minor, Currency: "EUR"}
	return tollgate.Pricing{
		Input: tollgate.PricingInput{Amount: amount, Payee: "shop.example", CaptureIndex: uint32(index)},
		Rules: []tollgate.RuleRef{{Rule: cite, SHA256: strings.Repeat("a", 64)}},
		Lines: []tollgate.FeeLine{{Label: "Card fee", Amount: tollgate.Money{Minor: minor / 10, Currency: "EUR"}, Rule: cite}},
	}
}

var reasons = map[tollgate.Decision]tollgate.Reason{tollgate.DecisionDeny: tollgate.ReasonAmountAboveMaximum, tollgate.DecisionReview: tollgate.ReasonAmountNeedsReview}

// After any sequence the amounts add up, each step is one event, and the
// ticket survives its own JSON.
func TestRandomLives(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		newID := counter()
		origin := tollgate.Origin{Organization: "org_1", At: 1_700_000_000_000}
		total := r.Int64N(5000) + 1
		decision := []tollgate.Decision{tollgate.DecisionAllow, tollgate.DecisionAllow, tollgate.DecisionReview, tollgate.DecisionDeny}[r.IntN(4)]
		method := []tollgate.CaptureMethod{tollgate.CaptureManual, tollgate.CaptureAutomatic}[r.IntN(2)]
		n := tollgate.NewPayment{
			MerchantAccountID: "ma_1", Amount: tollgate.Money{Minor: total, Currency: "EUR"}, Payee: "shop.example",
			CaptureMethod: method, CaptureWindowHours: 168,
		}
		captured := priced(total, 1)
		ch, err := tollgate.CreatePayment(newID, origin, n, tollgate.PerimeterDecision{ID: "per_1", Version: 1, Decision: decision, Reason: reasons[decision]}, priced(total, 0), &captured)
		if err != nil {
			t.Fatal(err)
		}
		p, ticket, events := ch.Payment, ch.Ticket, 1
		for range 12 {
			var err error
			if r.IntN(3) == 0 {
				amount := r.Int64N(total) + 1
				_, err = tollgate.RefundPayment(newID, origin, p, ticket, tollgate.RefundRequest{Amount: tollgate.Money{Minor: amount, Currency: "EUR"}}, pricedRefund(amount))
			} else if r.IntN(3) > 0 {
				amount := r.Int64N(total) + 1
				_, err = tollgate.CapturePayment(newID, origin, p, ticket,
					tollgate.CaptureRequest{Amount: tollgate.Money{Minor: amount, Currency: "EUR"}, Final: r.IntN(4) == 0}, priced(amount, p.Captures+1))
			} else {
				trigger := []tollgate.Trigger{tollgate.TriggerApprove, tollgate.TriggerReject, tollgate.TriggerCancel, tollgate.TriggerExpire}[r.IntN(4)]
				_, err = tollgate.TransitionPayment(newID, origin, p, ticket, trigger, nil)
			}
			if err == nil {
				events++
			}
			if err := p.CheckInvariant(); err != nil {
				t.Fatal(err)
			}
		}
		if len(ticket.EventIDs) != events || p.Revision != int64(events) || len(ticket.Evaluations) != 1+p.Captures+p.Refunds {
			t.Fatalf("%d events, ticket has %d, revision %d, %d evaluations, %d captures", events, len(ticket.EventIDs), p.Revision, len(ticket.Evaluations), p.Captures)
		}
		if found := wasm.Inconsistencies(ticket); len(found) > 0 {
			t.Fatalf("%+v: %s", ticket, strings.Join(found, "; "))
		}
		text, err := json.Marshal(ticket)
		if err != nil {
			t.Fatal(err)
		}
		again := new(tollgate.Ticket)
		if err := json.Unmarshal(text, again); err != nil {
			t.Fatal(err)
		}
		if text2, _ := json.Marshal(again); string(text2) != string(text) {
			t.Fatalf("ticket read back:\n%s\nwas\n%s", text2, text)
		}
	}
}

func TestCaptureLimits(t *testing.T) {
	newID, origin := counter(), tollgate.Origin{Organization: "org_1", At: 1}
	n := tollgate.NewPayment{MerchantAccountID: "ma_1", Amount: tollgate.Money{Minor: 1000, Currency: "EUR"}, Payee: "a.test", CaptureWindowHours: 1}
	ch, err := tollgate.CreatePayment(newID, origin, n, tollgate.PerimeterDecision{Decision: tollgate.DecisionAllow}, priced(1000, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	capture := func(minor int64) error {
		_, err := tollgate.CapturePayment(newID, origin, ch.Payment, ch.Ticket, tollgate.CaptureRequest{Amount: tollgate.Money{Minor: minor, Currency: "EUR"}}, priced(minor, 1))
		return err
	}
	before := *ch.Payment
	var e *tollgate.Error
	if err := capture(1001); !errors.As(err, &e) || e.Code != tollgate.CodeCaptureExceeds || !reflect.DeepEqual(before, *ch.Payment) {
		t.Errorf("more than capturable: %v", err)
	}
	for range tollgate.MaxCaptures {
		if err := capture(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := capture(1); !errors.As(err, &e) || e.Code != tollgate.CodeCaptureLimitReached {
		t.Errorf("one more capture: %v", err)
	}
}

func TestTicketLines(t *testing.T) {
	newID, origin := counter(), tollgate.Origin{Organization: "org_1", At: 1}
	n := tollgate.NewPayment{MerchantAccountID: "ma_1", Amount: tollgate.Money{Minor: 1000, Currency: "EUR"}, Payee: "a.test", CaptureWindowHours: 1}
	ch, err := tollgate.CreatePayment(newID, origin, n, tollgate.PerimeterDecision{Decision: tollgate.DecisionAllow}, priced(1000, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if ch.Ticket.Total.Minor != 100 || ch.Ticket.Evaluations[0].LinesSHA256 != tollgate.LinesSHA256(priced(1000, 0).Lines) {
		t.Errorf("authorized: %+v", ch.Ticket)
	}
	for i, minor := range []int64{300, 200} {
		if _, err := tollgate.CapturePayment(newID, origin, ch.Payment, ch.Ticket, tollgate.CaptureRequest{Amount: tollgate.Money{Minor: minor, Currency: "EUR"}}, priced(minor, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if lines := ch.Ticket.Lines; len(lines) != 2 || lines[0].Evaluation != 2 || lines[1].Evaluation != 3 || ch.Ticket.Total.Minor != 50 {
		t.Errorf("captured: %+v", ch.Ticket.Lines)
	}
}

// Whatever a client does after the deadline finds the payment expired, whatever
// else is wrong with it, and changes nothing.
func TestTooLateComesFirst(t *testing.T) {
	money := func(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }
	for _, status := range []tollgate.PaymentStatus{tollgate.RequiresReview, tollgate.Authorized, tollgate.PartiallyCaptured} {
		p := tollgate.Payment{Status: status, Currency: "EUR", Amount: money(1000), AmountCapturable: money(1000), CaptureBefore: 5000, Captures: tollgate.MaxCaptures}
		for at, late := range map[tollgate.Instant]bool{4999: false, 5000: true, 5001: true} {
			for name, do := range map[string]func(*tollgate.Payment) error{
				"capture":         func(p *tollgate.Payment) error { _, _, err := p.Capture(money(1), false, at); return err },
				"too much":        func(p *tollgate.Payment) error { _, _, err := p.Capture(money(9999), true, at); return err },
				"cancellation":    func(p *tollgate.Payment) error { _, _, err := p.Move(tollgate.TriggerCancel, at); return err },
				"approval":        func(p *tollgate.Payment) error { _, _, err := p.Move(tollgate.TriggerApprove, at); return err },
				"the clock's own": func(p *tollgate.Payment) error { _, _, err := p.Move(tollgate.TriggerExpire, at); return err },
			} {
				tried := p
				e, _ := errors.AsType[*tollgate.Error](do(&tried))
				if (e != nil && e.Code == tollgate.CodeAuthorizationExpired) != (late && name != "the clock's own") {
					t.Errorf("%s, %s at %d: %v", status, name, at, e)
				}
				if e != nil && !reflect.DeepEqual(tried, p) {
					t.Errorf("%s, %s at %d: an error that changes it", status, name, at)
				}
			}
		}
	}
}
