package payments

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/bodies"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// paymentKeys and paymentArgs are what creating a payment and changing one have
// in common.
type paymentKeys struct {
	rediskv.RequestKeys
	rediskv.LogKeys
	Payment, Ticket, Part, Due, Moves, AllTransactions, AccountTransactions, Account string
	// What a capture or a refund joins; without one, any key of the organization.
	Payable, Refunds, Group, Cutoffs string
}

type paymentArgs struct {
	rediskv.RequestArgs
	rediskv.EventArgs
	rediskv.AuditArgs
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
	EventBefore                           string // the last one of the payment as it was read
	PackedIDs                             string // the id of the event and EventBefore, as packed tickets have them
	Actor, AuthorizationMember, NewStatus string
	Folds                                 string // "1" where the payment's fields are folded
	AuthorizationField                    string // how those of its fields begin that scripts change
}

var (
	scriptCreatePayment = script.New[createPaymentKeys, createPaymentArgs](lua, "create_payment")
	scriptChangePayment = script.New[changePaymentKeys, changePaymentArgs](lua, "change_payment")
)

// writing is a change of a payment for its script.
type writing struct {
	keys paymentKeys
	args paymentArgs
	// document has the fields of a capture or a refund that stands among the payment's parts.
	document []any
}

// write says what every change of a payment does; a is the account as the
// sales day of a capture or a refund was computed from, nil without one.
func (s *Store) write(k rediskv.Space, c rediskv.Caller, idem *rediskv.Idempotency, a *accounts.Account, ch *tollgate.PaymentChange, ans rediskv.Answer) (w writing, err error) {
	p, logs, payment := ch.Payment, k.Logs(), k.Object(ch.Payment.ID)
	none := logs.Sequences // a key of the organization where the change has none of a kind
	w.keys = paymentKeys{
		LogKeys: logs, Payment: payment, Ticket: k.Object(p.TicketID), Part: payment, Due: k.Due, Moves: movesOf(k, p),
		AllTransactions: ledger.Complete(s.db, k), AccountTransactions: k.TransactionsOf(p.MerchantAccountID), Account: none,
		Payable: none, Refunds: none, Group: none, Cutoffs: none,
	}
	if ans.Shows && s.form(p) >= record.Plain {
		ans.Shown, ans.Form = shownOf(ch, ans.Body), s.form(p)
	}
	w.keys.RequestKeys, w.args.RequestArgs = c.Arguments(k, idem, s.db.NewID(""), ans)
	if ans.Status != 0 {
		c.Request.Status = ans.Status
	}
	if w.args.EventArgs, err = rediskv.EventArguments(k, c, &ch.Event); err != nil {
		return w, err
	}
	outcome := "succeeded"
	if ch.Action == "create" && p.Status == tollgate.Declined {
		outcome = "refused"
	}
	if w.args.AuditArgs, err = s.db.Entry(c, "payment."+ch.Action, outcome, cmp.Or(ch.Note, string(p.Perimeter.Reason)), "payment", p.ID); err != nil {
		return w, err
	}
	if w.args.TicketText, err = s.text(p, w.keys.Ticket, storedTicket(p, ch.Ticket)); err != nil {
		return w, fmt.Errorf("ticket: %w", err)
	}
	w.args.Deadline, w.args.DueMember = rediskv.Milli(p.Deadline()), k.Org+"/"+p.ID
	switch {
	case ch.Capture != nil:
		c := *ch.Capture
		c.Payment = nil // the payment is kept once, in its own hash
		w.args.Captured, w.args.Fees, w.args.CaptureCount = c.Amount.Minor, c.FeeTotal.Minor, 1
		return w, s.part(&w, k, a, ch, c.ID, &c)
	case ch.Refund != nil:
		r := *ch.Refund
		r.Payment = nil
		w.args.Refunded, w.args.Fees = r.Amount.Minor, r.FeeTotal.Minor
		return w, s.part(&w, k, a, ch, r.ID, &r)
	}
	return w, nil
}

// movesOf is what says which transactions a payment has: the hash of its parts, or a list.
func movesOf(k rediskv.Space, p *tollgate.Payment) string {
	if p.Numbers > 0 {
		return k.Parts(p.ID)
	}
	return k.Moves(p.ID)
}

