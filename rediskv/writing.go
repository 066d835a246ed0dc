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
	Payment, Ticket, Capture, Due, Moves, AllTransactions, AccountTransactions, Account string
	// What a capture joins; without one, any key of the organization.
	Payable, Group, Cutoffs string
}

type paymentArgs struct {
	requestArgs
	eventArgs
	auditArgs
	AccountRevision          string
	Deadline, DueMember      string
	TicketText, CaptureText  []byte
	SalesDay, GroupFields    string
	Captured, Fees           int64
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
	scriptCreatePayment = newScript[createPaymentKeys, createPaymentArgs]("create_payment")
	scriptChangePayment = newScript[changePaymentKeys, changePaymentArgs]("change_payment")
)

// writing is a change of a payment for its script.
type writing struct {
	keys paymentKeys
	args paymentArgs
}

// write says what every change of a payment does; a is the account as a capture's
// sales day was computed from, nil without a capture.
func (s *Store) write(k space, c Caller, idem *Idempotency, a *Account, ch *tollgate.PaymentChange, ans Answer) (w writing, err error) {
	p := ch.Payment
	w.keys = paymentKeys{
		logKeys: k.logs(), Payment: k.object(p.ID), Ticket: k.object(p.TicketID), Capture: k.object(p.ID), Due: k.due, Moves: k.moves(p.ID),
		AllTransactions: k.transactions(), AccountTransactions: k.transactionsOf(p.MerchantAccountID), Account: k.sequences(),
		Payable: k.sequences(), Group: k.sequences(), Cutoffs: k.sequences(),
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
	if ch.Capture == nil {
		return w, nil
	}
	return w, w.capture(k, a, ch)
}

// capture says what is captured, and what it is paid with.
func (w *writing) capture(k space, a *Account, ch *tollgate.PaymentChange) (err error) {
	c, b := *ch.Capture, ch.Batch
	c.Payment = nil // the payment is kept once, in its own hash
	if w.args.CaptureText, err = enveloped(c); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if a == nil || b.Date == tollgate.NoDate {
		return fmt.Errorf("capture %s: it has no sales day", c.ID)
	}
	w.keys.Capture = k.object(c.ID)
	w.keys.Payable, w.keys.Group, w.keys.Cutoffs = k.payable(a.ID), k.group(a.ID, c.Currency, b.PayoutDate), k.cutoffs
	w.args.SalesDay = b.Date.String()
	w.args.GroupFields = payableGroup(tollgate.Payable{Due: b.PayoutDate, Currency: c.Currency, PayoutGroup: tollgate.PayoutGroup{Date: b.PayoutDate}})
	w.args.Captured, w.args.Fees = c.Amount.Minor, c.FeeTotal.Minor
	w.args.CutoffsMember, w.args.LookAt = k.org+"/"+a.ID, milli(a.Cutoffs.End(b.PayoutDate))
	return nil
}

// transactions appends new transactions.
func (inv *invocation) transactions(k space, list []tollgate.Transaction) {
	for i := range list {
		t := &list[i]
		joins := ""
		if t.Type == tollgate.TransactionCapture || t.Type == tollgate.TransactionFee {
			joins = "1"
		}
		inv.keys = append(inv.keys, k.object(t.ID), k.transactionsIn(t.Status))
		inv.args = append(inv.args, unprefixed(t.ID), joins)
		inv.group(transactionFields(t))
	}
}
