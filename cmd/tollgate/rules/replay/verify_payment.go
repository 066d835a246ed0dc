package replay

import (
	"fmt"
	"slices"

	"tollgate"
)

// paymentRecords is what the service keeps of a payment beside its ticket: by
// them the inputs of the ticket's evaluations are bound to what happened.
type paymentRecords struct {
	Payment      *tollgate.Payment
	Transactions []tollgate.Transaction  // nil: they are not known
	Events       map[string]paymentEvent // by id, of those that the ticket names; nil: not known

	// EventsExpired is whether events of the payment may be gone by now, for
	// they are kept for a time only (interface §8).
	EventsExpired bool
}

// paymentEvent is an event of a payment with its data.
type paymentEvent struct {
	ID        string                    `json:"id"`
	CreatedAt tollgate.Instant          `json:"created_at"`
	Type      tollgate.EventType        `json:"type"`
	Data      tollgate.PaymentEventData `json:"data"`
}

// comparison collects where a ticket and the records disagree.
type comparison struct {
	*tollgate.Ticket
	*paymentRecords
	found []string
}

func (c *comparison) say(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// differ says so when a member of a record is not what the ticket has.
func differ[T comparable](c *comparison, of, member string, kept, want T) {
	if kept != want {
		c.say("%s has the %s %v, and the ticket %v", of, member, kept, want)
	}
}

// disagreements says where the records and the ticket contradict each other:
// every input of an evaluation, its time and event, the decision and the total.
// A ticket that contradicts itself is left to Inconsistencies.
func disagreements(t *tollgate.Ticket, r *paymentRecords) []string {
	c := &comparison{Ticket: t, paymentRecords: r}
	if len(t.Evaluations) > 0 {
		c.payment()
		if c.Transactions != nil {
			c.authorization()
			c.moved(tollgate.EvaluationCapture, tollgate.TransactionCapture, "capture", func(d *tollgate.PaymentEventData) string { return d.CaptureID }, func(x *tollgate.Transaction) string { return textOf(x.CaptureID) })
			c.moved(tollgate.EvaluationRefund, tollgate.TransactionRefund, "refund", func(d *tollgate.PaymentEventData) string { return d.RefundID }, func(x *tollgate.Transaction) string { return textOf(x.RefundID) })
		}
		if c.Events != nil {
			c.events()
		}
	}
	return c.found
}

func (c *comparison) payment() {
	p, of := c.Payment, "the payment"
	differ(c, of, "id", p.ID, c.PaymentID)
	differ(c, of, "ticket", p.TicketID, c.ID)
	differ(c, of, "account", p.MerchantAccountID, c.MerchantAccountID)
	differ(c, of, "amount", p.Amount, c.Amount)
	differ(c, of, "currency", p.Currency, c.Currency)
	differ(c, of, "payee", p.Payee, c.Payee)
	differ(c, of, "time", p.CreatedAt, c.CreatedAt)
	differ(c, of, "fees", p.FeeTotal, c.Total)
	differ(c, of, "perimeter", p.Perimeter, c.Perimeter)
	differ(c, of, "captured amount", p.AmountCaptured, c.sumOf(tollgate.EvaluationCapture, len(c.Evaluations)))
	differ(c, of, "refunded amount", p.AmountRefunded, c.sumOf(tollgate.EvaluationRefund, len(c.Evaluations)))
	decision := tollgate.DecisionAllow
	switch {
	case p.Status == tollgate.Declined:
		decision = tollgate.DecisionDeny
	case p.AuthorizedAt == 0: // it waits for a review, or waited to its end
		decision = tollgate.DecisionReview
	}
	if c.Decision != decision {
		c.say("the payment is %s, and the ticket's decision is %q", p.Status, c.Decision)
	}
}

// sumOf is the sum of the captures, or of the refunds, among the first n
// evaluations.
func (c *comparison) sumOf(kind tollgate.EvaluationKind, n int) tollgate.Money {
	sum := tollgate.Money{Currency: c.Currency}
	for _, e := range c.Evaluations[:n] {
		if e.Kind == kind {
			sum.Minor += e.Input.Amount.Minor
		}
	}
	return sum
}

// fees is the sum of an evaluation's lines.
func (c *comparison) fees(e *tollgate.Evaluation) tollgate.Money {
	sum := tollgate.Money{Currency: c.Currency}
	for _, l := range c.Lines {
		if l.Evaluation == e.Number {
			sum.Minor += l.Amount.Minor
		}
	}
	return sum
}

func (c *comparison) authorization() {
	found := 0
	for i := range c.Transactions {
		if x := &c.Transactions[i]; x.Type == tollgate.TransactionAuthorization {
			found++
			c.transaction(x, &c.Evaluations[0])
		}
	}
	if found != 1 {
		c.say("the payment has %d transactions of type %s", found, tollgate.TransactionAuthorization)
	}
}

// transaction compares an evaluation's input with what moved.
func (c *comparison) transaction(x *tollgate.Transaction, e *tollgate.Evaluation) {
	of := "transaction " + x.ID
	differ(c, of, "payment", textOf(x.PaymentID), c.PaymentID)
	differ(c, of, "ticket", textOf(x.TicketID), c.ID)
	differ(c, of, "account", x.MerchantAccountID, c.MerchantAccountID)
	differ(c, of, "amount", x.Amount, e.Input.Amount)
	differ(c, of, "currency", x.Currency, e.Input.Currency)
	differ(c, of, "payee", textOf(x.Payee), string(e.Input.Payee))
	differ(c, of, "time", x.CreatedAt, e.At)
}

// moved finds the transaction of each evaluation of a kind, by the capture or
// refund that its event names or, when the event is gone, by its time and amount.
func (c *comparison) moved(kind tollgate.EvaluationKind, as tollgate.TransactionType, noun string, named func(*tollgate.PaymentEventData) string, of func(*tollgate.Transaction) string) {
	var left []*tollgate.Transaction
	for i := range c.Transactions {
		if c.Transactions[i].Type == as {
			left = append(left, &c.Transactions[i])
		}
	}
	take := func(is func(*tollgate.Transaction) bool) *tollgate.Transaction {
		i := slices.IndexFunc(left, is)
		if i < 0 {
			return nil
		}
		x := left[i]
		left = slices.Delete(left, i, i+1)
		return x
	}
	for i := range c.Evaluations {
		e := &c.Evaluations[i]
		if e.Kind != kind {
			continue
		}
		var x *tollgate.Transaction
		if event, ok := c.Events[e.EventID]; ok {
			x = take(func(x *tollgate.Transaction) bool { return of(x) == named(&event.Data) })
		} else if x = take(func(x *tollgate.Transaction) bool { return x.CreatedAt == e.At && x.Amount == e.Input.Amount }); x == nil {
			x = take(func(x *tollgate.Transaction) bool { return x.CreatedAt == e.At })
		}
		if x == nil {
			c.say("evaluation %d is of a %s of %s at %s, and there is no such transaction", e.Number, noun, e.Input.Amount, e.At)
			continue
		}
		c.transaction(x, e)
		charged := tollgate.Money{Currency: c.Currency}
		for i := range c.Transactions {
			if fee := &c.Transactions[i]; fee.Type == tollgate.TransactionFee && of(fee) == of(x) {
				charged.Minor += fee.Amount.Minor
			}
		}
		if want := c.fees(e); charged != want {
			c.say("%s %s was charged %s, and evaluation %d says %s", noun, of(x), charged, e.Number, want)
		}
	}
	for _, x := range left {
		c.say("transaction %s is a %s of %s, which no evaluation priced", x.ID, noun, x.Amount)
	}
}

// textOf is empty for what is not there.
func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
