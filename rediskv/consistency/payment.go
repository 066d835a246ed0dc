package consistency

import (
	"slices"

	"tollgate"
)

// eventPlaces is how many transactions an event can have: the position of a
// transaction is its event's sequence × eventPlaces + n.
const eventPlaces = 16

// LastPlace is the last position of what was committed with an event of that sequence.
func LastPlace(sequence int64) int64 { return sequence*eventPlaces + eventPlaces - 1 }

// PlacedTransaction is a transaction and its place in the lists.
type PlacedTransaction struct {
	*tollgate.Transaction
	Position int64
}

// sequence is the event's with which the transaction was committed.
func (x *PlacedTransaction) sequence() int64 { return x.Position / eventPlaces }

// PaymentEvent is an event of a payment; without a sequence it is not in the log.
type PaymentEvent struct {
	ID       string
	Sequence int64
	Type     tollgate.EventType
	Data     tollgate.PaymentEventData
	Trimmed  bool // it is older than what is kept
}

// PaymentRecords are all records of one payment, read at one moment. Events are
// those that the ticket refers to, in its order; nil: the log was not read.
type PaymentRecords struct {
	Payment      *tollgate.Payment
	Ticket       *tollgate.Ticket
	Due          tollgate.Instant // as the scripts read it
	Transactions []PlacedTransaction
	Captures     []tollgate.Capture
	Refunds      []tollgate.Refund
	Events       []PaymentEvent

	list []Finding
}

// Check compares them with each other.
func (r *PaymentRecords) Check() []Finding {
	r.list = nil
	r.checkPayment()
	r.checkTicket()
	r.checkTransactions()
	r.checkParts()
	if r.Events != nil {
		r.checkEvents()
	}
	return r.list
}

func (r *PaymentRecords) found(kind FindingKind, format string, args ...any) {
	r.list = append(r.list, Found(kind, "payment", r.Payment.ID, format, args...))
}

func (r *PaymentRecords) checkPayment() {
	p := r.Payment
	if err := p.CheckInvariant(); err != nil {
		r.found(FindingPayment, "%v", err)
	}
	if r.Due != p.Deadline() {
		r.found(FindingPayment, "it is %s and ends by itself at %d, but its scripts read %d", p.Status, p.Deadline(), r.Due)
	}
}

func (r *PaymentRecords) checkTicket() {
	p, t := r.Payment, r.Ticket
	switch {
	case t.ID != p.TicketID || t.PaymentID != p.ID || t.MerchantAccountID != p.MerchantAccountID || t.Amount != p.Amount || t.Payee != p.Payee:
		r.found(FindingPayment, "its ticket is that of another payment, account, amount or payee")
	case t.Total != p.FeeTotal:
		r.found(FindingPayment, "its fees are %s, its ticket says %s", p.FeeTotal, t.Total)
	}
	var lines int64
	for _, l := range t.Lines {
		lines += l.Amount.Minor
	}
	if lines != t.Total.Minor {
		r.found(FindingPayment, "the lines of its ticket add up to %d, and their total is %d", lines, t.Total.Minor)
	}
	if n := 1 + p.Captures + p.Refunds; len(t.Evaluations) != n {
		r.found(FindingPayment, "its ticket has %d evaluations, %d are of its creation, %d captures and %d refunds", len(t.Evaluations), n, p.Captures, p.Refunds)
	}
	ids := slices.Clone(t.EventIDs)
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); int64(n) != p.Revision || n != len(t.EventIDs) {
		r.found(FindingEvent, "it has made %d transitions, and its ticket refers to %d events, %d of them different", p.Revision, len(t.EventIDs), n)
	}
}

// updated is when a transaction changed last: the authorization with its payment, any
// other when it was made; zero for one that stands in a payout, which moves it along.
func (r *PaymentRecords) updated(x *PlacedTransaction) tollgate.Instant {
	switch {
	case x.Type == tollgate.TransactionAuthorization:
		return r.Payment.UpdatedAt
	case x.PayoutID == nil:
		return x.CreatedAt
	}
	return 0
}

