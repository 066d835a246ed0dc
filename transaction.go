package tollgate

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TransactionType says what moved (interface §3).
type TransactionType string

// The types of transactions.
const (
	TransactionAuthorization TransactionType = "authorization"
	TransactionCapture       TransactionType = "capture"
	TransactionFee           TransactionType = "fee"
	TransactionRelease       TransactionType = "release"
	TransactionRefund        TransactionType = "refund"
	TransactionPayout        TransactionType = "payout"
)

// TransactionTypes lists them for filters.
var TransactionTypes = []TransactionType{
	TransactionAuthorization, TransactionCapture, TransactionFee, TransactionRelease, TransactionRefund, TransactionPayout,
}

// States of transactions that are not authorizations; an authorization's
// status is its payment's.
const (
	TransactionPending   = "pending"
	TransactionAvailable = "available"
	TransactionSettled   = "settled"
	TransactionReleased  = "released"
)

// TransactionStatuses lists every status that a search may name.
var TransactionStatuses = []string{
	string(RequiresReview), string(Authorized), string(PartiallyCaptured), string(Captured),
	string(Declined), string(Canceled), string(Expired),
	TransactionPending, TransactionAvailable, TransactionSettled, TransactionReleased,
	string(PayoutStatusInTransit), string(PayoutStatusPaid), string(PayoutStatusFailed), string(PayoutStatusHeld),
}

// Transaction is one movement and the JSON of it.
type Transaction struct {
	Object            string          `json:"object"` // "transaction"
	ID                string          `json:"id"`
	CreatedAt         Instant         `json:"created_at"`
	Type              TransactionType `json:"type"`
	Status            string          `json:"status"`
	PaymentID         *string         `json:"payment_id"`
	CaptureID         *string         `json:"capture_id"`
	RefundID          *string         `json:"refund_id,omitempty"` // of a refund and of its fees only
	PayoutID          *string         `json:"payout_id"`
	TicketID          *string         `json:"ticket_id"`
	MerchantAccountID string          `json:"merchant_account_id"`
	Amount            Money           `json:"amount"`
	Currency          Currency        `json:"currency"`
	Payee             *string         `json:"payee"`
	Reference         *string         `json:"reference"`
	BatchDate         *string         `json:"batch_date"`   // of captures, refunds, fees and payouts, YYYY-MM-DD
	AvailableOn       *string         `json:"available_on"` // when the sales day is paid, YYYY-MM-DD
	UpdatedAt         Instant         `json:"updated_at"`

	// Damaged: it is stored and cannot be read. Only Object and ID count; in a
	// list a DamagedObject stands in its place.
	Damaged bool `json:"-"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (t *Transaction) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Transaction
	if err := json.UnmarshalDecode(d, (*plain)(t)); err != nil {
		return err
	}
	return t.Currency.sums(&t.Amount) // a payout's can have more digits than a payment's
}

// NewTransaction records that amount moved for a payment; captureID is empty
// where no capture is concerned.
func NewTransaction(id string, t TransactionType, status string, p *Payment, captureID string, amount Money, at Instant) Transaction {
	return Transaction{
		Object: "transaction", ID: id, CreatedAt: at, Type: t, Status: status,
		PaymentID: optional(p.ID), CaptureID: optional(captureID), TicketID: optional(p.TicketID),
		MerchantAccountID: p.MerchantAccountID, Amount: amount, Currency: p.Currency,
		Payee: optional(p.Payee), Reference: p.Reference, UpdatedAt: at,
	}
}
