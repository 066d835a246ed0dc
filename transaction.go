package tollgate

import "github.com/go-json-experiment/json/jsontext"

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
var TransactionTypes = []string{
	string(TransactionAuthorization), string(TransactionCapture), string(TransactionFee), string(TransactionRelease), string(TransactionRefund), string(TransactionPayout),
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

// Transaction is one movement and the JSON of it. Its fields stand here and nowhere
// else, as a payment's do.
type Transaction struct {
	Object            string          `json:"object"` // "transaction"
	ID                string          `json:"id"`
	CreatedAt         Instant         `json:"created_at" hash:"crt"`
	Type              TransactionType `json:"type" hash:"ty"`
	Status            string          `json:"status" hash:"st"`
	PaymentID         *string         `json:"payment_id" hash:"pay,pay_"`
	CaptureID         *string         `json:"capture_id" hash:"cap,cap_"`
	RefundID          *string         `json:"refund_id,omitempty" hash:"rfd,rfd_" csv:"-"` // of a refund and of its fees only
	PayoutID          *string         `json:"payout_id" hash:"po,po_"`
	TicketID          *string         `json:"ticket_id" hash:"tkt,tkt_"`
	MerchantAccountID string          `json:"merchant_account_id" hash:"ma,ma_"`
	Amount            Money           `json:"amount" hash:"amt,sum"`
	Currency          Currency        `json:"currency" hash:"cur"`
	Payee             *string         `json:"payee" hash:"payee"`
	Reference         *string         `json:"reference" hash:"ref"`
	BatchDate         *string         `json:"batch_date" hash:"bd,date"`   // of captures, refunds, fees and payouts, YYYY-MM-DD
	AvailableOn       *string         `json:"available_on" hash:"av,date"` // when the sales day is paid, YYYY-MM-DD
	UpdatedAt         Instant         `json:"updated_at" hash:"upd"`

	// Damaged: it is stored and cannot be read. Only Object and ID count; in a
	// list a DamagedObject stands in its place.
	Damaged bool `json:"-"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (t *Transaction) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Transaction
	return readMoney(d, (*plain)(t), &t.Currency, Currency.sums) // a payout's can have more digits than a payment's
}

// newTransaction records that amount moved for a payment; captureID is empty
// where no capture is concerned.
func newTransaction(id string, t TransactionType, status string, p *Payment, captureID string, amount Money, at Instant) Transaction {
	return Transaction{
		Object: "transaction", ID: id, CreatedAt: at, Type: t, Status: status,
		PaymentID: optional(p.ID), CaptureID: optional(captureID), TicketID: optional(p.TicketID),
		MerchantAccountID: p.MerchantAccountID, Amount: amount, Currency: p.Currency,
		Payee: optional(string(p.Payee)), Reference: p.Reference, UpdatedAt: at,
	}
}

// Capture is one capture of a payment and the JSON of it (interface §2).
type Capture struct {
	Object            string   `json:"object"` // "capture"
	ID                string   `json:"id"`
	CreatedAt         Instant  `json:"created_at"`
	PaymentID         string   `json:"payment_id"`
	MerchantAccountID string   `json:"merchant_account_id"`
	TicketID          string   `json:"ticket_id"`
	TransactionID     string   `json:"transaction_id"`
	Amount            Money    `json:"amount"`
	Currency          Currency `json:"currency"`
	FinalCapture      bool     `json:"final_capture"`
	FeeTotal          Money    `json:"fee_total"`
	BatchDate         *string  `json:"batch_date"` // the sales day, YYYY-MM-DD
	Reference         *string  `json:"reference"`
	Metadata          Metadata `json:"metadata"`
	Payment           *Payment `json:"payment"` // after this capture
}

// UnmarshalJSONFrom gives the amounts their currency.
func (c *Capture) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Capture
	return readMoney(d, (*plain)(c), &c.Currency, Currency.amounts)
}