// moved is what the transactions of a payment add up to.
type moved struct{ captured, refunded, released, fees, captures, refunds int64 }

func (r *PaymentRecords) checkTransactions() {
	p := r.Payment
	var sum moved
	last := int64(-1)
	for i := range r.Transactions {
		x := &r.Transactions[i]
		if *x.PaymentID != p.ID || x.TicketID == nil || *x.TicketID != p.TicketID || x.MerchantAccountID != p.MerchantAccountID || x.Currency != p.Currency {
			r.found(FindingPayment, "transaction %s is of another payment, ticket, account or currency", x.ID)
		}
		if at := r.updated(x); x.UpdatedAt < x.CreatedAt || at != 0 && x.UpdatedAt != at {
			r.found(FindingPayment, "transaction %s was updated at %d, and not at %d", x.ID, x.UpdatedAt, max(at, x.CreatedAt))
		}
		if x.Position <= last {
			r.found(FindingPayment, "transaction %s has position %d, the one before has %d", x.ID, x.Position, last)
		}
		last = x.Position
		sum.add(x.Transaction)
		if (i == 0) != (x.Type == tollgate.TransactionAuthorization) {
			r.found(FindingPayment, "transaction %d, %s, is of type %s", i, x.ID, x.Type)
		}
	}
	if len(r.Transactions) == 0 || r.Transactions[0].Type != tollgate.TransactionAuthorization {
		r.found(FindingPayment, "it has no authorization")
	} else if a := r.Transactions[0]; a.Status != string(p.Status) || a.Amount != p.Amount {
		r.found(FindingPayment, "it is %s and of %s, its authorization says %s and %s", p.Status, p.Amount, a.Status, a.Amount)
	}
	if sum.captured != p.AmountCaptured.Minor || sum.released != p.AmountReleased.Minor || sum.refunded != p.AmountRefunded.Minor {
		r.found(FindingPayment, "%d was captured, %d released and %d refunded; its transactions add up to %d, %d and %d",
			p.AmountCaptured.Minor, p.AmountReleased.Minor, p.AmountRefunded.Minor, sum.captured, sum.released, sum.refunded)
	}
	if sum.captures != int64(p.Captures) || sum.refunds != int64(p.Refunds) {
		r.found(FindingPayment, "it has %d captures and %d refunds; %d and %d are among its transactions", p.Captures, p.Refunds, sum.captures, sum.refunds)
	}
	if want := r.Ticket.Total.Minor; (p.Captures > 0 && sum.fees != want) || (p.Captures == 0 && sum.fees != 0) {
		r.found(FindingPayment, "its fees are %d, its transactions of fees add up to %d", want, sum.fees)
	}
}

func (m *moved) add(x *tollgate.Transaction) {
	switch x.Type {
	case tollgate.TransactionCapture:
		m.captured += x.Amount.Minor
		m.captures++
	case tollgate.TransactionRefund:
		m.refunded += x.Amount.Minor
		m.refunds++
	case tollgate.TransactionRelease:
		m.released += x.Amount.Minor
	case tollgate.TransactionFee:
		m.fees += x.Amount.Minor
	}
}

// checkParts compares captures and refunds with their transactions.
func (r *PaymentRecords) checkParts() {
	type part struct {
		amount, fees      tollgate.Money
		payment, transfer string
	}
	parts := map[string]part{}
	for _, c := range r.Captures {
		parts[c.ID] = part{c.Amount, c.FeeTotal, c.PaymentID, c.TransactionID}
	}
	for _, f := range r.Refunds {
		parts[f.ID] = part{f.Amount, f.FeeTotal, f.PaymentID, f.TransactionID}
	}
	for i := range r.Transactions {
		x := &r.Transactions[i]
		id := ""
		switch {
		case x.RefundID != nil:
			id = *x.RefundID
		case x.CaptureID != nil:
			id = *x.CaptureID
		default:
			continue
		}
		of, ok := parts[id]
		amount := of.amount
		if x.Type == tollgate.TransactionFee {
			amount = of.fees
		}
		switch {
		case !ok:
			r.found(FindingPayment, "transaction %s is of %s, which is not there", x.ID, id)
		case of.payment != r.Payment.ID || amount != x.Amount || (x.Type != tollgate.TransactionFee && of.transfer != x.ID):
			r.found(FindingPayment, "transaction %s is of %s, and %s says %s of %s", x.ID, x.Amount, id, amount, of.payment)
		}
	}
}

