package tollgate

import "fmt"

// NewIDFunc makes a new identifier of a kind, given its prefix.
type NewIDFunc func(prefix string) string

// Origin is what a change of a payment is caused by.
type Origin struct {
	Organization string
	RequestID    string // empty for the service's own clock
	At           Instant
	HistoryID    string // of the log, as this process knows it
}

// PaymentChange is everything that one transition of a payment writes, all or
// nothing: one payment, one ticket, one event, and what moved.
type PaymentChange struct {
	Action       string        // create, capture, cancel, approve, reject, expire or refund
	Note         string        // why, in the words of who decided; for the audit record
	From         PaymentStatus // empty for a new payment
	Payment      *Payment
	Ticket       *Ticket
	Capture      *Capture      // nil unless the transition captured
	Refund       *Refund       // nil unless the transition refunded
	SalesDay     SalesDay      // of the capture or the refund
	Reservations []Reservation // what a new payment consumes of its perimeter's limits
	Event        Event
	Transactions []Transaction // new ones; the authorization's status follows the payment's

	restore bool // a refund's amount goes back to the budgets that counted the payment
}

// Pricing is what a rule set made of an input.
type Pricing struct {
	Input PricingInput
	Rules []RuleRef
	Lines []FeeLine
}

// NewPayment is what a client asked for, checked, and the account's window.
type NewPayment struct {
	MerchantAccountID  string
	Amount             Money
	Payee              string
	CaptureMethod      CaptureMethod
	CaptureWindowHours int
	SalesDay           SalesDay      // of an automatic capture made now
	Reservations       []Reservation // if it is not denied
	Reference          *string
	Description        *string
	Metadata           Metadata
	Numbered           bool // what belongs to it has its identifier and a number (NumberedID)
}

// CreatePayment makes the payment that a decision leads to. For an automatic
// capture that is allowed, captured is the pricing of that capture.
func CreatePayment(newID NewIDFunc, o Origin, n NewPayment, d PerimeterDecision, authorized Pricing, captured *Pricing) (*PaymentChange, error) {
	id, given := newID(PrefixPayment), 0
	if n.Numbered {
		id, given = NumberedID(PrefixPayment, o.At, id, 0), 1
	}
	p := &Payment{
		Object: "payment", ID: id, CreatedAt: o.At, UpdatedAt: o.At,
		MerchantAccountID: n.MerchantAccountID, Amount: n.Amount, Currency: n.Amount.Currency, Payee: KeptPayee(n.Payee),
		CaptureMethod: n.CaptureMethod, CaptureBefore: o.At + Instant(n.CaptureWindowHours)*3_600_000,
		TicketID: TicketOf(id), Numbers: given,
		Reference: n.Reference, Description: n.Description, Metadata: n.Metadata,
	}
	next := p.open(d)
	t := NewTicket(p)
	eventID := newID(PrefixEvent)
	kind := EvaluationAuthorization
	if d.Decision == DecisionReview {
		kind = EvaluationReview
	}
	t.Evaluate(kind, authorized.Input, authorized.Rules, authorized.Lines, eventID, o.At)
	c := &PaymentChange{Action: "create", Payment: p, Ticket: t}
	if d.Decision != DecisionDeny {
		for _, u := range n.Reservations {
			p.Counters = append(p.Counters, u.Counter)
		}
		c.Reservations = n.Reservations
	}
	var moved []Transaction
	if d.Decision == DecisionAllow && n.CaptureMethod == CaptureAutomatic {
		var err error
		if next, moved, err = c.capture(newID, o, CaptureRequest{Amount: p.Amount, Final: true, SalesDay: n.SalesDay}, *captured, eventID); err != nil {
			return nil, err
		}
		p.Revision = 1 // one step for the outside
	}
	p.FeeTotal = t.Total
	authorization := newTransaction(AuthorizationOf(p.ID), TransactionAuthorization, string(p.Status), p, "", p.Amount, o.At)
	c.Transactions = append([]Transaction{authorization}, moved...)
	return c, c.close(o, next, eventID)
}

// CaptureRequest is what a client asked for, checked. The zero amount (no
// currency) means all that is capturable.
type CaptureRequest struct {
	Amount    Money
	Final     bool
	Reference *string
	Metadata  Metadata
	SalesDay  SalesDay // the sales day of now, and when that is paid
}

