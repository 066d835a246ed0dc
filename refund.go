package tollgate

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxRefunds is how often one payment can be refunded.
const MaxRefunds = 50

// RefundSucceeded is the status of every refund: it is committed at once, and its
// money is taken from what the account is paid.
const RefundSucceeded = "succeeded"

// Refund is money given back of what was captured from a payment, and the JSON of
// it (interface §11). The payment's fees are not given back; FeeTotal is what the
// rules charge for the refund itself. Amounts are positive.
type Refund struct {
	Object            string   `json:"object"` // "refund"
	ID                string   `json:"id"`
	CreatedAt         Instant  `json:"created_at"`
	PaymentID         string   `json:"payment_id"`
	MerchantAccountID string   `json:"merchant_account_id"`
	TicketID          string   `json:"ticket_id"`
	TransactionID     string   `json:"transaction_id"`
	Amount            Money    `json:"amount"`
	Currency          Currency `json:"currency"`
	FeeTotal          Money    `json:"fee_total"`
	Reason            *string  `json:"reason"`
	BatchDate         *string  `json:"batch_date"` // its own sales day, YYYY-MM-DD
	Status            string   `json:"status"`     // RefundSucceeded
	Payment           *Payment `json:"payment"`    // after this refund; read later, as it is then

	Damaged bool `json:"-"` // it is stored and cannot be read; only Object and ID count
}

// UnmarshalJSONFrom gives the amounts their currency.
func (r *Refund) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Refund
	return readMoney(d, (*plain)(r), &r.Currency, Currency.amounts)
}

// RefundRequest is what a client asked for, checked, and what was read beside the
// payment.
type RefundRequest struct {
	Amount   Money // of the payment's currency
	Reason   *string
	Account  string   // the status of the merchant account
	SalesDay SalesDay // the sales day of now, and when that is paid
	Restore  bool     // the perimeter's refunds_restore_budget, of the version that decided
}

// Refund counts a refund of what was captured and not refunded yet. Errors:
// CodeMerchantAccountInactive of an account that is closed,
// CodePaymentStateInvalid, CodeRefundExceeds, CodeRefundLimitReached. A deadline
// that has passed is no reason against it: it ends what can still be captured.
func (p *Payment) Refund(r RefundRequest, at Instant) (Transition, error) {
	if r.Account == StatusClosed {
		return Transition{}, &Error{Code: CodeMerchantAccountInactive, Message: "The merchant account is closed."}
	}
	next, err := p.Next(TriggerRefund)
	if err != nil {
		return next, err
	}
	refused := &Error{Context: ErrorContext{PaymentID: p.ID, TicketID: p.TicketID, Status: p.Status}}
	switch {
	case p.ErasedAt != 0: // its rules may ask for the payee
		refused.Code, refused.Message = CodePaymentStateInvalid, "This payment cannot be refunded: whom it was for was erased."
		return next, refused
	case p.Refunds >= MaxRefunds:
		refused.Code, refused.Message = CodeRefundLimitReached, fmt.Sprintf("A payment can be refunded at most %d times.", MaxRefunds)
		return next, refused
	case r.Amount.Minor > p.AmountRefundable.Minor || r.Amount.Minor < 1:
		refused.Code, refused.Param = CodeRefundExceeds, "amount"
		refused.Message = fmt.Sprintf("%s of this payment can still be refunded.", p.AmountRefundable)
		return next, refused
	}
	p.AmountRefunded.Minor += r.Amount.Minor
	p.AmountRefundable.Minor -= r.Amount.Minor
	p.Refunds++
	p.move(next, at)
	return next, nil
}

// RefundPayment refunds a payment as it was read, priced on the refunded amount;
// it changes p and t. Errors are those of Payment.Refund.
func RefundPayment(newID NewIDFunc, o Origin, p *Payment, t *Ticket, r RefundRequest, priced Pricing) (*PaymentChange, error) {
	c := &PaymentChange{Action: "refund", From: p.Status, Payment: p, Ticket: t}
	next, err := p.Refund(r, o.At)
	if err != nil {
		return nil, err
	}
	eventID := newID(PrefixEvent)
	t.Evaluate(EvaluationRefund, priced.Input, priced.Rules, priced.Lines, eventID, o.At)
	fees := FeeTotal(priced.Lines, p.Currency)
	p.FeeTotal = t.Total
	day, on := r.SalesDay.Date.String(), r.SalesDay.PayoutDate.String()
	part := p.part(newID, o.At)
	c.Refund = &Refund{
		Object: "refund", ID: part(PrefixRefund), CreatedAt: o.At, PaymentID: p.ID, MerchantAccountID: p.MerchantAccountID,
		TicketID: p.TicketID, TransactionID: part(PrefixTransaction), Amount: r.Amount, Currency: p.Currency, FeeTotal: fees,
		Reason: r.Reason, BatchDate: &day, Status: RefundSucceeded, Payment: p,
	}
	if r.Reason != nil {
		c.Note = *r.Reason
	}
	c.SalesDay = r.SalesDay
	c.Transactions = []Transaction{newTransaction(c.Refund.TransactionID, TransactionRefund, TransactionPending, p, "", r.Amount, o.At)}
	if fees.Minor > 0 {
		c.Transactions = append(c.Transactions, newTransaction(p.part(newID, o.At)(PrefixTransaction), TransactionFee, TransactionPending, p, "", fees, o.At))
	}
	for i := range c.Transactions {
		x := &c.Transactions[i]
		x.RefundID, x.BatchDate, x.AvailableOn = &c.Refund.ID, &day, &on
	}
	c.restore = r.Restore
	return c, c.close(o, next, eventID)
}

// Budgeted reports whether a budget counted the payment.
func (p *Payment) Budgeted() bool { return slices.ContainsFunc(p.Counters, CountsMoney) }

// Return is what the change gives back to one of the payment's counters. The end
// of a payment returns what it has consumed and not captured, whatever ended it: a
// final capture, too. A refund returns its amount to budgets, if the perimeter says
// so; the payment was made all the same, so a frequency gets nothing back.
func (c *PaymentChange) Return(counter string) int64 {
	switch p := c.Payment; {
	case c.Refund != nil && c.restore && CountsMoney(counter):
		return c.Refund.Amount.Minor
	case c.Refund != nil || c.From == "" || !p.Status.Terminal():
		return 0
	case CountsMoney(counter):
		return p.Amount.Minor - p.AmountCaptured.Minor
	case p.AmountCaptured.Minor == 0:
		return 1
	}
	return 0
}
