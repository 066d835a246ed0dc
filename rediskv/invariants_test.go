package rediskv_test

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/testkit"
	"tollgate/wasm"
)

// books are everything that an organization holds, read back through the
// lists.
type books struct {
	events       []tollgate.Event
	transactions []tollgate.Transaction
	payments     map[string]*tollgate.Payment
}

// audit reads everything back and checks what must hold whatever happened
// before: gapless sequences, one event per transition, amounts that add up,
// transactions that say the same as the payments, tickets that cite the events.
func (f *fixture) audit(t testing.TB) books {
	t.Helper()
	l := books{payments: map[string]*tollgate.Payment{}}
	q := eventlog.EventQuery{Limit: 100}
	for more := true; more; {
		page, next, again, err := f.Events(t.Context(), f.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range page {
			var e tollgate.Event
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatalf("event %s: %v", text, err)
			}
			l.events = append(l.events, e)
		}
		q.After, more = next, again
	}
	perPayment := map[string][]string{}
	for i, e := range l.events {
		if e.Sequence != int64(i+1) {
			t.Errorf("event %d has sequence %d", i, e.Sequence)
		}
		var data struct {
			PaymentID string `json:"payment_id"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		if data.PaymentID != "" {
			perPayment[data.PaymentID] = append(perPayment[data.PaymentID], e.ID)
		}
	}
	l.transactions = f.allTransactions(t, ledger.TransactionQuery{Limit: 100})
	captured, refunded, fees, released := map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	authorizations := map[string]tollgate.Transaction{}
	for _, x := range l.transactions {
		switch id := *x.PaymentID; x.Type {
		case tollgate.TransactionAuthorization:
			authorizations[id] = x
		case tollgate.TransactionCapture:
			captured[id] += x.Amount.Minor
		case tollgate.TransactionRefund:
			refunded[id] += x.Amount.Minor
		case tollgate.TransactionFee:
			fees[id] += x.Amount.Minor
		case tollgate.TransactionRelease:
			released[id] += x.Amount.Minor
		}
	}
	if len(authorizations) != len(perPayment) {
		t.Errorf("%d payments have transactions, %d have events", len(authorizations), len(perPayment))
	}
	for id, ids := range perPayment {
		p, ticket := f.Read(t, id)
		l.payments[id] = p
		if err := p.CheckInvariant(); err != nil {
			t.Error(err)
		}
		if p.Revision != int64(len(ids)) {
			t.Errorf("%s: %d transitions, %d events", id, p.Revision, len(ids))
		}
		if !slices.Equal(ticket.EventIDs, ids) {
			t.Errorf("%s: ticket refers to %v, the log has %v", id, ticket.EventIDs, ids)
		}
		for _, problem := range wasm.Inconsistencies(ticket) {
			t.Errorf("%s: %s", ticket.ID, problem)
		}
		if got := authorizations[id]; got.Status != string(p.Status) || got.Amount != p.Amount {
			t.Errorf("%s is %s %s, its authorization %s %s", id, p.Status, p.Amount, got.Status, got.Amount)
		}
		if captured[id] != p.AmountCaptured.Minor || released[id] != p.AmountReleased.Minor || refunded[id] != p.AmountRefunded.Minor {
			t.Errorf("%s: captured %s, released %s and refunded %s, transactions say %d, %d and %d", id, p.AmountCaptured, p.AmountReleased, p.AmountRefunded, captured[id], released[id], refunded[id])
		}
		if list, err := f.Refunds(t.Context(), f.Caller, id); err != nil || len(list) != p.Refunds {
			t.Errorf("%s: %d of %d refunds are listed: %v", id, len(list), p.Refunds, err)
		}
		var total int64
		for _, line := range ticket.Lines {
			total += line.Amount.Minor
		}
		if total != ticket.Total.Minor || ticket.Total != p.FeeTotal || (p.Captures > 0 && fees[id] != total) {
			t.Errorf("%s: lines add up to %d, ticket %s, payment %s, fee transactions %d", id, total, ticket.Total, p.FeeTotal, fees[id])
		}
		wantEvaluations := 1 + p.Captures + p.Refunds
		if len(ticket.Evaluations) != wantEvaluations {
			t.Errorf("%s: %d evaluations after %d captures and %d refunds", id, len(ticket.Evaluations), p.Captures, p.Refunds)
		}
		own := f.allTransactions(t, ledger.TransactionQuery{PaymentID: id, Limit: 7})
		want := 0
		for _, x := range l.transactions {
			if *x.PaymentID == id {
				want++
			}
		}
		if len(own) != want {
			t.Errorf("%s: %d transactions by payment, %d in all", id, len(own), want)
		}
	}
	// The status indexes hold each transaction once, where it belongs.
	byStatus := 0
	for _, status := range tollgate.TransactionStatuses {
		for _, x := range f.allTransactions(t, ledger.TransactionQuery{Statuses: []string{status}, Limit: 100}) {
			if x.Status != status {
				t.Errorf("%s is %s and listed as %s", x.ID, x.Status, status)
			}
			byStatus++
		}
	}
	if byStatus != len(l.transactions) {
		t.Errorf("%d transactions by status, %d in all", byStatus, len(l.transactions))
	}
	testkit.Consistent(t, f.Store)
	return l
}

// allTransactions walks all pages and checks that none comes twice.
func (f *fixture) allTransactions(t testing.TB, q ledger.TransactionQuery) (all []tollgate.Transaction) {
	t.Helper()
	seen := map[string]bool{}
	for {
		rows, next, more, err := f.Transactions(t.Context(), f.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range rows {
			if seen[x.ID] {
				t.Errorf("%s is listed twice", x.ID)
			}
			seen[x.ID] = true
		}
		all = append(all, rows...)
		if q.After = next; !more {
			return all
		}
	}
}
