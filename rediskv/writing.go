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
	operation := s.Mint("")
	grant, version := c.grant(k)
	record, print, stored := k.sequences(), "", ""
	if idem != nil {
		record, print, stored = k.idempotency(*idem), idem.Fingerprint, ans.record(operation, idem.Fingerprint)
	}
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
		args: []any{operation, version, print, idempotencyLifetime.Milliseconds(), stored},
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

func (w *writing) transactions(list []tollgate.Transaction) {
	for i := range list {
		t := &list[i]
		w.keys = append(w.keys, w.space.object(t.ID), w.space.transactionsIn(t.Status))
		w.args = append(w.args, unprefixed(t.ID))
		w.fields(transactionFields(t))
	}
}
