package rediskv

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// writing collects the keys and arguments of a script.
type writing struct {
	keys  []string
	args  []any
	store *Store
	space space
	by    Caller
}

// write begins with what every change of a payment starts with.
func (s *Store) write(k space, c Caller, idem *Idempotency, ch *tollgate.PaymentChange, ans Answer) *writing {
	p := ch.Payment
	grant, version := c.grant(k)
	record, line, print, stored := c.remembered(k, idem, s.Mint(""), ans)
	capture := k.object(p.ID)
	if ch.Capture != nil {
		capture = k.object(ch.Capture.ID)
	}
	if ans.Status != 0 {
		c.Request.Status = ans.Status
	}
	return &writing{
		store: s, space: k, by: c,
		keys: []string{
			grant, record, k.object(p.ID), k.object(p.TicketID), k.sequences(), k.events(), k.audit(), k.due,
			k.moves(p.ID), k.transactions(), k.transactionsOf(p.MerchantAccountID), capture,
		},
		args: []any{line, version, print, idempotencyLifetime.Milliseconds(), stored},
	}
}

// change adds event, audit entry, deadline, ticket and capture.
func (w *writing) change(ch *tollgate.PaymentChange) error {
	p := ch.Payment
	head, tail, err := ch.Event.Split()
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	outcome := "succeeded"
	if ch.Action == "create" && p.Status == tollgate.Declined {
		outcome = "refused"
	}
	auditHead, auditTail, err := w.store.entry(w.by, "payment."+ch.Action, outcome, cmp.Or(ch.Note, string(p.Perimeter.Reason)), "payment", p.ID)
	if err != nil {
		return fmt.Errorf("audit entry: %w", err)
	}
	ticket, err := json.Marshal(ch.Ticket)
	if err != nil {
		return fmt.Errorf("ticket: %w", err)
	}
	var capture []byte
	if ch.Capture != nil {
		kept := *ch.Capture
		kept.Payment = nil // the payment is kept once, in its own hash
		if capture, err = json.Marshal(kept, json.Deterministic(true)); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
	}
	w.args = append(w.args, head, tail, ch.Event.ID, string(ch.Event.Type), p.MerchantAccountID, auditHead, auditTail,
		milli(p.Deadline()), w.space.org+"/"+p.ID, ticket, capture)
	return nil
}

func (w *writing) payment(p *tollgate.Payment, isNew bool) {
	w.fields(paymentFields(p, isNew))
}

func (w *writing) fields(f pairs) {
	w.args = append(append(w.args, strconv.Itoa(len(f))), f...)
}

// joining says what the change's capture, if it has one, is paid with; a is its
// account as the batch was computed from.
func (w *writing) joining(a *Account, ch *tollgate.PaymentChange) (keys []string, args []any, err error) {
	k := w.space
	if ch.Capture == nil {
		none := k.sequences()
		return []string{none, none, none}, []any{"", "", "", "", ""}, nil
	}
	b := ch.Batch
	if a == nil || b.Date == tollgate.NoDate {
		return nil, nil, fmt.Errorf("capture %s: it has no sales day", ch.Capture.ID)
	}
	group := payableGroup(tollgate.Payable{Due: b.PayoutDate, Currency: ch.Capture.Currency, PayoutGroup: tollgate.PayoutGroup{Date: b.PayoutDate}})
	return []string{k.payable(a.ID), k.group(a.ID, ch.Capture.Currency, b.PayoutDate), k.cutoffs},
		[]any{group, ch.Capture.Amount.Minor, ch.Capture.FeeTotal.Minor, k.org + "/" + a.ID, milli(a.Cutoffs.End(b.PayoutDate))}, nil
}

// day is the sales day of a change's capture.
func day(ch *tollgate.PaymentChange) string {
	if ch.Capture == nil {
		return ""
	}
	return ch.Batch.Date.String()
}

func (w *writing) transactions(list []tollgate.Transaction) {
	for i := range list {
		t := &list[i]
		joins := ""
		if t.Type == tollgate.TransactionCapture || t.Type == tollgate.TransactionFee {
			joins = "1"
		}
		w.keys = append(w.keys, w.space.object(t.ID), w.space.transactionsIn(t.Status))
		w.args = append(w.args, unprefixed(t.ID), joins)
		w.fields(transactionFields(t))
	}
}
