package consistency_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv/consistency"
)

// checkedPayment is a payment that was captured twice and refunded once, with all its
// records as the store reads them.
func checkedPayment(t *testing.T) *consistency.PaymentRecords {
	t.Helper()
	n := 0
	newID := func(prefix string) string { n++; return fmt.Sprintf("%s%026d", prefix, n) }
	o := tollgate.Origin{Organization: "org_1", At: 1_000_000}
	eur := func(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }
	priced := func(minor int64, capture uint32) tollgate.Pricing {
		return tollgate.Pricing{Input: tollgate.PricingInput{Amount: eur(minor), Payee: "shop.example", CaptureIndex: capture}, Lines: []tollgate.FeeLine{{Label: "Fee", Amount: eur(3)}}}
	}
	day := tollgate.SalesDay{Date: 20_000, PayoutDate: 20_002}
	r := &consistency.PaymentRecords{}
	sequence := int64(4)
	add := func(ch *tollgate.PaymentChange, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		sequence += 3
		for i := range ch.Transactions {
			r.Transactions = append(r.Transactions, consistency.PlacedTransaction{Transaction: &ch.Transactions[i], Position: 16*sequence + int64(i)})
		}
		r.Transactions[0].Status = string(ch.Payment.Status)
		e := consistency.PaymentEvent{ID: ch.Event.ID, Sequence: sequence, Type: ch.Event.Type}
		if err := json.Unmarshal(ch.Event.Data, &e.Data); err != nil {
			t.Fatal(err)
		}
		r.Events = append(r.Events, e)
		if ch.Capture != nil {
			r.Captures = append(r.Captures, *ch.Capture)
		}
		if ch.Refund != nil {
			r.Refunds = append(r.Refunds, *ch.Refund)
		}
		r.Payment, r.Ticket, r.Due = ch.Payment, ch.Ticket, ch.Payment.Deadline()
	}
	add(tollgate.CreatePayment(newID, o, tollgate.NewPayment{MerchantAccountID: "ma_1", Amount: eur(1000), Payee: "shop.example", CaptureMethod: tollgate.CaptureManual, CaptureWindowHours: 24},
		tollgate.PerimeterDecision{ID: "per_1", Version: 1, Decision: tollgate.DecisionAllow}, priced(1000, 0), nil))
	for i, minor := range []int64{400, 250} {
		add(tollgate.CapturePayment(newID, o, r.Payment, r.Ticket, tollgate.CaptureRequest{Amount: eur(minor), Final: i == 1, SalesDay: day}, priced(minor, uint32(i+1))))
	}
	add(tollgate.RefundPayment(newID, o, r.Payment, r.Ticket, tollgate.RefundRequest{Amount: eur(100), Account: tollgate.StatusActive, SalesDay: day}, priced(100, 0)))
	return r
}

