package ledger

import (
	"reflect"
	"strings"
)

// Asked is something that a client has asked for, and what it knows of it.
type Asked struct {
	Name   string // what was made has it as its reference
	Kind   string // create, capture, refund, cancel
	Of     string // the id of the payment
	Minor  int64
	Now    bool // captured at once
	Status int  // of the answer
	Known  bool // there was one
	Sent   bool
	ID     string // of what was made
	// Excused: Redis may have forgotten it, and that was told.
	Excused bool
}

// Made says that it was carried out, and has to be there.
func (a *Asked) Made() bool { return a.promised() && !a.Excused }

// promised says that it was answered as carried out.
func (a *Asked) promised() bool {
	return a.Known && (a.Status < 300 || a.Kind == "create" && a.Status == 403)
}

// Maybe says that nobody knows whether it is there.
func (a *Asked) Maybe() bool { return a.Sent && !a.Known || a.promised() && a.Excused }

// Wrong is told of everything that is wrong.
type Wrong func(format string, args ...any)

// HoldPayments compares payments with what was asked for, and with their transactions.
func (l *Ledger) HoldPayments(asked []Asked, wrong Wrong) {
	named := map[string][]Payment{}
	for _, p := range l.Payments {
		named[p.Reference] = append(named[p.Reference], p)
	}
	for _, o := range asked {
		if o.Kind != "create" {
			continue
		}
		there := named[o.Name]
		delete(named, o.Name)
		switch {
		case len(there) > 1:
			wrong("%s was made %d times: %s and %s", o.Name, len(there), there[0].ID, there[1].ID)
		case o.Made() && len(there) == 0:
			wrong("%s was answered %d (%s) and is not there", o.Name, o.Status, o.ID)
		case o.Made() && there[0].ID != o.ID:
			wrong("%s was answered with %s and is %s", o.Name, o.ID, there[0].ID)
		case !o.Made() && !o.Maybe() && len(there) > 0:
			wrong("%s was answered %d and is there: %s", o.Name, o.Status, there[0].ID)
		case len(there) == 1 && int64(there[0].Amount) != o.Minor:
			wrong("%s is of %s, not of %s", o.Name, there[0].Amount, Money(o.Minor))
		}
	}
	for name, there := range named {
		wrong("payment %s (%s) is nobody's", there[0].ID, name)
	}
	sums := map[string]map[string]Decimal{}
	for _, t := range l.Transactions {
		if sums[t.Payment] == nil {
			sums[t.Payment] = map[string]Decimal{}
		}
		sums[t.Payment][t.Type] += t.Amount
	}
	for _, p := range l.Payments {
		is := sums[p.ID]
		for _, s := range []struct {
			name      string
			has, adds Decimal
		}{{"captured", p.Captured, is["capture"]}, {"refunded", p.Refunded, is["refund"]}, {"released", p.Released, is["release"]}} {
			if s.has != s.adds {
				wrong("payment %s has %s %s, and its transactions %s", p.ID, s.name, s.has, s.adds)
			}
		}
		switch {
		case p.Captured > 0 && p.Fees != is["fee"]:
			wrong("payment %s has fees of %s, and its transactions of %s", p.ID, p.Fees, is["fee"])
		case p.Status == "declined" && p.Captured+p.Released+p.Capturable != 0:
			wrong("payment %s is declined and holds something", p.ID)
		case p.Status != "declined" && p.Captured+p.Released+p.Capturable != p.Amount:
			wrong("payment %s of %s: captured %s, released %s, capturable %s", p.ID, p.Amount, p.Captured, p.Released, p.Capturable)
		case p.Refunded > p.Captured:
			wrong("payment %s gave back %s of %s", p.ID, p.Refunded, p.Captured)
		case is["authorization"] != p.Amount:
			wrong("payment %s of %s has an authorization of %s", p.ID, p.Amount, is["authorization"])
		}
		live := p.Status == "authorized" || p.Status == "partially_captured"
		if live != (p.Capturable > 0) {
			wrong("payment %s is %s and %s is capturable", p.ID, p.Status, p.Capturable)
		}
	}
}

