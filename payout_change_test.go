package tollgate_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollgate"
)

// testDay is the day of testNow, 08:00 UTC: a Friday.
var testDay = tollgate.DateOf(testNow.Time())

// storedPayout is one of 35.00 less fees of 0.35, in two groups.
func storedPayout(status tollgate.PayoutStatus, step tollgate.PayoutStep) tollgate.StoredPayout {
	return tollgate.StoredPayout{Step: step, Place: 7, Payout: tollgate.Payout{
		ID: "po_" + strings.Repeat("0", 26), OrganizationID: "org_1", MerchantAccountID: "ma_1", Currency: "EUR", Date: testDay - 1, Status: status,
		Groups:    []tollgate.PayoutGroup{{Date: testDay - 2, Captures: 1000, Fees: 10, Count: 1}, {Date: testDay - 1, Captures: 2500, Fees: 25, Count: 1}},
		CreatedAt: testNow.Add(-time.Hour), UpdatedAt: testNow.Add(-time.Hour),
	}}
}

// own is the payout's own transaction, of so many minor units.
func own(minor int64) *tollgate.Transaction {
	return &tollgate.Transaction{ID: "txn_1", Type: tollgate.TransactionPayout, Amount: tollgate.Money{Minor: minor, Currency: "EUR"}}
}

func TestCheckPayout(t *testing.T) {
	whole := tollgate.Tally(storedPayout(tollgate.PayoutStatusPending, tollgate.PayoutStepCheck).Groups)
	part := tollgate.Tally{whole[0], {Date: whole[1].Date}}
	for name, test := range map[string]struct {
		step tollgate.PayoutStep
		sum  tollgate.SumCheck
		want string // status, step, place; then what is known of the sum
		held string
	}{
		"more to come":          {tollgate.PayoutStepCheck, tollgate.SumCheck{Tally: part, Place: 9}, "pending check 7, up to 9", ""},
		"right":                 {tollgate.PayoutStepCheck, tollgate.SumCheck{Tally: whole, Place: 9, Last: true, Own: own(3465)}, "pending available 0, right", ""},
		"of an earlier release": {tollgate.PayoutStepPay, tollgate.SumCheck{Tally: whole, Last: true, Own: own(3465)}, "pending pay 7, right", ""},
		"too little":            {tollgate.PayoutStepAvailable, tollgate.SumCheck{Tally: part, Last: true, Own: own(3465)}, "held check 7, wrong", "add up to 9.90"},
		"its own is another":    {tollgate.PayoutStepCheck, tollgate.SumCheck{Tally: whole, Last: true, Own: own(3466)}, "held check 7, wrong", "its own transaction is of 34.66"},
		"unreadable":            {tollgate.PayoutStepCheck, tollgate.SumCheck{Tally: part, Fault: errors.New("txn_2: a transaction cannot be read")}, "held check 7, wrong", "cannot be read"},
	} {
		was := storedPayout(tollgate.PayoutStatusPending, test.step)
		was.Tally, was.TallyPlace = part, 8
		if !was.Unchecked() {
			t.Errorf("%s: it need not be checked", name)
		}
		ch, err := tollgate.CheckPayout(testMint, testOrigin, was, test.sum)
		if err != nil {
			t.Fatal(name, err)
		}
		p := ch.Payout
		sum := "wrong"
		switch {
		case p.Tally != nil:
			sum = fmt.Sprint("up to ", p.TallyPlace)
		case p.Right:
			sum = "right"
		}
		if got := fmt.Sprintf("%s %s %d, %s", p.Status, p.Step, p.Place, sum); got != test.want || !strings.Contains(p.HeldReason, test.held) {
			t.Errorf("%s: %s (%s), want %s", name, got, p.HeldReason, test.want)
		}
		if held := test.held != ""; held != (ch.Action == "payout.hold") || held != (ch.Event.Type == tollgate.PayoutHeld) || held != (p.UpdatedAt == testNow) {
			t.Errorf("%s: %+v", name, ch)
		}
	}
}

func TestBeginPayout(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*tollgate.StoredPayout)
		taken  bool
	}{
		"its turn":              {func(*tollgate.StoredPayout) {}, true},
		"not recomputed":        {func(p *tollgate.StoredPayout) { p.Right = false }, false},
		"in transit":            {func(p *tollgate.StoredPayout) { p.Status, p.Asked = tollgate.PayoutStatusInTransit, 1 }, true},
		"of an earlier release": {func(p *tollgate.StoredPayout) { p.Status, p.Right = tollgate.PayoutStatusInTransit, false }, true},
		"leased":                {func(p *tollgate.StoredPayout) { p.Lease = testNow + 1 }, false},
		"the lease is over":     {func(p *tollgate.StoredPayout) { p.Lease = testNow }, true},
		"not available yet":     {func(p *tollgate.StoredPayout) { p.Step = tollgate.PayoutStepAvailable }, false},
		"held":                  {func(p *tollgate.StoredPayout) { p.Status, p.Step = tollgate.PayoutStatusHeld, tollgate.PayoutStepCheck }, false},
		"paid": {func(p *tollgate.StoredPayout) {
			p.Status, p.Step = tollgate.PayoutStatusPaid, tollgate.PayoutStepSettle
		}, false},
	} {
		was := storedPayout(tollgate.PayoutStatusPending, tollgate.PayoutStepPay)
		was.Right = true
		test.change(&was)
		ch := tollgate.BeginPayout(testOrigin, was, time.Minute)
		if (ch != nil) != test.taken {
			t.Errorf("%s: %+v", name, ch)
		}
		if ch == nil {
			continue
		}
		if p := ch.Payout; p.Status != tollgate.PayoutStatusInTransit || p.Lease != testNow.Add(time.Minute) || p.Asked != was.Asked+1 || p.UpdatedAt != testNow || ch.Action != "" {
			t.Errorf("%s: %+v", name, ch)
		}
	}
}