// What a payment is made of agrees as the service makes it, and each difference is
// found.
func TestCheckPayment(t *testing.T) {
	if found := checkedPayment(t).Check(); len(found) > 0 {
		t.Fatalf("of a payment that is right: %v", found)
	}
	for name, c := range map[string]struct {
		kind consistency.FindingKind
		do   func(*consistency.PaymentRecords)
	}{
		"captured": {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Payment.AmountCaptured.Minor++ }},
		"released": {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Payment.AmountReleased.Minor-- }},
		"refunded": {consistency.FindingPayment, func(r *consistency.PaymentRecords) {
			r.Payment.AmountRefunded.Minor--
			r.Payment.AmountRefundable.Minor++
		}},
		"fees":                       {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Payment.FeeTotal.Minor++ }},
		"deadline":                   {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Due = 7 }},
		"ticket of another":          {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Ticket.Payee = "other.example" }},
		"lines":                      {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Ticket.Lines = r.Ticket.Lines[1:] }},
		"evaluations":                {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Ticket.Evaluations = r.Ticket.Evaluations[1:] }},
		"revision":                   {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Payment.Revision++ }},
		"an event twice":             {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Ticket.EventIDs[1] = r.Ticket.EventIDs[0] }},
		"a transaction's amount":     {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Transactions[1].Amount.Minor-- }},
		"a fee's amount":             {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Transactions[2].Amount.Minor-- }},
		"a transaction is missing":   {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Transactions = r.Transactions[:len(r.Transactions)-1] }},
		"a transaction is another's": {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Transactions[1].MerchantAccountID = "ma_2" }},
		"positions":                  {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Transactions[2].Position = r.Transactions[1].Position }},
		"the authorization's status": {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Transactions[0].Status = "authorized" }},
		"a capture is missing":       {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Captures = r.Captures[1:] }},
		"a capture's amount":         {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Captures[0].Amount.Minor++ }},
		"a refund's fees":            {consistency.FindingPayment, func(r *consistency.PaymentRecords) { r.Refunds[0].FeeTotal.Minor++ }},
		"an event is not in the log": {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[1].Sequence = 0 }},
		"an event is another's":      {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[1].Data.PaymentID = "pay_2" }},
		"events in another order":    {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[2].Sequence = 1 }},
		"an event's amount":          {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[1].Data.Amount.Minor++ }},
		"an event's sum":             {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[2].Data.AmountCaptured.Minor++ }},
		"the last event's status":    {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[3].Data.Status = tollgate.Expired }},
		"an event names no capture":  {consistency.FindingEvent, func(r *consistency.PaymentRecords) { r.Events[1].Data.CaptureID = "" }},
		"committed with no event of it": {consistency.FindingEvent, func(r *consistency.PaymentRecords) {
			r.Transactions[1].Position -= 16
			r.Transactions[2].Position -= 16
		}},
	} {
		r := checkedPayment(t)
		c.do(r)
		found := r.Check()
		has := false
		for _, f := range found {
			has = has || f.Kind == c.kind && f.Object == "payment" && f.ID == r.Payment.ID
		}
		if !has {
			t.Errorf("%s: %v", name, found)
		}
	}
	trimmed := checkedPayment(t)
	trimmed.Events[0] = consistency.PaymentEvent{ID: trimmed.Events[0].ID, Trimmed: true}
	if found := trimmed.Check(); len(found) > 0 {
		t.Errorf("an event that is no longer kept: %v", found)
	}
}

// What an account is to be paid is the sum of its members, and stands in one place.
func TestCheckAccount(t *testing.T) {
	group := tollgate.PayoutGroup{Date: 20_000, Captures: 100, Fees: 1, Count: 1}
	right := func() *consistency.AccountRecords {
		return &consistency.AccountRecords{
			Account: "ma_1", Payable: []tollgate.Payable{{Due: 20_000, Currency: "EUR", PayoutGroup: group}}, Sums: []tollgate.PayoutGroup{group}, Faults: []error{nil},
			Pending: map[consistency.PayableGroup]string{{Currency: "EUR", Date: 20_000}: "txn_1"},
		}
	}
	if found, _ := right().Check(); len(found) > 0 {
		t.Errorf("of what is right: %v", found)
	}
	payout := tollgate.StoredPayout{Payout: tollgate.Payout{ID: "po_1", Currency: "EUR", Status: tollgate.PayoutStatusPaid, Groups: []tollgate.PayoutGroup{group}}}
	for name, c := range map[string]struct {
		do      func(*consistency.AccountRecords)
		message string
		differ  int
	}{
		"another sum":   {func(r *consistency.AccountRecords) { r.Sums[0].Captures-- }, "add up to 99", 1},
		"another count": {func(r *consistency.AccountRecords) { r.Sums[0].Count++ }, "1, 0, 2", 1},
		"no sum":        {func(r *consistency.AccountRecords) { r.Faults[0] = fmt.Errorf("unreadable") }, "unreadable", 0},
		"in two places": {func(r *consistency.AccountRecords) { r.Payouts = append(r.Payouts, payout); r.Sums[0].Captures-- }, "and in po_1", 0},
		"in two payouts": {func(r *consistency.AccountRecords) {
			r.Payable, r.Payouts = nil, []tollgate.StoredPayout{payout, payout}
		}, "and in po_1", 0},
		"in no place": {func(r *consistency.AccountRecords) { r.Payable = nil }, "neither to be paid", 0},
	} {
		r := right()
		c.do(r)
		found, differ := r.Check()
		text := fmt.Sprint(found)
		if len(found) == 0 || !strings.Contains(text, c.message) || len(differ) != c.differ {
			t.Errorf("%s: %s, %v", name, text, differ)
		}
	}
	failed := right()
	payout.Status = tollgate.PayoutStatusFailed
	failed.Payouts = []tollgate.StoredPayout{payout}
	if found, _ := failed.Check(); len(found) > 0 || failed.Unplaced() {
		t.Errorf("a group goes on from a payout that failed: %v", found)
	}
	if failed.Payable = nil; failed.Unplaced() {
		t.Error("it stands in a payout")
	}
	if failed.Payouts = nil; !failed.Unplaced() {
		t.Error("it stands nowhere")
	}
}

