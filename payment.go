package tollgate

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PaymentStatus is a state of a payment (interface §3).
type PaymentStatus string

// The states; the last four are terminal.
const (
	RequiresReview    PaymentStatus = "requires_review"
	Authorized        PaymentStatus = "authorized"
	PartiallyCaptured PaymentStatus = "partially_captured"
	Captured          PaymentStatus = "captured"
	Declined          PaymentStatus = "declined"
	Canceled          PaymentStatus = "canceled"
	Expired           PaymentStatus = "expired"
)

// CaptureMethod says whether creating a payment also captures it.
type CaptureMethod string

// The two methods; manual is the default.
const (
	CaptureManual    CaptureMethod = "manual"
	CaptureAutomatic CaptureMethod = "automatic"
)

const (
	// MaxCaptures is how often one payment can be captured.
	MaxCaptures = 50
	// reviewWindow is how long a payment waits for a review.
	reviewWindow = 24 * time.Hour
)

// Payment is a payment and the JSON of it. Amounts are in its currency.
//
// Its fields stand here and nowhere else. json names the member, and with the
// members in their order the columns of exports: a new one stands at the end, or
// has csv:"-". hash names the field of the stored hash, and how it is stored
// (package rediskv/hashes).
type Payment struct {
	Object             string            `json:"object"` // "payment"
	ID                 string            `json:"id"`
	CreatedAt          Instant           `json:"created_at" hash:"crt"`
	MerchantAccountID  string            `json:"merchant_account_id" hash:"ma,ma_"`
	Status             PaymentStatus     `json:"status" hash:"st,changes"`
	Amount             Money             `json:"amount" hash:"amt"`
	Currency           Currency          `json:"currency" hash:"cur"`
	Payee              KeptPayee         `json:"payee" hash:"payee,optional"`
	AmountCapturable   Money             `json:"amount_capturable" hash:"capb,changes"`
	AmountCaptured     Money             `json:"amount_captured" hash:"capd,changes"`
	AmountReleased     Money             `json:"amount_released" hash:"reld,changes"`
	AmountRefunded     Money             `json:"amount_refunded" hash:"rfd,changes,optional" csv:"-"`
	AmountRefundable   Money             `json:"amount_refundable" csv:"-"` // captured and not refunded
	CaptureMethod      CaptureMethod     `json:"capture_method" hash:"cm"`
	CaptureBefore      Instant           `json:"capture_before" hash:"bef"`
	FeeTotal           Money             `json:"fee_total" hash:"fee,changes"`
	TicketID           string            `json:"ticket_id"`
	Perimeter          PerimeterDecision `json:"perimeter"`
	Reference          *string           `json:"reference" hash:"ref"`
	Description        *string           `json:"description" hash:"desc"`
	Metadata           Metadata          `json:"metadata" hash:"meta"`
	CancellationReason *string           `json:"cancellation_reason" hash:"why,changes"`
	AuthorizedAt       Instant           `json:"authorized_at" hash:"aut,changes,optional"`
	CapturedAt         Instant           `json:"captured_at" hash:"cpt,changes,optional"`
	CanceledAt         Instant           `json:"canceled_at" hash:"can,changes,optional"`
	ExpiredAt          Instant           `json:"expired_at" hash:"exp,changes,optional"`
	UpdatedAt          Instant           `json:"updated_at" hash:"upd,changes"`

	// Revision counts the transitions; a commit compares it, so that of two
	// racing changes one sees the other's result.
	Revision int64 `json:"-" hash:"v,changes"`
	// Captures counts the captures, at most MaxCaptures.
	Captures int `json:"-" hash:"capn,changes"`
	// Refunds counts the refunds, at most MaxRefunds.
	Refunds int `json:"-" hash:"rfn,changes,optional"`
	// Numbers is how many have been given to what belongs to the payment: 0 where each has
	// an identifier of its own.
	Numbers int `json:"-" hash:"num,changes,optional"`
	// ErasedAt is the ticket's: since when payee, reference, description and metadata are erased.
	ErasedAt Instant `json:"-" hash:"era,optional"`
	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
	// Counters are those that the payment was counted in: use0, use1, …
	Counters []string `json:"-"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (p *Payment) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Payment
	if err := json.UnmarshalDecode(d, (*plain)(p)); err != nil {
		return err
	}
	if none := (Money{}); p.AmountRefunded == none && p.AmountRefundable == none { // an answer of before there were refunds
		p.AmountRefunded.Currency, p.AmountRefundable = p.AmountCaptured.Currency, p.AmountCaptured
	}
	return p.Currency.amounts(&p.Amount, &p.AmountCapturable, &p.AmountCaptured, &p.AmountReleased, &p.AmountRefunded, &p.AmountRefundable, &p.FeeTotal)
}

// TicketOf is the id of a payment's one ticket. To clients it is opaque; here
// it saves a look-up.
func TicketOf(payment string) string { return PrefixTicket + payment[len(PrefixPayment):] }

// part makes identifiers of a payment's next part: of one number, if it gives numbers.
func (p *Payment) part(newID NewIDFunc, at Instant) NewIDFunc {
	if p.Numbers == 0 {
		return newID
	}
	number := p.Numbers
	p.Numbers++
	return func(prefix string) string { return NumberedID(prefix, at, p.ID, number) }
}

// AuthorizationOf is the id of the transaction whose status mirrors the
// payment's.
func AuthorizationOf(payment string) string { return PrefixTransaction + payment[len(PrefixPayment):] }

// Trigger is what can happen to a payment that exists.
type Trigger string

// The triggers of interface §3.
const (
	TriggerApprove     Trigger = "approve"
	TriggerReject      Trigger = "reject"
	TriggerCapturePart Trigger = "capture_part"
	TriggerCaptureAll  Trigger = "capture_all"
	TriggerCancel      Trigger = "cancel"
	TriggerExpire      Trigger = "expire"
	TriggerRefund      Trigger = "refund"
)

// Transition is one row of the table: the new state and the one event.
type Transition struct {
	To    PaymentStatus
	Event EventType
}

// transitions is the one table of what may happen (interface §3). A pair that
// is not in it leaves the payment as it is and is payment_state_invalid.
var transitions = map[PaymentStatus]map[Trigger]Transition{
	RequiresReview: {
		TriggerApprove: {Authorized, PaymentAuthorized},
		TriggerReject:  {Declined, PaymentDeclined},
		TriggerCancel:  {Canceled, PaymentCanceled},
		TriggerExpire:  {Expired, PaymentExpired},
	},
	Authorized: {
		TriggerCapturePart: {PartiallyCaptured, PaymentCaptured},
		TriggerCaptureAll:  {Captured, PaymentCaptured},
		TriggerCancel:      {Canceled, PaymentCanceled},
		TriggerExpire:      {Expired, PaymentExpired},
	},
	PartiallyCaptured: {
		TriggerCapturePart: {PartiallyCaptured, PaymentCaptured},
		TriggerCaptureAll:  {Captured, PaymentCaptured},
		TriggerCancel:      {Captured, PaymentReleased},
		TriggerExpire:      {Captured, PaymentReleased},
		TriggerRefund:      {PartiallyCaptured, PaymentRefunded},
	},
	Captured: {
		TriggerRefund: {Captured, PaymentRefunded},
	},
}

// Next looks a transition up; the error is CodePaymentStateInvalid and names
// the status.
func (p *Payment) Next(t Trigger) (Transition, error) {
	next, ok := transitions[p.Status][t]
	if !ok {
		return Transition{}, &Error{
			Code:    CodePaymentStateInvalid,
			Message: fmt.Sprintf("A payment that is %s cannot take this step.", p.Status),
			Context: ErrorContext{PaymentID: p.ID, TicketID: p.TicketID, Status: p.Status},
		}
	}
	return next, nil
}

// Terminal reports whether a payment stays in a state: what was captured of it can
// still be refunded.
func (s PaymentStatus) Terminal() bool {
	for t, next := range transitions[s] {
		if t != TriggerRefund || next.To != s {
			return false
		}
	}
	return true
}

// Deadline is when the clock ends the payment's present state, zero when it
// does not.
func (p *Payment) Deadline() Instant {
	switch p.Status {
	case RequiresReview:
		return min(p.CreatedAt.Add(reviewWindow), p.CaptureBefore)
	case Authorized, PartiallyCaptured:
		return p.CaptureBefore
	default:
		return 0
	}
}

// lapsed is the error of whatever a client does to a payment whose deadline has
// passed, CodeAuthorizationExpired, whatever else is wrong with it; nil before.
// The payment is then to be expired (TriggerExpire).
func (p *Payment) lapsed(at Instant) error {
	if due := p.Deadline(); due == 0 || at < due {
		return nil
	}
	return p.Expired(p.Status)
}

// Expired is the error of what comes too late for a payment, which has a status
// now.
func (p *Payment) Expired(now PaymentStatus) error {
	return &Error{
		Code: CodeAuthorizationExpired, Message: "The time to do this had passed; the payment has expired.",
		Context: ErrorContext{PaymentID: p.ID, TicketID: p.TicketID, Status: now},
	}
}

// open puts a new payment into the state that its decision leads to, with all
// of the amount capturable when it is authorized.
func (p *Payment) open(d PerimeterDecision) Transition {
	p.Perimeter = d
	p.Revision = 1
	zero := Money{Currency: p.Currency}
	p.AmountCapturable, p.AmountCaptured, p.AmountReleased, p.AmountRefunded, p.AmountRefundable = zero, zero, zero, zero, zero
	switch d.Decision {
	case DecisionAllow:
		p.authorize(p.CreatedAt)
		return Transition{p.Status, PaymentAuthorized}
	case DecisionReview:
		p.Status = RequiresReview
		return Transition{p.Status, PaymentReviewRequired}
	default:
		p.Status = Declined
		return Transition{p.Status, PaymentDeclined}
	}
}

func (p *Payment) authorize(at Instant) {
	p.Status = Authorized
	p.AuthorizedAt = at
	p.AmountCapturable = p.Amount
}

// Capture takes amount from what is capturable; final releases the rest.
// It returns what was released. Errors: CodeAuthorizationExpired (see lapsed),
// CodePaymentStateInvalid, CodeCaptureExceeds, CodeCaptureLimitReached.
func (p *Payment) Capture(amount Money, final bool, at Instant) (Transition, Money, error) {
	if err := p.lapsed(at); err != nil {
		return Transition{}, Money{}, err
	}
	trigger := TriggerCapturePart
	if final || amount.Minor >= p.AmountCapturable.Minor {
		trigger = TriggerCaptureAll
	}
	next, err := p.Next(trigger)
	if err != nil {
		return next, Money{}, err
	}
	if amount.Minor > p.AmountCapturable.Minor {
		return next, Money{}, &Error{
			Code: CodeCaptureExceeds, Param: "amount",
			Message: fmt.Sprintf("%s of this payment can still be captured.", p.AmountCapturable),
			Context: ErrorContext{PaymentID: p.ID, TicketID: p.TicketID, Status: p.Status},
		}
	}
	if p.Captures >= MaxCaptures {
		return next, Money{}, &Error{
			Code:    CodeCaptureLimitReached,
			Message: fmt.Sprintf("A payment can be captured at most %d times.", MaxCaptures),
			Context: ErrorContext{PaymentID: p.ID, TicketID: p.TicketID, Status: p.Status},
		}
	}
	p.AmountCapturable.Minor -= amount.Minor
	p.AmountCaptured.Minor += amount.Minor
	p.AmountRefundable.Minor += amount.Minor
	p.Captures++
	released := Money{Currency: p.Currency}
	if trigger == TriggerCaptureAll {
		released = p.release()
	}
	p.move(next, at)
	return next, released, nil
}

// Move carries out a trigger other than a capture and returns what it
// released. Errors: CodeAuthorizationExpired (see lapsed),
// CodePaymentStateInvalid.
func (p *Payment) Move(t Trigger, at Instant) (Transition, Money, error) {
	if err := p.lapsed(at); err != nil && t != TriggerExpire {
		return Transition{}, Money{}, err
	}
	next, err := p.Next(t)
	if err != nil {
		return next, Money{}, err
	}
	released := Money{Currency: p.Currency}
	if t == TriggerApprove {
		p.AmountCapturable = p.Amount
	} else {
		released = p.release()
	}
	p.move(next, at)
	return next, released, nil
}

func (p *Payment) release() Money {
	released := p.AmountCapturable
	p.AmountReleased.Minor += released.Minor
	p.AmountCapturable.Minor = 0
	return released
}

func (p *Payment) move(next Transition, at Instant) {
	p.Status = next.To
	p.UpdatedAt = at
	p.Revision++
	switch next.To {
	case Authorized:
		p.AuthorizedAt = at
	case Captured:
		if next.Event == PaymentCaptured || p.CapturedAt == 0 {
			p.CapturedAt = at
		}
	case Canceled:
		p.CanceledAt = at
	case Expired:
		p.ExpiredAt = at
	}
}

// CheckInvariant is the law of interface §3: once authorized,
// captured + capturable + released = amount, none of them negative, and
// refunded + refundable = captured, none of them negative either.
func (p *Payment) CheckInvariant() error {
	captured, capturable, released := p.AmountCaptured.Minor, p.AmountCapturable.Minor, p.AmountReleased.Minor
	sum := captured + capturable + released
	if captured < 0 || capturable < 0 || released < 0 || (p.AuthorizedAt != 0 && sum != p.Amount.Minor) || (p.AuthorizedAt == 0 && sum != 0) {
		return fmt.Errorf("payment %s (%s): captured %d + capturable %d + released %d is not %d",
			p.ID, p.Status, captured, capturable, released, p.Amount.Minor)
	}
	if refunded, refundable := p.AmountRefunded.Minor, p.AmountRefundable.Minor; refunded < 0 || refundable < 0 || refunded+refundable != captured {
		return fmt.Errorf("payment %s (%s): refunded %d + refundable %d is not captured %d", p.ID, p.Status, refunded, refundable, captured)
	}
	return nil
}