// account is paid every day, for the day before at 17:00 UTC.
func account(t *testing.T, closed tollgate.Date) tollgate.PayoutAccount {
	t.Helper()
	line, err := tollgate.NewTimeline([]tollgate.CutoffVersion{{Cutoff: tollgate.Cutoff{
		CutoffTime: "17:00", TimeZone: "UTC", SettlementDelayDays: 1, Calendar: "none", Interval: "daily", Version: 1,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return tollgate.PayoutAccount{Cutoffs: line, Closed: closed}
}

func TestEndPayout(t *testing.T) {
	for _, step := range []tollgate.PayoutStep{tollgate.PayoutStepCheck, tollgate.PayoutStepAvailable, tollgate.PayoutStepSettle, tollgate.PayoutStepDone} {
		if ch, err := tollgate.EndPayout(testMint, testOrigin, storedPayout(tollgate.PayoutStatusPaid, step), tollgate.PayoutOutcome{Failure: "late"}, account(t, 0)); ch != nil || err != nil {
			t.Errorf("%s: %+v %v", step, ch, err)
		}
	}
	was := storedPayout(tollgate.PayoutStatusInTransit, tollgate.PayoutStepPay)
	ch, err := tollgate.EndPayout(testMint, testOrigin, was, tollgate.PayoutOutcome{Reference: "B-1"}, tollgate.PayoutAccount{})
	if err != nil || ch.Action != "payout.paid" || ch.Event.Type != tollgate.PayoutPaid || len(ch.Again) != 0 {
		t.Errorf("%+v %v", ch, err)
	}
	if p := ch.Payout; p.Status != tollgate.PayoutStatusPaid || p.Step != tollgate.PayoutStepSettle || p.Place != 0 || p.Reference != "B-1" || p.UpdatedAt != testNow {
		t.Errorf("%+v", p)
	}
	// What failed is due on the next date that is not closed, and never on its own again.
	end := func(d tollgate.Date) tollgate.Instant { return account(t, 0).Cutoffs.End(d) }
	for closed, due := range map[tollgate.Date]tollgate.Date{0: testDay, testDay - 1: testDay, testDay: testDay + 1, testDay + 3: testDay + 4} {
		ch, err := tollgate.EndPayout(testMint, testOrigin, was, tollgate.PayoutOutcome{Failure: "no such account"}, account(t, closed))
		if err != nil || ch.Action != "payout.failed" || ch.Note != "no such account" || ch.Event.Type != tollgate.PayoutFailed {
			t.Fatalf("%+v %v", ch, err)
		}
		if p := ch.Payout; p.Status != tollgate.PayoutStatusFailed || p.Step != tollgate.PayoutStepDone || p.FailureReason != "no such account" {
			t.Errorf("%+v", p)
		}
		var again []tollgate.Payable
		for _, g := range was.Groups {
			again = append(again, tollgate.Payable{Due: due, Currency: "EUR", PayoutGroup: g})
		}
		if !reflect.DeepEqual(ch.Again, again) || ch.Closed != closed || ch.LookAt != end(due) {
			t.Errorf("closed up to %s: due again %+v, looked at %s; want %s", closed, ch.Again, ch.LookAt, due)
		}
	}
}

// An older one, too, is due again when no day is closed that is not over.
func TestEndOldPayout(t *testing.T) {
	was := storedPayout(tollgate.PayoutStatusInTransit, tollgate.PayoutStepPay)
	was.Date = testDay - 9
	ch, err := tollgate.EndPayout(testMint, testOrigin, was, tollgate.PayoutOutcome{Failure: "x"}, account(t, testDay-8))
	if err != nil || ch.Again[0].Due != testDay {
		t.Errorf("%+v %v", ch, err)
	}
}

func TestReleasePayout(t *testing.T) {
	right := []tollgate.PayoutGroup{{Date: testDay - 2, Captures: 1000, Fees: 10, Count: 1}, {Date: testDay - 1, Captures: 500, Fees: 5, Count: 1}}
	for name, test := range map[string]struct {
		status  tollgate.PayoutStatus
		recount tollgate.Recount
		says    string // why not
	}{
		"released":         {tollgate.PayoutStatusHeld, tollgate.Recount{Groups: right, Own: own(0)}, ""},
		"pending":          {tollgate.PayoutStatusPending, tollgate.Recount{}, "The payout is pending; only one that is held can be released."},
		"paid":             {tollgate.PayoutStatusPaid, tollgate.Recount{}, "The payout is paid; only one that is held can be released."},
		"a contradiction":  {tollgate.PayoutStatusHeld, tollgate.Recount{Groups: right, Own: own(0), Fault: errors.New("capture cap_1 cannot be read")}, "The payout stays held: capture cap_1 cannot be read. Repair that first."},
		"nothing to pay":   {tollgate.PayoutStatusHeld, tollgate.Recount{Groups: []tollgate.PayoutGroup{{Captures: 5, Fees: 5}}, Own: own(0)}, "The payout stays held: its transactions add up to 0.00, which cannot be paid."},
		"its own is gone":  {tollgate.PayoutStatusHeld, tollgate.Recount{Groups: right, Own: &tollgate.Transaction{}}, "The payout stays held: its own transaction cannot be read. Repair that first."},
		"its own is torn":  {tollgate.PayoutStatusHeld, tollgate.Recount{Groups: right, Own: &tollgate.Transaction{ID: "txn_1", Damaged: true}}, "The payout stays held: its own transaction cannot be read. Repair that first."},
		"in transit, too":  {tollgate.PayoutStatusInTransit, tollgate.Recount{}, "The payout is in_transit; only one that is held can be released."},
		"failed, for good": {tollgate.PayoutStatusFailed, tollgate.Recount{}, "The payout is failed; only one that is held can be released."},
	} {
		was := storedPayout(test.status, tollgate.PayoutStepCheck)
		was.HeldReason, was.Lease = "wrong", testNow
		ch, err := tollgate.ReleasePayout(testMint, testOrigin, was, test.recount, "looked at")
		if test.says != "" {
			var e *tollgate.Error
			if !errors.As(err, &e) || e.Code != tollgate.CodePayoutStateInvalid || e.Message != test.says {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || ch.Action != "payout.release" || ch.Note != "looked at (stored 34.65, recomputed 14.85)" || ch.Event.Type != tollgate.PayoutReleased || *ch.Event.RequestID != "req_1" {
			t.Fatalf("%s: %+v %v", name, ch, err)
		}
		p := ch.Payout
		if p.Status != tollgate.PayoutStatusPending || p.Step != tollgate.PayoutStepAvailable || p.Place != 0 || !p.Right || p.HeldReason != "" || p.Lease != 0 || p.Amount().Minor != 1485 || p.UpdatedAt != testNow {
			t.Errorf("%s: %+v", name, p)
		}
		if was.Amount().Minor != 3465 {
			t.Errorf("%s: what was read has changed", name)
		}
	}
}

func TestPayoutMoves(t *testing.T) {
	for step, want := range map[tollgate.PayoutStep]string{
		tollgate.PayoutStepCheck:     "  check false",
		tollgate.PayoutStepAvailable: "pending available pay true",
		tollgate.PayoutStepPay:       "  pay false",
		tollgate.PayoutStepSettle:    "available settled done true",
		tollgate.PayoutStepDone:      "  done false",
	} {
		p := storedPayout(tollgate.PayoutStatusPending, step)
		from, to, next, ok := p.Moves()
		if got := fmt.Sprint(from, " ", to, " ", next, " ", ok); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
}

func TestCloseDays(t *testing.T) {
	due := func(days ...tollgate.Date) (list []tollgate.Payable) {
		for _, d := range days {
			list = append(list, tollgate.Payable{Due: d, Currency: "EUR", PayoutGroup: tollgate.PayoutGroup{Date: d, Captures: 100, Count: 1}})
		}
		return list
	}
	for name, test := range map[string]struct {
		closed  tollgate.Date
		payable []tollgate.Payable
		made    int
		look    tollgate.Date
	}{
		"nothing is owed":               {0, nil, 0, 0},
		"due yesterday":                 {0, due(testDay - 1), 1, 0},
		"due today, which is open":      {0, due(testDay), 0, testDay},
		"due later, and sooner":         {0, due(testDay+3, testDay+1), 0, testDay + 1},
		"due yesterday and later":       {0, due(testDay-1, testDay+1), 1, testDay + 1},
		"closed by a clock that is off": {testDay + 1, due(testDay + 1), 1, testDay + 1},
	} {
		a := account(t, test.closed)
		c := tollgate.CloseDays(testOrigin, "ma_1", a, test.payable)
		look := tollgate.Instant(0)
		if test.look != 0 {
			look = a.Cutoffs.End(test.look)
		}
		if c.Last != testDay-1 || len(c.Payouts) != test.made || c.Look != look {
			t.Errorf("%s: closed up to %s, %d payouts, looked at %s; want %s, %d, %s", name, c.Last, len(c.Payouts), c.Look, testDay-1, test.made, look)
		}
		for _, p := range c.Payouts {
			if p.OrganizationID != "org_1" || p.MerchantAccountID != "ma_1" {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}