// CapturePayment captures from a payment as it was read, priced on the
// captured amount; it changes p and t. Errors are those of Payment.Capture.
func CapturePayment(newID NewIDFunc, o Origin, p *Payment, t *Ticket, r CaptureRequest, priced Pricing) (*PaymentChange, error) {
	c := &PaymentChange{Action: "capture", From: p.Status, Payment: p, Ticket: t}
	eventID := newID(PrefixEvent)
	next, moved, err := c.capture(newID, o, r, priced, eventID)
	if err != nil {
		return nil, err
	}
	p.FeeTotal = t.Total
	c.Transactions = moved
	return c, c.close(o, next, eventID)
}

func (c *PaymentChange) capture(newID NewIDFunc, o Origin, r CaptureRequest, priced Pricing, eventID string) (Transition, []Transaction, error) {
	p, t := c.Payment, c.Ticket
	next, released, err := p.Capture(r.Amount, r.Final, o.At)
	if err != nil {
		return next, nil, err
	}
	t.Evaluate(EvaluationCapture, priced.Input, priced.Rules, priced.Lines, eventID, o.At)
	fees := FeeTotal(priced.Lines, p.Currency)
	p.FeeTotal = t.Total
	part := p.part(newID, o.At)
	c.Capture = &Capture{
		Object: "capture", ID: part(PrefixCapture), CreatedAt: o.At, PaymentID: p.ID,
		MerchantAccountID: p.MerchantAccountID, TicketID: p.TicketID, TransactionID: part(PrefixTransaction),
		Amount: r.Amount, Currency: p.Currency, FinalCapture: p.Status == Captured, FeeTotal: fees,
		Reference: r.Reference, Metadata: r.Metadata, Payment: p,
	}
	moved := []Transaction{newTransaction(c.Capture.TransactionID, TransactionCapture, TransactionPending, p, c.Capture.ID, r.Amount, o.At)}
	if r.Reference != nil {
		moved[0].Reference = r.Reference
	}
	if fees.Minor > 0 {
		moved = append(moved, newTransaction(p.part(newID, o.At)(PrefixTransaction), TransactionFee, TransactionPending, p, c.Capture.ID, fees, o.At))
	}
	if r.SalesDay.Date != NoDate {
		day, on := r.SalesDay.Date.String(), r.SalesDay.PayoutDate.String()
		c.SalesDay, c.Capture.BatchDate = r.SalesDay, &day
		for i := range moved {
			moved[i].BatchDate, moved[i].AvailableOn = &day, &on
		}
	}
	if released.Minor > 0 {
		moved = append(moved, newTransaction(p.part(newID, o.At)(PrefixTransaction), TransactionRelease, TransactionReleased, p, "", released, o.At))
	}
	return next, moved, nil
}

// TransitionPayment carries out a trigger other than a capture on a payment as it
// was read; it changes p and t. reason is why, in the client's words: the
// payment keeps it when it is canceled, the audit record in any case.
func TransitionPayment(newID NewIDFunc, o Origin, p *Payment, t *Ticket, trigger Trigger, reason *string) (*PaymentChange, error) {
	from := p.Status
	next, released, err := p.Move(trigger, o.At)
	if err != nil {
		return nil, err
	}
	switch trigger {
	case TriggerCancel:
		p.CancellationReason = reason
	case TriggerApprove:
		t.Decision = DecisionAllow // the perimeter's own decision stays what it was
	case TriggerReject:
		t.Decision = DecisionDeny
	}
	c := &PaymentChange{Action: string(trigger), From: from, Payment: p, Ticket: t}
	if reason != nil {
		c.Note = *reason
	}
	if released.Minor > 0 {
		c.Transactions = []Transaction{newTransaction(p.part(newID, o.At)(PrefixTransaction), TransactionRelease, TransactionReleased, p, "", released, o.At)}
	}
	return c, c.close(o, next, newID(PrefixEvent))
}

// close makes the one event of the transition and checks the law of amounts
// before anything can be written.
func (c *PaymentChange) close(o Origin, next Transition, eventID string) error {
	c.Ticket.Refer(eventID)
	var err error
	c.Event, err = NewEvent(eventID, next.Event, o.At, o.Organization, c.Payment.MerchantAccountID, o.RequestID, c.data())
	if err != nil {
		return fmt.Errorf("event %s: %w", next.Event, err)
	}
	return c.Payment.CheckInvariant()
}