// checkEvents holds the events to the transitions, and the amounts in them to the
// transactions of the same commit.
func (r *PaymentRecords) checkEvents() {
	p := r.Payment
	var last int64
	sequences := map[int64]bool{}
	whole := true // nothing of it is trimmed
	for i := range r.Events {
		e := &r.Events[i]
		switch {
		case e.Trimmed:
			whole = false
			continue
		case e.Sequence == 0:
			r.found(FindingEvent, "its ticket refers to event %s, which is not in the log", e.ID)
			whole = false
			continue
		case e.Sequence <= last:
			r.found(FindingEvent, "event %s has sequence %d, the one before has %d", e.ID, e.Sequence, last)
		case e.Data.PaymentID != p.ID || e.Data.MerchantAccountID != p.MerchantAccountID || e.Data.Currency != p.Currency:
			r.found(FindingEvent, "event %s is of another payment, account or currency", e.ID)
		}
		last = e.Sequence
		sequences[last] = true
		r.checkAmounts(e)
		if d := &e.Data; i == len(r.Events)-1 && (d.Status != p.Status || d.AmountCaptured != p.AmountCaptured || d.AmountReleased != p.AmountReleased ||
			(d.AmountRefunded != nil && *d.AmountRefunded != p.AmountRefunded)) {
			r.found(FindingEvent, "its last event, %s, says %s with %s captured and %s released; it is %s with %s and %s",
				e.ID, d.Status, d.AmountCaptured, d.AmountReleased, p.Status, p.AmountCaptured, p.AmountReleased)
		}
	}
	for i := range r.Transactions {
		if x := &r.Transactions[i]; whole && !sequences[x.sequence()] {
			r.found(FindingEvent, "transaction %s was committed with event %d, which is none of its payment", x.ID, x.sequence())
		}
	}
}

// checkAmounts compares one event with the transactions of the same commit.
func (r *PaymentRecords) checkAmounts(e *PaymentEvent) {
	var upTo, with moved
	for i := range r.Transactions {
		x := &r.Transactions[i]
		if x.sequence() <= e.Sequence {
			upTo.add(x.Transaction)
		}
		if x.sequence() == e.Sequence {
			with.add(x.Transaction)
		}
	}
	d := &e.Data
	if d.AmountCaptured.Minor != upTo.captured || d.AmountReleased.Minor != upTo.released || (d.AmountRefunded != nil && d.AmountRefunded.Minor != upTo.refunded) {
		r.found(FindingEvent, "event %s says %s captured and %s released; its transactions up to then add up to %d and %d",
			e.ID, d.AmountCaptured, d.AmountReleased, upTo.captured, upTo.released)
	}
	switch {
	case d.CaptureID != "" && (d.Amount.Minor != with.captured || with.captures != 1 || d.FeeTotal.Minor != with.fees):
		r.found(FindingEvent, "event %s is of a capture of %s with fees of %s; %d captures of %d with %d were committed with it", e.ID, d.Amount, d.FeeTotal, with.captures, with.captured, with.fees)
	case d.RefundID != "" && (d.Amount.Minor != with.refunded || with.refunds != 1 || d.FeeTotal.Minor != with.fees):
		r.found(FindingEvent, "event %s is of a refund of %s with fees of %s; %d refunds of %d with %d were committed with it", e.ID, d.Amount, d.FeeTotal, with.refunds, with.refunded, with.fees)
	case d.CaptureID == "" && d.RefundID == "" && with.captures+with.refunds > 0:
		r.found(FindingEvent, "event %s, %s, names no capture or refund, and one was committed with it", e.ID, e.Type)
	}
}
