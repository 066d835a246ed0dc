package replay

import (
	"cmp"
	"slices"

	"tollgate"
)

// events compares the ticket with each event that it names.
func (c *comparison) events() {
	for _, id := range c.EventIDs {
		e, ok := c.Events[id]
		if !ok {
			if !c.EventsExpired {
				c.say("event %s is not there", id)
			}
			continue
		}
		of := "event " + id
		differ(c, of, "payment", e.Data.PaymentID, c.PaymentID)
		differ(c, of, "ticket", e.Data.TicketID, c.ID)
		differ(c, of, "account", e.Data.MerchantAccountID, c.MerchantAccountID)
		differ(c, of, "currency", e.Data.Currency, c.Currency)
		differ(c, of, "payee", e.Data.Payee, c.Payee)
		differ(c, of, "perimeter", e.Data.Perimeter, c.Perimeter)
	}
	for i := range c.Evaluations {
		c.priced(i)
	}
	c.reviewed()
	if n := len(c.EventIDs); n > 0 {
		if last, ok := c.Events[c.EventIDs[n-1]]; ok && last.Data.Status != c.Payment.Status {
			c.say("the payment is %s, and after the ticket's last event, %s, it was %s", c.Payment.Status, last.ID, last.Data.Status)
		}
	}
}

// priced compares an evaluation with the event of the step that it priced.
func (c *comparison) priced(i int) {
	e := &c.Evaluations[i]
	event, ok := c.Events[e.EventID]
	if !ok {
		return
	}
	of := "event " + event.ID
	types := []tollgate.EventType{tollgate.PaymentCaptured}
	switch {
	case e.Kind == tollgate.EvaluationRefund:
		types = []tollgate.EventType{tollgate.PaymentRefunded}
	case e.Kind == tollgate.EvaluationReview:
		types = []tollgate.EventType{tollgate.PaymentReviewRequired}
	case i == 0 && c.Decision == tollgate.DecisionDeny:
		types = []tollgate.EventType{tollgate.PaymentDeclined}
	case i == 0: // an automatic capture leaves one event
		types = []tollgate.EventType{tollgate.PaymentAuthorized, tollgate.PaymentCaptured}
	}
	if !slices.Contains(types, event.Type) {
		c.say("%s is %s, and evaluation %d is of kind %q", of, event.Type, e.Number, e.Kind)
	}
	differ(c, of, "amount", event.Data.Amount, e.Input.Amount)
	differ(c, of, "currency", event.Data.Currency, e.Input.Currency)
	differ(c, of, "payee", event.Data.Payee, e.Input.Payee)
	differ(c, of, "time", event.CreatedAt, e.At)
	if e.Kind != tollgate.EvaluationCapture && e.Kind != tollgate.EvaluationRefund {
		return
	}
	differ(c, of, "fees", event.Data.FeeTotal, c.fees(e))
	differ(c, of, "captured amount", event.Data.AmountCaptured, c.sumOf(tollgate.EvaluationCapture, i+1))
	if e.Kind == tollgate.EvaluationRefund {
		differ(c, of, "refunded amount", *cmp.Or(event.Data.AmountRefunded, new(tollgate.Money)), c.sumOf(tollgate.EvaluationRefund, i+1))
	}
}

// reviewed compares the decision with the event behind the one that asked for
// a review.
func (c *comparison) reviewed() {
	if c.Perimeter.Decision != tollgate.DecisionReview || len(c.EventIDs) < 2 {
		return
	}
	event, ok := c.Events[c.EventIDs[1]]
	if !ok {
		return
	}
	decided := tollgate.DecisionReview
	switch event.Type {
	case tollgate.PaymentAuthorized:
		decided = tollgate.DecisionAllow
	case tollgate.PaymentDeclined:
		decided = tollgate.DecisionDeny
	}
	if c.Decision != decided {
		c.say("event %s is %s, and the ticket's decision is %q", event.ID, event.Type, c.Decision)
	}
}