// eventBefore is the last event of a payment before its change, which its ticket
// refers to already; empty where it had none.
func eventBefore(t *tollgate.Ticket) string {
	if n := len(t.EventIDs); n > 1 {
		return t.EventIDs[n-2]
	}
	return ""
}

// Refers reports whether a stored ticket names an event, however it is written.
func Refers(ticket, event string) bool {
	packed := bodies.Identifiers(event)
	return packed != "" && strings.Contains(ticket, packed) || strings.Contains(ticket, strings.TrimPrefix(event, tollgate.PrefixEvent))
}

// storedTicket is the ticket as it is kept. The build before looks at the last
// evaluation alone: capturing after a refund, it would take the lines of the earlier
// captures off the ticket. While that can happen a refund is kept as a capture of
// index 0, which there is none of.
func storedTicket(p *tollgate.Payment, t *tollgate.Ticket) *tollgate.Ticket {
	if p.Refunds == 0 || p.Status.Terminal() {
		return t
	}
	stored := *t
	stored.Evaluations = slices.Clone(t.Evaluations)
	for i, e := range stored.Evaluations {
		if e.Kind == tollgate.EvaluationRefund {
			stored.Evaluations[i].Kind = tollgate.EvaluationCapture
		}
	}
	return &stored
}

// form is how what belongs to a payment is written.
func (s *Store) form(p *tollgate.Payment) record.Form {
	if p.Numbers == 0 {
		return record.JSON
	}
	return record.FormIn(s.db.Layout())
}

// text is how a payment's ticket, capture or refund is kept.
func (s *Store) text(p *tollgate.Payment, key string, of any) ([]byte, error) {
	return record.Text(key, of, s.form(p))
}

// part says what is captured or refunded, and with what it is paid.
func (s *Store) part(w *writing, k rediskv.Space, a *accounts.Account, ch *tollgate.PaymentChange, id string, doc any) (err error) {
	text, err := s.text(ch.Payment, k.Object(id), doc)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	b, currency := ch.SalesDay, ch.Payment.Currency
	if a == nil || b.Date == tollgate.NoDate {
		return fmt.Errorf("%s: it has no sales day", id)
	}
	if ch.Payment.Numbers > 0 {
		_, number, _ := tollgate.NumberIn(id)
		w.document = record.PiecePairs(number+rediskv.Document, text)
	} else {
		w.keys.Part, w.args.PartText = k.Object(id), text
	}
	w.keys.Payable, w.keys.Refunds, w.keys.Group, w.keys.Cutoffs = k.Payable(a.ID), k.Refunds(a.ID), k.Group(a.ID, currency, b.PayoutDate), k.Cutoffs
	w.args.SalesDay = b.Date.String()
	w.args.GroupFields = ledger.PayableGroup(tollgate.Payable{Due: b.PayoutDate, Currency: currency, PayoutGroup: tollgate.PayoutGroup{Date: b.PayoutDate}})
	w.args.CutoffsMember, w.args.LookAt = k.Org+"/"+a.ID, rediskv.Milli(a.Cutoffs.End(b.PayoutDate))
	return nil
}

// transactions appends new transactions, and beside the first a document that stands in
// the same hash.
func (s *Store) transactions(inv *script.Invocation, k rediskv.Space, ch *tollgate.PaymentChange, document []any) {
	repeated := ledger.Repeated(ch.Payment)
	for i := range ch.Transactions {
		t := &ch.Transactions[i]
		joins := ""
		if t.AvailableOn != nil {
			joins = "1"
		}
		at := ledger.Indexed{ID: t.ID, Shared: ch.Payment.Numbers > 0}
		place := at.Place(k)
		inv.Keys = append(inv.Keys, place.Key, k.TransactionsIn(t.Status))
		inv.Args = append(inv.Args, at.Member(), joins, at.FieldPrefix())
		fields := []any(ledger.TransactionFields(t).Sealed(k.Object(t.ID), nil))
		if at.Shared {
			fields = record.KindOf(place.As).Share(sharedBy(ch.Payment.ID), place.Name, fields, s.form(ch.Payment), repeated)
		}
		if i == 0 {
			fields = append(fields, document...)
		}
		inv.Group(fields)
	}
}