// HoldChanges looks for each capture, refund and cancellation that was asked for.
func (l *Ledger) HoldChanges(asked []Asked, wrong Wrong) {
	status, captures, refunds := map[string]Payment{}, map[string][]Transaction{}, map[string][]Transaction{}
	refunded, maybe := map[string]int{}, map[string]int{} // by payment
	for _, p := range l.Payments {
		status[p.ID] = p
	}
	for _, t := range l.Transactions {
		switch t.Type {
		case "capture":
			captures[t.Reference] = append(captures[t.Reference], t)
		case "refund":
			refunds[t.Refund] = append(refunds[t.Refund], t)
			refunded[t.Payment]++
		}
	}
	for _, o := range asked {
		of := o.Of
		switch o.Kind {
		case "create":
			if there := captures[o.Name]; o.Made() && (len(there) == 1) != (o.Now && o.Status < 300) {
				wrong("%s was answered %d and has %d captures of its own", o.Name, o.Status, len(there))
			}
		case "capture":
			there := captures[o.Name]
			if len(there) > 1 || o.Made() && (len(there) == 0 || there[0].Capture != o.ID) || len(there) > 0 && !o.Made() && !o.Maybe() {
				wrong("%s was answered %d (%s) and is there %d times", o.Name, o.Status, o.ID, len(there))
			} else if len(there) == 1 && (int64(there[0].Amount) != o.Minor || there[0].Payment != of) {
				wrong("%s is of %s of %s", o.Name, there[0].Amount, there[0].Payment)
			}
		case "refund":
			if there := refunds[o.ID]; o.Made() && (len(there) != 1 || int64(there[0].Amount) != o.Minor) {
				wrong("%s was answered %d (%s) and is there %d times", o.Name, o.Status, o.ID, len(there))
			}
			if o.Made() {
				refunded[of]--
			} else if o.Maybe() {
				maybe[of]++
			}
		case "cancel":
			if p := status[of]; o.Made() && p.Capturable != 0 {
				wrong("%s was answered %d and payment %s is %s", o.Name, o.Status, of, p.Status)
			}
		}
	}
	for of, n := range refunded {
		if n < 0 || n > maybe[of] {
			wrong("payment %s has %d refunds more than were asked for", of, n)
		}
	}
}

// ends are the events that end a payment, by its status.
var ends = map[string]string{"payment.canceled": "canceled", "payment.expired": "expired"}

// HoldEvents looks for gaps, and for exactly one event of each change.
func (l *Ledger) HoldEvents(wrong Wrong) {
	seen := map[string]bool{}
	type kind struct{ id, kind string }
	count := map[kind]int{}
	for i, e := range l.Events {
		if e.Sequence != int64(i+1) {
			wrong("event %d has sequence %d", i+1, e.Sequence)
			break
		}
		if seen[e.ID] {
			wrong("event %s is there twice", e.ID)
		}
		seen[e.ID] = true
		for _, id := range []string{e.Data.Payment, e.Data.Payout} {
			if id != "" {
				count[kind{id, e.Type}]++
			}
		}
	}
	made := map[kind]int{}
	for _, t := range l.Transactions {
		made[kind{t.Payment, t.Type}]++
	}
	exactly := func(id, of string, want int) {
		if have := count[kind{id, of}]; have != want {
			wrong("%s has %d events %s, not %d", id, have, of, want)
		}
	}
	for _, p := range l.Payments {
		exactly(p.ID, "payment.captured", made[kind{p.ID, "capture"}])
		exactly(p.ID, "payment.refunded", made[kind{p.ID, "refund"}])
		first := count[kind{p.ID, "payment.authorized"}] + count[kind{p.ID, "payment.declined"}]
		if first > 1 || first == 0 && p.Status != "captured" {
			wrong("%s, %s, has %d events of its beginning", p.ID, p.Status, first)
		}
		for event, status := range ends {
			want := 0
			if p.Status == status {
				want = 1
			}
			exactly(p.ID, event, want)
		}
	}
	for _, p := range l.Payouts {
		exactly(p.ID, "payout.created", 1)
		for _, status := range []string{"paid", "failed", "held"} {
			want := 0
			if p.Status == status {
				want = 1
			}
			exactly(p.ID, "payout."+status, want)
		}
	}
}

// due are the events that an endpoint has to get.
func due(events []Event, e Endpoint) (list []Event) {
	there := false
	for _, event := range events {
		wanted := len(e.Types) == 0
		for _, t := range e.Types {
			wanted = wanted || t == event.Type
		}
		if there && wanted && !strings.HasPrefix(event.Type, "webhook_endpoint.") && !strings.HasPrefix(event.Type, "delivery.") {
			list = append(list, event)
		}
		there = there || event.Type == "webhook_endpoint.created" && event.Data.Webhook == e.ID
	}
	return list
}

