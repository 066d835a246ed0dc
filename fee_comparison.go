package tollgate

import "github.com/go-json-experiment/json/jsontext"

// FeeComparison is what samples are charged before and after an activation: each
// amount in each currency of its accounts.
type FeeComparison struct {
	Payee   string      `json:"payee"`  // of all samples
	Before  []Citation  `json:"before"` // the rules in force
	After   []Citation  `json:"after"`
	Samples []FeeSample `json:"samples"`
}

// FeeSample is one amount, priced before and after.
type FeeSample struct {
	Amount   Money      `json:"amount"`
	Currency Currency   `json:"currency"`
	Before   FeeOutcome `json:"before"`
	After    FeeOutcome `json:"after"`
}

// FeeOutcome is what a sample is charged, or why it cannot be priced.
type FeeOutcome struct {
	Total *Money    `json:"total"` // null with an error
	Lines []FeeLine `json:"lines"` // empty where there are too many to show
	Error *FeeError `json:"error"`
}

// FeeError is why a sample cannot be priced.
type FeeError struct {
	Code    Code      `json:"code"`
	Message string    `json:"message"`
	Rule    *Citation `json:"rule"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (s *FeeSample) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain FeeSample
	return readMoney(d, (*plain)(s), &s.Currency, Currency.amounts)
}
