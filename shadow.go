package tollgate

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Shadow has a candidate priced beside the rule that is in force, on what
// really happens. Its lines are compared and never charged.
type Shadow struct {
	Object             string       `json:"object"` // "shadow"
	ID                 string       `json:"id"`
	CreatedAt          Instant      `json:"created_at"`
	Rule               RuleRef      `json:"rule"`                 // the candidate
	Against            Citation     `json:"against"`              // in whose place it is priced
	MerchantAccountIDs []string     `json:"merchant_account_ids"` // empty: all that use the other
	Status             string       `json:"status"`               // active or stopped
	StoppedAt          Instant      `json:"stopped_at"`
	Totals             ShadowTotals `json:"totals"`
	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// ShadowFacts are what a change of an organization's shadows is decided from: those
// that are active, and the revision of their list.
type ShadowFacts struct {
	Active   []Shadow
	Revision int64 // 0: there has been none
}

// ShadowChange is a shadow as it becomes and the list of the active ones, both
// written if they have not changed since they were read.
type ShadowChange struct {
	Shadow   Stored[Shadow]
	Active   []Shadow
	Revision int64 // of the list, as it was read
	Audit    AuditEntry
}

// Start begins a shadow. CodeQuotaExceeded when there are MaxShadows already.
func (f ShadowFacts) Start(s Shadow) (*ShadowChange, error) {
	if len(f.Active) >= MaxShadows {
		return nil, quotaExceeded("shadows", "An organization has at most %d shadows at once; stop one.", MaxShadows)
	}
	return f.change("rule.shadow", Stored[Shadow]{Value: s}, append(slices.Clone(f.Active), s)), nil
}

// Stop ends a shadow; what it has found stays.
func (f ShadowFacts) Stop(of Stored[Shadow], now Instant) (*ShadowChange, error) {
	if of.Value.Status != StatusActive {
		return nil, activationState("The shadow is stopped.")
	}
	of.Value.Status, of.Value.StoppedAt = "stopped", now
	var active []Shadow
	for _, other := range f.Active {
		if other.ID != of.Value.ID {
			active = append(active, other)
		}
	}
	return f.change("rule.unshadow", of, active), nil
}

func (f ShadowFacts) change(kind string, s Stored[Shadow], active []Shadow) *ShadowChange {
	return &ShadowChange{
		Shadow: s, Active: active, Revision: f.Revision,
		Audit: AuditEntry{Type: kind, Outcome: "succeeded", Reason: s.Value.Rule.Rule.String(), Target: AuditTarget{Type: "shadow", ID: s.Value.ID}},
	}
}

// ShadowTotals is what has been compared since the beginning.
type ShadowTotals struct {
	Compared    int64              `json:"compared"`
	Equal       int64              `json:"equal"`
	Different   int64              `json:"different"` // failures of the candidate included
	Failed      int64              `json:"failed"`    // of these, the candidate failed or refused
	Dropped     int64              `json:"dropped"`   // not compared: too many waited, or its module was not to be had
	Differences []ShadowDifference `json:"differences"`
}

// ShadowDifference is by how much the candidate's lines are more, in all.
type ShadowDifference struct {
	Currency Currency `json:"currency"`
	Amount   string   `json:"amount"` // may be negative
}

// Divergence is one input that the candidate prices in another way.
type Divergence struct {
	Object            string           `json:"object"` // "divergence"
	ID                string           `json:"id"`
	CreatedAt         Instant          `json:"created_at"`
	ShadowID          string           `json:"shadow_id"`
	MerchantAccountID string           `json:"merchant_account_id"`
	Input             EvaluationInput  `json:"input"`
	Live              []FeeLine        `json:"live"`
	Shadow            []FeeLine        `json:"shadow"`     // empty when it failed
	Difference        *Money           `json:"difference"` // by how much the candidate's are more
	Error             *DivergenceError `json:"error"`
}

// UnmarshalJSONFrom gives the amounts their currency.
func (v *Divergence) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain Divergence
	return readMoney(d, (*plain)(v), &v.Input.Currency, Currency.sums)
}

// DivergenceError says why the candidate has no lines.
type DivergenceError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

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
