package simulate

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// judge knows what was promised to everybody outside, and says what is wrong. It is
// the reference model: it shares no code with the product.
type judge struct {
	mu     sync.Mutex
	faults []string
	wants  []*outcome
	// creates are those that create a payment, by number.
	creates map[int]*outcome
	tailed  []string // ids of events, as the one who follows the log got them
}

// outcome is what became of a want, as its client knows it.
type outcome struct {
	Want
	asked bool // it was sent at least once
	known bool
	// excused: Redis may have forgotten it. sent and acked are when it was sent first and
	// answered.
	excused     bool
	sent, acked time.Time
	answer
	id string // of what was made
}

// made says that it was carried out; maybe that nobody knows.
func (o *outcome) made() bool { return o.promised() && !o.excused }

// promised says that it was answered as carried out.
func (o *outcome) promised() bool {
	return o.known && (o.status < 300 || o.Kind == "create" && o.status == http.StatusForbidden)
}
func (o *outcome) maybe() bool  { return o.asked && !o.known || o.promised() && o.excused }
func (o *outcome) name() string { return fmt.Sprintf("want-%d", o.Number) }

// account is that of a payment.
func (o *outcome) account() string {
	if o.Budget {
		return budgeted
	}
	return open
}

func newJudge() *judge { return &judge{creates: map[int]*outcome{}} }

func (j *judge) wrong(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.faults) < 20 {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

// delivered is told of every delivery that reached its receiver.
func (j *judge) delivered(x *world, to *receiver, event string, body []byte, h http.Header) {
	to.mu.Lock()
	defer to.mu.Unlock()
	// A secret that is on its way signs already.
	if len(to.secrets) > 0 && !x.rotating.Load() && !slices.ContainsFunc(to.secrets, func(s string) bool { return signed(s, event, body, h) }) {
		j.wrong("%s got event %s, and none of its secrets has signed it", to.name, event)
	}
	to.said[event]++
	if before, ok := to.seen[event]; ok && !bytes.Equal(before, body) {
		j.wrong("%s got event %s twice, with other bytes: %s and %s", to.name, event, before, body)
	}
	to.seen[event] = body
}

// signed says whether a delivery is signed with a secret (Standard Webhooks).
func signed(secret, event string, body []byte, h http.Header) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s.%s.%s", event, h.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	return slices.Contains(strings.Fields(h.Get("Webhook-Signature")), want)
}

// verdict compares what the service has with what was promised.
func (x *world) verdict(l ledger) {
	x.judgePayments(l)
	x.judgeChanges(l)
	x.judgeEvents(l)
	x.judgeDeliveries(l)
	x.judgePayouts(l)
	x.judgeLoss(x.missing(l))
	if x.loss.decided == 0 {
		x.judgeBank()
	}
}

// missing are the payments and captures that were promised and are not there.
func (x *world) missing(l ledger) (list []*outcome) {
	there := map[string]bool{}
	for _, p := range l.payments {
		there["create"+p.Reference] = true
	}
	for _, t := range l.transactions {
		there[t.Type+t.Reference] = true
	}
	for _, o := range x.judge.wants {
		if (o.Kind == "create" || o.Kind == "capture") && o.promised() && !there[o.Kind+o.name()] {
			list = append(list, o)
		}
	}
	return list
}

func (x *world) judgePayments(l ledger) {
	j, named := x.judge, map[string][]payment{}
	for _, p := range l.payments {
		named[p.Reference] = append(named[p.Reference], p)
	}
	for _, o := range j.wants {
		if o.Kind != "create" {
			continue
		}
		there := named[o.name()]
		delete(named, o.name())
		switch {
		case len(there) > 1:
			j.wrong("%s was made %d times: %s and %s", o.name(), len(there), there[0].ID, there[1].ID)
		case o.made() && len(there) == 0:
			j.wrong("%s was answered %d (%s) and is not there", o.name(), o.status, o.id)
		case o.made() && there[0].ID != o.id:
			j.wrong("%s was answered with %s and is %s", o.name(), o.id, there[0].ID)
		case !o.made() && !o.maybe() && len(there) > 0:
			j.wrong("%s was answered %d and is there: %s", o.name(), o.status, there[0].ID)
		case len(there) == 1 && int64(there[0].Amount) != o.Minor:
			j.wrong("%s is of %s, not of %s", o.name(), there[0].Amount, money(o.Minor))
		}
	}
	for name, there := range named {
		j.wrong("payment %s (%s) is nobody's", there[0].ID, name)
	}
	sums := map[string]map[string]decimal{}
	for _, t := range l.transactions {
		if sums[t.Payment] == nil {
			sums[t.Payment] = map[string]decimal{}
		}
		sums[t.Payment][t.Type] += t.Amount
	}
	for _, p := range l.payments {
		is := sums[p.ID]
		for _, s := range []struct {
			name      string
			has, adds decimal
		}{{"captured", p.Captured, is["capture"]}, {"refunded", p.Refunded, is["refund"]}, {"released", p.Released, is["release"]}} {
			if s.has != s.adds {
				j.wrong("payment %s has %s %s, and its transactions %s", p.ID, s.name, s.has, s.adds)
			}
		}
		switch {
		case p.Captured > 0 && p.Fees != is["fee"]:
			j.wrong("payment %s has fees of %s, and its transactions of %s", p.ID, p.Fees, is["fee"])
		case p.Status == "declined" && p.Captured+p.Released+p.Capturable != 0:
			j.wrong("payment %s is declined and holds something", p.ID)
		case p.Status != "declined" && p.Captured+p.Released+p.Capturable != p.Amount:
			j.wrong("payment %s of %s: captured %s, released %s, capturable %s", p.ID, p.Amount, p.Captured, p.Released, p.Capturable)
		case p.Refunded > p.Captured:
			j.wrong("payment %s gave back %s of %s", p.ID, p.Refunded, p.Captured)
		case is["authorization"] != p.Amount:
			j.wrong("payment %s of %s has an authorization of %s", p.ID, p.Amount, is["authorization"])
		}
		live := p.Status == "authorized" || p.Status == "partially_captured"
		if live != (p.Capturable > 0) {
			j.wrong("payment %s is %s and %s is capturable", p.ID, p.Status, p.Capturable)
		}
	}
}

