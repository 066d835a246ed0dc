package tollgate

import "github.com/go-json-experiment/json/jsontext"

// CutoffPreview is what another cutoff would have done with the captures of a
// window: the answer of POST /v1/cutoffs/preview (interface §10). It is a
// what-if over captures that were really made, as if the proposed version had
// been in force from its effective date on; nothing else is different.
//
// All amounts are what is paid out: captures less refunds and the fees of both.
// They can be negative, where these exceed captures. A payout's delta is what moves to its
// date less what moves away from it.
type CutoffPreview struct {
	Object            string           `json:"object"` // "cutoff_preview"
	MerchantAccountID string           `json:"merchant_account_id"`
	Current           Cutoff           `json:"current"`        // holds on EffectiveDate without the proposal
	Proposed          Cutoff           `json:"proposed"`       // would be the next version
	EffectiveDate     Date             `json:"effective_date"` // the first sales day that would end by it
	Window            PreviewWindow    `json:"window"`
	Summary           PreviewSummary   `json:"summary"`
	Payouts           []PreviewPayout  `json:"payouts"` // by date and currency
	Moves             []PreviewMove    `json:"moves"`   // by dates and currency
	Warnings          []PreviewWarning `json:"warnings"`
	TZDBVersion       string           `json:"tzdb_version"`
	AsOf              Instant          `json:"as_of"`
}

// PreviewWindow says which captures count: those from From up to, and not
// including, To.
type PreviewWindow struct {
	From Instant `json:"from"`
	To   Instant `json:"to"`
}

// PreviewSummary counts the captures of the window, and those that would have
// another batch date or another payout date.
type PreviewSummary struct {
	Captures               int64           `json:"captures"`
	CapturesMoved          int64           `json:"captures_moved"`
	AmountsMoved           []PreviewAmount `json:"amounts_moved"`
	FirstAffectedBatchDate Date            `json:"first_affected_batch_date"` // the earliest that loses or gains a capture, or is paid on another day
}

// PreviewAmount is an amount in one currency.
type PreviewAmount struct {
	Currency Currency `json:"currency"`
	Amount   Money    `json:"amount"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (a *PreviewAmount) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain PreviewAmount
	return readMoney(d, (*plain)(a), &a.Currency, Currency.sums)
}

// PreviewPayout is what the window's captures bring to one payout.
type PreviewPayout struct {
	PayoutDate     Date     `json:"payout_date"`
	Currency       Currency `json:"currency"`
	AmountCurrent  Money    `json:"amount_current"`
	AmountProposed Money    `json:"amount_proposed"`
	Delta          Money    `json:"delta"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (p *PreviewPayout) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain PreviewPayout
	return readMoney(d, (*plain)(p), &p.Currency, Currency.sums)
}

// PreviewMove is captures that would move together.
type PreviewMove struct {
	FromBatchDate  Date     `json:"from_batch_date"`
	ToBatchDate    Date     `json:"to_batch_date"`
	FromPayoutDate Date     `json:"from_payout_date"`
	ToPayoutDate   Date     `json:"to_payout_date"`
	Count          int64    `json:"count"`
	Amount         Money    `json:"amount"`
	Currency       Currency `json:"currency"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (m *PreviewMove) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain PreviewMove
	return readMoney(d, (*plain)(m), &m.Currency, Currency.sums)
}

// PreviewWarning says what the numbers do not show.
type PreviewWarning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// CapturedAmount is a capture or a refund as a preview needs it. Batch is what was
// stored with it; one from before batches were kept has none.
type CapturedAmount struct {
	At       Instant
	Currency Currency
	Net      int64 // captured, or less what was refunded, less fees; in minor units
	Refund   bool
	SalesDay SalesDay
}