// What a payment takes up of a counter is the same, computed from what it is now or
// from its events one after the other.
func TestConsumedIsWhatEventsSay(t *testing.T) {
	r := checkedPayment(t)
	for _, restore := range []bool{false, true} {
		for _, counter := range []string{"b0", "f0"} {
			var sum int64
			for i := range r.Events {
				sum += consistency.ConsumedBy(r.Payment, &r.Events[i].Data, i == 0, counter, restore)
			}
			if want := consistency.Consumed(r.Payment, counter, restore); sum != want || want == 0 {
				t.Errorf("%s, %t: %d by its events, %d by itself", counter, restore, sum, want)
			}
		}
	}
	if got := consistency.Consumed(r.Payment, "b0", true); got != 550 {
		t.Errorf("650 captured and 100 refunded: %d", got)
	}
}

func TestCheckCounter(t *testing.T) {
	for name, c := range map[string]struct {
		r     consistency.CounterRecords
		found int
	}{
		"the same":            {consistency.CounterRecords{There: true, Count: 5, Consumed: 5}, 0},
		"too much":            {consistency.CounterRecords{There: true, Count: 6, Consumed: 5}, 1},
		"gone, its time over": {consistency.CounterRecords{Consumed: 5, Until: 99}, 0},
		"gone before":         {consistency.CounterRecords{Consumed: 5, Until: 101}, 1},
		"nobody knows when":   {consistency.CounterRecords{Consumed: 5}, 0},
	} {
		if found := c.r.Check(100); len(found) != c.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestCheckSequence(t *testing.T) {
	for name, c := range map[string]struct {
		numbers []int64
		counter int64
		found   int
	}{
		"none":          {nil, 9, 0},
		"from anywhere": {[]int64{7, 8, 9}, 9, 0},
		"a gap":         {[]int64{7, 9}, 9, 1},
		"a repeat":      {[]int64{7, 8, 8}, 8, 1},
		"back":          {[]int64{7, 8, 5, 6}, 6, 1},
		"behind":        {[]int64{7, 8}, 7, 1},
		"ahead":         {[]int64{7, 8}, 9, 1},
	} {
		s, found := consistency.Sequence{Log: "event"}, []consistency.Finding(nil)
		for i, n := range c.numbers {
			found = append(found, s.Next(n, fmt.Sprint(i))...)
		}
		if found = append(found, s.End(c.counter)...); len(found) != c.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestCheckDelivery(t *testing.T) {
	event := "evt_" + strings.Repeat("0", 26)
	id := tollgate.DeliveryOf(event, "we_1")
	of := func(state tollgate.DeliveryState) *tollgate.Delivery {
		return &tollgate.Delivery{ID: id, EventID: event, State: state}
	}
	for name, c := range map[string]struct {
		r     consistency.DeliveryRecords
		found int
		stray bool
	}{
		"waits":              {consistency.DeliveryRecords{Delivery: of(tollgate.DeliveryPending), Open: true, Queued: true}, 0, false},
		"waits, not queued":  {consistency.DeliveryRecords{Delivery: of(tollgate.DeliveryRetrying), Open: true}, 1, false},
		"held":               {consistency.DeliveryRecords{Delivery: of(tollgate.DeliveryHeld), Open: true}, 0, false},
		"held and queued":    {consistency.DeliveryRecords{Delivery: of(tollgate.DeliveryHeld), Open: true, Queued: true}, 1, false},
		"done":               {consistency.DeliveryRecords{Delivery: of(tollgate.DeliverySucceeded)}, 0, false},
		"done and open":      {consistency.DeliveryRecords{Delivery: of(tollgate.DeliveryFailed), Open: true}, 1, true},
		"gone":               {consistency.DeliveryRecords{}, 0, false},
		"gone and queued":    {consistency.DeliveryRecords{Queued: true}, 1, true},
		"of another event's": {consistency.DeliveryRecords{Delivery: &tollgate.Delivery{ID: id, EventID: "evt_" + strings.Repeat("1", 26), State: tollgate.DeliverySucceeded}}, 1, false},
	} {
		c.r.ID, c.r.Endpoint = id, "we_1"
		if found, stray := c.r.Check(); len(found) != c.found || stray != c.stray {
			t.Errorf("%s: %v, %t", name, found, stray)
		}
	}
}