// judgeChanges looks for each capture, refund and cancellation that was asked for.
func (x *world) judgeChanges(l ledger) {
	j := x.judge
	status, captures, refunds := map[string]payment{}, map[string][]transaction{}, map[string][]transaction{}
	refunded, maybe := map[string]int{}, map[string]int{} // by payment
	for _, p := range l.payments {
		status[p.ID] = p
	}
	for _, t := range l.transactions {
		switch t.Type {
		case "capture":
			captures[t.Reference] = append(captures[t.Reference], t)
		case "refund":
			refunds[t.Refund] = append(refunds[t.Refund], t)
			refunded[t.Payment]++
		}
	}
	ids := map[int]string{}
	for _, o := range j.wants {
		if o.Kind == "create" {
			ids[o.Number] = o.id
		}
	}
	for _, o := range j.wants {
		of := ids[o.Of]
		switch o.Kind {
		case "create":
			if there := captures[o.name()]; o.made() && (len(there) == 1) != (o.Now && o.status < 300) {
				j.wrong("%s was answered %d and has %d captures of its own", o.name(), o.status, len(there))
			}
		case "capture":
			there := captures[o.name()]
			if len(there) > 1 || o.made() && (len(there) == 0 || there[0].Capture != o.id) || len(there) > 0 && !o.made() && !o.maybe() {
				j.wrong("%s was answered %d (%s) and is there %d times", o.name(), o.status, o.id, len(there))
			} else if len(there) == 1 && (int64(there[0].Amount) != o.Minor || there[0].Payment != of) {
				j.wrong("%s is of %s of %s", o.name(), there[0].Amount, there[0].Payment)
			}
		case "refund":
			if there := refunds[o.id]; o.made() && (len(there) != 1 || int64(there[0].Amount) != o.Minor) {
				j.wrong("%s was answered %d (%s) and is there %d times", o.name(), o.status, o.id, len(there))
			}
			if o.made() {
				refunded[of]--
			} else if o.maybe() {
				maybe[of]++
			}
		case "cancel":
			if p := status[of]; o.made() && p.Capturable != 0 {
				j.wrong("%s was answered %d and payment %s is %s", o.name(), o.status, of, p.Status)
			}
		}
	}
	for of, n := range refunded {
		if n < 0 || n > maybe[of] {
			j.wrong("payment %s has %d refunds more than were asked for", of, n)
		}
	}
}

// ends are the events that end a payment, by its status.
var ends = map[string]string{"payment.canceled": "canceled", "payment.expired": "expired"}

func (x *world) judgeEvents(l ledger) {
	j, seen := x.judge, map[string]bool{}
	type kind struct{ id, kind string }
	count := map[kind]int{}
	for i, e := range l.events {
		if e.Sequence != int64(i+1) {
			j.wrong("event %d has sequence %d", i+1, e.Sequence)
			break
		}
		if seen[e.ID] {
			j.wrong("event %s is there twice", e.ID)
		}
		seen[e.ID] = true
		for _, id := range []string{e.Data.Payment, e.Data.Payout} {
			if id != "" {
				count[kind{id, e.Type}]++
			}
		}
	}
	made := map[kind]int{}
	for _, t := range l.transactions {
		made[kind{t.Payment, t.Type}]++
	}
	exactly := func(id, of string, want int) {
		if have := count[kind{id, of}]; have != want {
			j.wrong("%s has %d events %s, not %d", id, have, of, want)
		}
	}
	for _, p := range l.payments {
		exactly(p.ID, "payment.captured", made[kind{p.ID, "capture"}])
		exactly(p.ID, "payment.refunded", made[kind{p.ID, "refund"}])
		first := count[kind{p.ID, "payment.authorized"}] + count[kind{p.ID, "payment.declined"}]
		if first > 1 || first == 0 && p.Status != "captured" {
			j.wrong("%s, %s, has %d events of its beginning", p.ID, p.Status, first)
		}
		for event, status := range ends {
			want := 0
			if p.Status == status {
				want = 1
			}
			exactly(p.ID, event, want)
		}
	}
	for _, p := range l.payouts {
		exactly(p.ID, "payout.created", 1)
		for _, status := range []string{"paid", "failed", "held"} {
			want := 0
			if p.Status == status {
				want = 1
			}
			exactly(p.ID, "payout."+status, want)
		}
	}
	tailed := x.tailed(l)
	if x.plan.Untailed {
		return
	}
	for i, e := range l.events {
		if i >= len(tailed) || tailed[i] != e.ID {
			j.wrong("who follows the events did not get event %d, %s, when it was its turn", i+1, e.ID)
			return
		}
	}
	if len(tailed) > len(l.events) {
		j.wrong("who follows the events got %d of %d", len(tailed), len(l.events))
	}
}

