package explain

import (
	"fmt"
	"net/url"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
)

// payment tells a payment's story, and that of what came of it.
func (r *reader) payment(id string) bool {
	p, ok := get[tollgate.Payment](r, "the payment", client.PaymentPath(id, ""))
	if ok {
		r.paymentFacts(&p)
		r.paymentNext(&p)
	}
	r.fees(tollgate.TicketOf(id))
	r.story(id)
	r.paidOut(id)
	return ok
}

func (r *reader) paymentFacts(p *tollgate.Payment) {
	t := &r.e.facts
	t.Row("status", string(p.Status))
	t.Row("amount", cli.PriceText(p.Amount)+" to "+cli.PayeeText(p.Payee))
	if p.AmountCaptured.Minor > 0 {
		t.Row("captured", cli.PriceText(p.AmountCaptured))
	}
	if p.AmountRefunded.Minor > 0 {
		t.Row("refunded", cli.PriceText(p.AmountRefunded))
	}
	t.Row("fees", cli.PriceText(p.FeeTotal))
	if p.Reference != nil {
		t.Row("reference", *p.Reference)
	}
	t.Row("account", p.MerchantAccountID)
	t.Row("perimeter", cli.DecisionText(p.Perimeter))
	if h, ok := cli.HelpOf(string(p.Perimeter.Reason)); ok {
		t.Row("", h.What)
	}
}

// paymentNext is what the payment's state allows (interface §3).
func (r *reader) paymentNext(p *tollgate.Payment) {
	switch p.Status {
	case tollgate.RequiresReview:
		r.next("payments:review", "review "+p.ID+" approve", "approve it, before it expires")
		r.next("payments:review", "review "+p.ID+" reject", "decline it")
		r.next("payments:write", "cancel "+p.ID, "cancel it")
	case tollgate.Authorized, tollgate.PartiallyCaptured:
		r.next("payments:capture", "capture "+p.ID, "capture "+cli.PriceText(p.AmountCapturable)+", until "+p.CaptureBefore.String())
		r.next("payments:write", "cancel "+p.ID, "release what is not captured")
	case tollgate.Declined:
		r.next("accounts:read", "perimeter "+p.Perimeter.ID, "see what would be allowed")
	}
	if p.AmountRefundable.Minor > 0 {
		r.next("payments:refund", "refund "+p.ID, "give back up to "+cli.PriceText(p.AmountRefundable))
	}
	r.next("tickets:read", "ticket "+p.ID, "see each fee and its rule")
	r.next("tickets:read", "rule verify "+p.TicketID, "run the rules again and compare")
}

// fees says what each line of a ticket is.
func (r *reader) fees(id string) (t tollgate.Ticket, ok bool) {
	if t, ok = get[tollgate.Ticket](r, "the ticket", "/v1/tickets/"+escaped(id)); !ok {
		return t, false
	}
	for i, l := range t.Lines {
		r.e.facts.Row(onFirst(i, "fee lines"), fmt.Sprintf("%s %s, by %s", l.Label, cli.PriceText(l.Amount), l.Rule))
	}
	return t, true
}

func (r *reader) ticket(id string) bool {
	t, ok := r.fees(id)
	if !ok {
		return false
	}
	r.e.facts.Row("total", cli.PriceText(t.Total))
	r.e.facts.Row("payment", t.PaymentID)
	for _, e := range t.Evaluations {
		r.happened(e.At, fmt.Sprintf("%s of %s priced with %s", e.Kind, cli.PriceText(e.Input.Amount), rulesText(e.Rules)), e.EventID)
	}
	r.next("tickets:read", "rule verify "+id, "run the rules again and compare")
	for _, rule := range t.Pinned() {
		r.next("", "explain "+tollgate.RuleID(rule.Rule), "see the rule")
	}
	r.next("payments:read", "explain "+t.PaymentID, "see what became of the payment")
	return true
}

// paidOut says what of a payment's captures has been paid, and when the rest is.
func (r *reader) paidOut(payment string) {
	var payouts []string
	pending := map[string]int64{}
	var currency tollgate.Currency
	var dates []string
	each(r, "transactions", "/v1/transactions", url.Values{"payment_id": {payment}, "order": {"asc"}}, func(raw cli.Raw, x tollgate.Transaction) bool {
		r.e.Objects = append(r.e.Objects, raw)
		currency = x.Currency
		switch {
		case x.PayoutID != nil:
			payouts = appendNew(payouts, *x.PayoutID)
		case x.AvailableOn != nil:
			dates = appendNew(dates, *x.AvailableOn)
			sign := int64(1)
			if x.Type != tollgate.TransactionCapture {
				sign = -1
			}
			pending[*x.AvailableOn] += sign * x.Amount.Minor
		}
		return true
	})
	for _, date := range dates {
		r.e.facts.Row("to be paid", fmt.Sprintf("%s on %s, less what else is due", cli.PriceText(tollgate.Money{Minor: pending[date], Currency: currency}), date))
	}
	for _, id := range payouts {
		r.e.facts.Row("paid out with", id)
		r.story(id)
		r.next("payouts:read", "explain "+id, "see the payout")
	}
}