// HoldDeliveries compares each endpoint's deliveries with its events, and these with the
// bodies that it got: by the last part of its URL, then by event.
func (l *Ledger) HoldDeliveries(got map[string]map[string]string, wrong Wrong) {
	if len(l.Endpoints) != len(got) {
		wrong("there are %d endpoints, not %d", len(l.Endpoints), len(got))
	}
	for _, e := range l.Endpoints {
		to := e.URL[strings.LastIndex(e.URL, "/")+1:]
		count := map[string]int{}
		for _, d := range e.Deliveries {
			count[d.Event]++
			if d.State != "succeeded" {
				wrong("delivery %s of event %s to %s is %s", d.ID, d.Event, to, d.State)
			}
		}
		for _, event := range due(l.Events, e) {
			if count[event.ID] != 1 {
				wrong("event %s (%s) has %d deliveries to %s", event.ID, event.Type, count[event.ID], to)
			}
			delete(count, event.ID)
			body, ok := got[to][event.ID]
			if !ok {
				wrong("%s never got event %s (%s)", to, event.ID, event.Type)
			} else if body != event.Text {
				wrong("%s got event %s as %s, and it is %s", to, event.ID, body, event.Text)
			}
		}
		for id := range count {
			wrong("%s has a delivery of event %s, which is none of its", to, id)
		}
	}
}

// HoldBudget compares the budget of an account with its payments.
func (l *Ledger) HoldBudget(account string, budget int64, wrong Wrong) {
	var used int64
	for _, p := range l.Payments {
		if p.Account != account {
			continue
		}
		switch p.Status {
		case "authorized", "partially_captured":
			used += int64(p.Amount - p.Refunded)
		default:
			used += int64(p.Captured - p.Refunded)
		}
	}
	if used != l.Used {
		wrong("the budget says that %s are used, and payments add up to %s", Money(l.Used), Money(used))
	}
	if used > budget {
		wrong("payments of %s are more than the budget of %s", Money(used), Money(budget))
	}
}

// HoldPayouts compares payouts with their transactions and with what was paid, by payout.
// closed is the last sales day of an account that is over.
func (l *Ledger) HoldPayouts(bank map[string]int64, closed func(account string) string, wrong Wrong) {
	sums, settled := map[string]Decimal{}, map[string]string{}
	left := map[string]Decimal{} // by account, of the day that is over
	for _, p := range l.Payouts {
		settled[p.ID] = p.Status
	}
	for _, t := range l.Transactions {
		sign := map[string]Decimal{"capture": 1, "fee": -1, "refund": -1}[t.Type]
		if sign == 0 {
			continue
		}
		sums[t.Payout] += sign * t.Amount
		switch status := settled[t.Payout]; {
		case t.Payout == "" && t.Day <= closed(t.Account):
			left[t.Account] += sign * t.Amount
		case status == "paid" && t.Status != "settled", t.Payout != "" && status != "paid" && t.Status != "available", t.Payout == "" && t.Status != "pending":
			wrong("transaction %s is %s and its payout %s is %q", t.ID, t.Status, t.Payout, status)
		}
	}
	for account, sum := range left {
		if sum > 0 {
			wrong("%s of account %s stand in no payout, and their day is over", sum, account)
		}
	}
	paid := map[string]bool{}
	for _, p := range l.Payouts {
		again := p.Status == "failed" && sums[p.ID] == 0 // another payout has them by now
		if sums[p.ID] != p.Amount && !again || p.Captured-p.Refunded-p.Fees != p.Amount {
			wrong("payout %s is of %s, and its transactions add up to %s", p.ID, p.Amount, sums[p.ID])
		}
		by, ok := bank[p.ID]
		switch {
		case p.Status == "paid" && !ok:
			wrong("payout %s is paid, and nobody has paid it", p.ID)
		case p.Status != "paid" && ok:
			wrong("payout %s was paid and is %s", p.ID, p.Status)
		case ok && by != int64(p.Amount):
			wrong("payout %s is of %s, and %s were paid", p.ID, p.Amount, Money(by))
		}
		paid[p.ID] = true
	}
	for id := range bank {
		if !paid[id] {
			wrong("payout %s was paid and is not there", id)
		}
	}
}

// HoldSame compares payments, transactions and payouts with what they were.
func (l *Ledger) HoldSame(before *Ledger, wrong Wrong) {
	hold := func(what string, was, is any) {
		if !reflect.DeepEqual(was, is) {
			wrong("%s were %+v, and are %+v", what, was, is)
		}
	}
	hold("payments", before.Payments, l.Payments)
	hold("transactions", before.Transactions, l.Transactions)
	hold("payouts", before.Payouts, l.Payouts)
	hold("the events of before", before.Events, l.Events[:min(len(before.Events), len(l.Events))])
}
