package tollgate

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"
)

// FeeLine is one fee that a rule charges. The host writes the citation; a rule
// cannot name one.
type FeeLine struct {
	Label  string   `json:"label"`
	Amount Money    `json:"amount"`
	Rule   Citation `json:"rule"`
}

// PricingInput is everything that a rule set sees; the same input and the
// same modules give the same lines, byte for byte, on every machine.
type PricingInput struct {
	Amount       Money
	Payee        string
	CaptureIndex uint32 // 0 for an authorization, n for the n-th capture
	Refund       bool   // of Amount; only rules that take part in refunds run
}

// RuleRef pins the exact bytes of a rule: the SHA-256 of its module in hex.
type RuleRef struct {
	Rule   Citation `json:"rule"`
	SHA256 string   `json:"sha256"`
}

// FeeTotal adds up lines in one currency.
func FeeTotal(lines []FeeLine, c Currency) Money {
	total := Money{Currency: c}
	for _, l := range lines {
		total.Minor += l.Amount.Minor
	}
	return total
}

// LinesSHA256 is the hex digest of the lines in their canonical form: the
// compact JSON array of {"label","amount","rule"} in the order of the rules.
// It is a quote's digest and an evaluation's lines_sha256, so a payment shows
// that it was priced as quoted.
func LinesSHA256(lines []FeeLine) string {
	text := make([]byte, 0, 1024)
	text = append(text, '[')
	for i, l := range lines {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, `{"label":`...)
		text, _ = jsontext.AppendQuote(text, l.Label) // what is not UTF-8 is replaced
		text = append(text, `,"amount":"`...)
		text = l.Amount.AppendText(text)
		text = append(text, `","rule":"`...)
		text = append(text, l.Rule.String()...)
		text = append(text, `"}`...)
	}
	sum := sha256.Sum256(append(text, ']'))
	return hex.EncodeToString(sum[:])
}

// Quote is what a payment would be charged and whether it may be made (spec §2),
// with what interface §2 adds, and the JSON of it.
type Quote struct {
	Object    string        `json:"object"` // "quote"
	Lines     []FeeLine     `json:"lines"`
	Total     Money         `json:"total"`
	Currency  Currency      `json:"currency"`
	Perimeter QuoteDecision `json:"perimeter"`
	RuleSet   RuleSetRef    `json:"rule_set"`
	Digest    string        `json:"digest"` // an evaluation's lines_sha256
	// AsOf is when the configuration was last known to be current, while Redis
	// cannot say whether it still is; else null.
	AsOf Instant `json:"as_of"`
}

// QuoteDecision is a PerimeterDecision that has a reason only when it is not
// allow.
type QuoteDecision struct {
	ID       string   `json:"id"`
	Version  int64    `json:"version"`
	Decision Decision `json:"decision"`
	Reason   Reason   `json:"reason,omitzero"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (q *Quote) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Quote
	return readMoney(d, (*plain)(q), &q.Currency, Currency.amounts)
}
