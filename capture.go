package tollgate

import "github.com/go-json-experiment/json/jsontext"

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