// capture and transaction have no address of their own: they are looked for where
// their ids say that they were made.
func (r *reader) capture(id string) bool {
	return r.madeAt(id, func(x *tollgate.Transaction) bool { return x.CaptureID != nil && *x.CaptureID == id })
}

func (r *reader) transaction(id string) bool {
	return r.madeAt(id, func(x *tollgate.Transaction) bool { return x.ID == id })
}

// madeAt finds the transactions of an id among those of its millisecond.
func (r *reader) madeAt(id string, is func(*tollgate.Transaction) bool) (found bool) {
	at, ok := tollgate.IDTime(id)
	if !ok {
		return false
	}
	made, owner := tollgate.At(at), ""
	between := url.Values{"created_after": {(made - 1).String()}, "created_before": {(made + 1).String()}}
	each(r, "transactions", "/v1/transactions", between, func(raw cli.Raw, x tollgate.Transaction) bool {
		if !is(&x) {
			return true
		}
		found, owner = true, cli.Deref(x.PaymentID)
		if x.PayoutID != nil && x.Type == tollgate.TransactionPayout {
			owner = *x.PayoutID
		}
		r.e.Objects = append(r.e.Objects, raw)
		r.e.facts.Row(string(x.Type), fmt.Sprintf("%s, %s", cli.PriceText(x.Amount), x.Status))
		if x.AvailableOn != nil {
			r.e.facts.Row("paid on", *x.AvailableOn)
		}
		return true
	})
	if found {
		r.e.facts.Row("belongs to", owner)
		r.story(owner)
		r.next("", "explain "+owner, "see all of it")
	}
	return found
}

func (r *reader) refund(id string) bool {
	f, ok := get[tollgate.Refund](r, "the refund", "/v1/refunds/"+escaped(id))
	if !ok {
		return false
	}
	t := &r.e.facts
	t.Row("amount", cli.PriceText(f.Amount))
	t.Row("fees", cli.PriceText(f.FeeTotal))
	t.Row("payment", f.PaymentID)
	if f.Reason != nil {
		t.Row("reason", *f.Reason)
	}
	if f.BatchDate != nil {
		t.Row("sales day", *f.BatchDate+": it lowers the payout of that day")
	}
	r.story(f.PaymentID)
	r.next("payments:read", "explain "+f.PaymentID, "see the payment")
	return true
}

func (r *reader) payout(id string) bool {
	p, ok := get[tollgate.PayoutObject](r, "the payout", "/v1/payouts/"+escaped(id))
	if ok {
		t := &r.e.facts
		t.Row("status", string(p.Status))
		t.Row("amount", cli.PriceText(p.Amount))
		t.Row("made of", fmt.Sprintf("%d captures of %s, less fees of %s", p.CaptureCount, p.AmountCaptured, p.FeeTotal))
		if p.AmountRefunded != nil {
			t.Row("", "and less refunds of "+p.AmountRefunded.String())
		}
		t.Row("paid on", p.PayoutDate.String())
		t.Row("account", p.MerchantAccountID)
		if p.Status == tollgate.PayoutStatusHeld {
			t.Row("held", "because "+cli.Deref(p.HeldReason))
			r.next("payouts:write", "payout release "+id+" --reason 'compared with the ledger'", "let it go, once the sum is understood")
		}
		if p.Status == tollgate.PayoutStatusFailed {
			t.Row("failed", cli.Deref(p.FailureReason)+"; its amount is in the account's next payout")
		}
		r.next("transactions:read", "transactions --payout "+id, "list what it pays")
	}
	r.story(id)
	return ok
}

func (r *reader) export(id string) bool {
	x, ok := get[tollgate.Export](r, "the export", "/v1/exports/"+escaped(id))
	if !ok {
		return false
	}
	r.e.facts.Row("status", string(x.Status))
	r.e.facts.Row("dataset", fmt.Sprintf("%s, %s", x.Dataset, x.Format))
	if x.Error != nil {
		r.e.facts.Row("error", x.Error.Message)
	}
	if x.Result != nil {
		r.e.facts.Row("file", fmt.Sprintf("%d rows, %d bytes, until %s", x.Result.Rows, x.Result.Bytes, x.Result.ExpiresAt))
	}
	r.story(id)
	switch x.Status {
	case tollgate.ExportStatusSucceeded, tollgate.ExportStatusPending, tollgate.ExportStatusRunning:
		r.next("exports:read", fmt.Sprintf("export --id %s -o %s.%s", id, x.Dataset, x.Format), "fetch the file")
	default:
		r.next("exports:write", fmt.Sprintf("export %s -o %s.csv", x.Dataset, x.Dataset), "make it again")
	}
	return true
}

func rulesText(rules []tollgate.RuleRef) string {
	var names []string
	for _, rule := range rules {
		names = append(names, rule.Rule.String())
	}
	return strings.Join(names, " ")
}

func appendNew(list []string, s string) []string {
	for _, old := range list {
		if old == s {
			return list
		}
	}
	return append(list, s)
}

// onFirst is a label for the first of several rows.
func onFirst(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}