// due are the events that an endpoint has to get.
func due(events []event_, e endpoint) (list []event_) {
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

func (x *world) judgeDeliveries(l ledger) {
	j := x.judge
	if len(l.endpoints) != len(x.receivers) {
		j.wrong("there are %d endpoints, not %d", len(l.endpoints), len(x.receivers))
	}
	for _, e := range l.endpoints {
		to := x.receivers[e.URL[strings.LastIndex(e.URL, "/")+1:]]
		count := map[string]int{}
		for _, d := range e.deliveries {
			count[d.Event]++
			if d.State != "succeeded" {
				j.wrong("delivery %s of event %s to %s is %s", d.ID, d.Event, to.name, d.State)
			}
		}
		for _, event := range due(l.events, e) {
			if count[event.ID] != 1 {
				j.wrong("event %s (%s) has %d deliveries to %s", event.ID, event.Type, count[event.ID], to.name)
			}
			delete(count, event.ID)
			to.mu.Lock()
			got, ok := to.seen[event.ID]
			to.mu.Unlock()
			if !ok {
				j.wrong("%s never got event %s (%s)", to.name, event.ID, event.Type)
			} else if string(got) != event.text {
				j.wrong("%s got event %s as %s, and it is %s", to.name, event.ID, got, event.text)
			}
		}
		for id := range count {
			j.wrong("%s has a delivery of event %s, which is none of its", to.name, id)
		}
	}
}

func (x *world) judgeBudget(l ledger) {
	var used int64
	for _, p := range l.payments {
		if p.Account != budgeted {
			continue
		}
		switch p.Status {
		case "authorized", "partially_captured":
			used += int64(p.Amount - p.Refunded)
		default:
			used += int64(p.Captured - p.Refunded)
		}
	}
	if used != l.used {
		x.judge.wrong("the budget says that %s are used, and payments add up to %s", money(l.used), money(used))
	}
	if used > budget {
		x.judge.wrong("payments of %s are more than the budget of %s", money(used), money(budget))
	}
}

func (x *world) judgePayouts(l ledger) {
	j, b := x.judge, x.payer
	b.mu.Lock()
	defer b.mu.Unlock()
	closed := x.wire.now().Add(7*time.Hour-time.Second).AddDate(0, 0, -1).Format("2006-01-02") // days end at 17:00
	sums, settled := map[string]decimal{}, map[string]string{}
	left := map[string]decimal{} // by account, of the day that is over
	for _, p := range l.payouts {
		settled[p.ID] = p.Status
	}
	for _, t := range l.transactions {
		sign := map[string]decimal{"capture": 1, "fee": -1, "refund": -1}[t.Type]
		if sign == 0 {
			continue
		}
		sums[t.Payout] += sign * t.Amount
		switch status := settled[t.Payout]; {
		case t.Payout == "" && t.Day <= closed:
			left[t.Account] += sign * t.Amount
		case status == "paid" && t.Status != "settled", t.Payout != "" && status != "paid" && t.Status != "available", t.Payout == "" && t.Status != "pending":
			j.wrong("transaction %s is %s and its payout %s is %q", t.ID, t.Status, t.Payout, status)
		}
	}
	for account, sum := range left {
		if sum > 0 {
			j.wrong("%s of account %s stand in no payout, and their day is over", sum, account)
		}
	}
	paid := map[string]bool{}
	for _, p := range l.payouts {
		again := p.Status == "failed" && sums[p.ID] == 0 // another payout has them by now
		if sums[p.ID] != p.Amount && !again || p.Captured-p.Refunded-p.Fees != p.Amount {
			j.wrong("payout %s is of %s, and its transactions add up to %s", p.ID, p.Amount, sums[p.ID])
		}
		by, ok := b.paid[p.ID]
		switch {
		case p.Status == "paid" && !ok:
			j.wrong("payout %s is paid, and nobody has paid it", p.ID)
		case p.Status != "paid" && ok:
			j.wrong("payout %s was paid and is %s", p.ID, p.Status)
		case ok && by.Minor != int64(p.Amount):
			j.wrong("payout %s is of %s, and %s were paid", p.ID, p.Amount, by)
		}
		paid[p.ID] = true
	}
	last, _ := x.loss.back()
	for id := range b.paid {
		if !paid[id] && b.first[id].After(last) {
			j.wrong("payout %s was paid and is not there", id)
		}
	}
}
