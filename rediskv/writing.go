package rediskv

import (
	"cmp"
	"fmt"

	"tollgate"
)

// paymentKeys and paymentArgs are what creating a payment and changing one have
// in common.
type paymentKeys struct {
	requestKeys
	logKeys
	Payment, Ticket, Part, Due, Moves, AllTransactions, AccountTransactions, Account string
	// What a capture or a refund joins; without one, any key of the organization.
	Payable, Refunds, Group, Cutoffs string
}

type paymentArgs struct {
	requestArgs
	eventArgs
	auditArgs
	AccountRevision          string
	Deadline, DueMember      string
	TicketText, PartText     []byte
	SalesDay, GroupFields    string
	Captured, Refunded, Fees int64
	CaptureCount             int
	CutoffsMember, LookAt    string
	CounterCount, FieldCount int
}

type createPaymentKeys struct {
	paymentKeys
	Organization string
}

type createPaymentArgs struct {
	paymentArgs
	OrganizationRevision int64
}

type changePaymentKeys struct {
	paymentKeys
	Authorization, OldIndex, NewIndex string
}

type changePaymentArgs struct {
	paymentArgs
	PaymentRevision, NowMs                int64
	Actor, AuthorizationMember, NewStatus string
}

var (
	scriptCreatePayment = newScript[createPaymentKeys, createPaymentArgs](lua, "create_payment")
	scriptChangePayment = newScript[changePaymentKeys, changePaymentArgs](lua, "change_payment")
)

// writing is a change of a payment for its script.
type writing struct {
	keys paymentKeys
	args paymentArgs
}

// write says what every change of a payment does; a is the account as the
// sales day of a capture or a refund was computed from, nil without one.
func (s *Store) write(k space, c Caller, idem *Idempotency, a *Account, ch *tollgate.PaymentChange, ans Answer) (w writing, err error) {
	p := ch.Payment
	w.keys = paymentKeys{
		logKeys: k.logs(), Payment: k.object(p.ID), Ticket: k.object(p.TicketID), Part: k.object(p.ID), Due: k.due, Moves: k.moves(p.ID),
		AllTransactions: k.transactions(), AccountTransactions: k.transactionsOf(p.MerchantAccountID), Account: k.sequences(),
		Payable: k.sequences(), Refunds: k.sequences(), Group: k.sequences(), Cutoffs: k.sequences(),
	}
	w.keys.requestKeys, w.args.requestArgs = c.request(k, idem, s.Mint(""), ans)
	if ans.Status != 0 {
		c.Request.Status = ans.Status
	}
	if w.args.eventArgs, err = eventArguments(&ch.Event); err != nil {
		return w, err
	}
	w.args.EventAccount = p.MerchantAccountID
	outcome := "succeeded"
	if ch.Action == "create" && p.Status == tollgate.Declined {
		outcome = "refused"
	}
	if w.args.auditArgs, err = s.entry(c, "payment."+ch.Action, outcome, cmp.Or(ch.Note, string(p.Perimeter.Reason)), "payment", p.ID); err != nil {
		return w, err
	}
	if w.args.TicketText, err = enveloped(ch.Ticket); err != nil {
		return w, fmt.Errorf("ticket: %w", err)
	}
	w.args.Deadline, w.args.DueMember = milli(p.Deadline()), k.org+"/"+p.ID
	switch {
	case ch.Capture != nil:
		c := *ch.Capture
		c.Payment = nil // the payment is kept once, in its own hash
		w.args.Captured, w.args.Fees, w.args.CaptureCount = c.Amount.Minor, c.FeeTotal.Minor, 1
		return w, w.part(k, a, ch, c.ID, c)
	case ch.Refund != nil:
		r := *ch.Refund
		r.Payment = nil
		w.args.Refunded, w.args.Fees = r.Amount.Minor, r.FeeTotal.Minor
		return w, w.part(k, a, ch, r.ID, r)
	}
	return w, nil
}

// part says what is captured or refunded, and with what it is paid.
func (w *writing) part(k space, a *Account, ch *tollgate.PaymentChange, id string, doc any) (err error) {
	if w.args.PartText, err = enveloped(doc); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	b, currency := ch.Batch, ch.Payment.Currency
	if a == nil || b.Date == tollgate.NoDate {
		return fmt.Errorf("%s: it has no sales day", id)
	}
	w.keys.Part = k.object(id)
	w.keys.Payable, w.keys.Refunds, w.keys.Group, w.keys.Cutoffs = k.payable(a.ID), k.refunds(a.ID), k.group(a.ID, currency, b.PayoutDate), k.cutoffs
	w.args.SalesDay = b.Date.String()
	w.args.GroupFields = payableGroup(tollgate.Payable{Due: b.PayoutDate, Currency: currency, PayoutGroup: tollgate.PayoutGroup{Date: b.PayoutDate}})
	w.args.CutoffsMember, w.args.LookAt = k.org+"/"+a.ID, milli(a.Cutoffs.End(b.PayoutDate))
	return nil
}

// transactions appends new transactions.
func (inv *invocation) transactions(k space, list []tollgate.Transaction) {
	for i := range list {
		t := &list[i]
		joins := ""
		if t.AvailableOn != nil {
			joins = "1"
		}
		inv.keys = append(inv.keys, k.object(t.ID), k.transactionsIn(t.Status))
		inv.args = append(inv.args, unprefixed(t.ID), joins)
		inv.group(transactionFields(t))
	}
}
