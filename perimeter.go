package tollgate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ericlagergren/decimal"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decision is what a perimeter says of a payment (spec §2).
type Decision string

// The three decisions; the specification names allow and leaves room for more.
const (
	DecisionAllow  Decision = "allow"
	DecisionDeny   Decision = "deny"
	DecisionReview Decision = "review"
)

// Reason says which constraint led to a decision other than allow.
type Reason string

// MarshalJSON prints null for no reason.
func (r Reason) MarshalJSON() ([]byte, error) { return orNull(string(r)) }

// The reasons, in the order in which constraints are checked.
const (
	ReasonUnknownConstraint     Reason = "unknown_constraint"
	ReasonCurrencyNotAllowed    Reason = "currency_not_allowed"
	ReasonPayeeBlocked          Reason = "payee_blocked"
	ReasonPayeeNotAllowed       Reason = "payee_not_allowed"
	ReasonAmountBelowMinimum    Reason = "amount_below_minimum"
	ReasonAmountAboveMaximum    Reason = "amount_above_maximum"
	ReasonOutsideSchedule       Reason = "outside_schedule"
	ReasonBudgetCurrencyMissing Reason = "budget_currency_missing"
	ReasonAmountNeedsReview     Reason = "amount_needs_review"
	ReasonBudgetExhausted       Reason = "budget_exhausted" // of a limit that is used up
	ReasonFrequencyExceeded     Reason = "frequency_exceeded"
)

// PerimeterDecision is the decision of one version of a perimeter.
type PerimeterDecision struct {
	ID       string   `json:"id" hash:"per,per_"`
	Version  int64    `json:"version" hash:"perv"`
	Decision Decision `json:"decision" hash:"perd"`
	Reason   Reason   `json:"reason" hash:"perr,optional"` // null for allow
}

// PerimeterDocument is a perimeter as it is provisioned and stored: data, not
// code, immutable per version (spec §9).
type PerimeterDocument struct {
	ID          string         `json:"id"`
	Version     int64          `json:"version"`
	Semantics   int64          `json:"semantics,omitzero"` // what the constraints mean; see PerimeterSemantics
	Constraints jsontext.Value `json:"constraints"`
}

// PerimeterSemantics is what the constraints of a version that is stored now
// mean (interface §11): an empty list allows nothing, and beside budgets a
// currency without one is denied. A version without semantics, stored by an
// earlier release, keeps that release's meaning: an empty list restricts
// nothing, and currencies without a budget are unlimited.
const PerimeterSemantics = 2

// EarlierSemantics is in words what a version without semantics means.
const EarlierSemantics = "that of an earlier release: an empty list restricts nothing, and currencies without a budget are unlimited"

// constraints are those that this release knows. A document with any other is
// kept and denies everything: a limit that is not understood must not be
// ignored.
type constraints struct {
	Currencies           []Currency                `json:"currencies"`
	PayeesAllowed        []string                  `json:"payees_allowed"`
	PayeesBlocked        []string                  `json:"payees_blocked"`
	MinimumAmount        string                    `json:"minimum_amount"`
	MaximumAmount        string                    `json:"maximum_amount"`
	ReviewAbove          string                    `json:"review_above"`
	Budgets              []budgetForm              `json:"budgets"`
	UnbudgetedCurrencies jsontext.Value            `json:"unbudgeted_currencies"`
	RefundsRestoreBudget jsontext.Value            `json:"refunds_restore_budget"`
	Frequency            []frequencyForm           `json:"frequency"`
	Schedule             *scheduleForm             `json:"schedule"`
	Unknown              map[string]jsontext.Value `json:",embed"`

	strict         bool // semantics 2
	unbudgeted     bool // currencies without a budget are allowed
	minimum        *decimal.Big
	maximum        *decimal.Big
	reviewAbove    *decimal.Big
	schedule       *schedule
	limits         []limit
	allowed, block payeePatterns
}

// Perimeter is a document ready to decide.
type Perimeter struct {
	ID      string
	Version int64
	c       constraints
	unknown bool
}

// Compile checks a document and prepares it. Constraints that it does not
// know are no error; they make every decision a denial.
func (d PerimeterDocument) Compile() (*Perimeter, error) {
	p := &Perimeter{ID: d.ID, Version: d.Version}
	text := d.Constraints
	if len(text) == 0 {
		text = jsontext.Value("{}")
	}
	if err := json.Unmarshal(text, &p.c); err != nil {
		return nil, fmt.Errorf("perimeter %s@%d: constraints: %w", d.ID, d.Version, err)
	}
	p.c.strict = d.Semantics >= PerimeterSemantics
	if err := p.c.prepare(text); err != nil {
		return nil, fmt.Errorf("perimeter %s@%d: %w", d.ID, d.Version, err)
	}
	p.unknown = len(p.c.Unknown) > 0 || d.Semantics > PerimeterSemantics || slices.ContainsFunc(p.c.limits, func(l limit) bool { return l.unknown }) ||
		!p.c.strict && len(p.c.UnbudgetedCurrencies)+len(p.c.RefundsRestoreBudget) > 0 // unknown to the release that stored it
	return p, nil
}

// laterMembers reads what came with semantics 2, and refuses null where it could
// be taken for an empty list.
func (c *constraints) laterMembers(text jsontext.Value) error {
	var lists struct {
		Currencies    jsontext.Value `json:"currencies"`
		PayeesAllowed jsontext.Value `json:"payees_allowed"`
		Schedule      struct {
			Days jsontext.Value `json:"days"`
		} `json:"schedule"`
	}
	if err := json.Unmarshal(text, &lists); err != nil {
		return err
	}
	for _, list := range []struct {
		name string
		text jsontext.Value
	}{{"currencies", lists.Currencies}, {"payees_allowed", lists.PayeesAllowed}, {"schedule.days", lists.Schedule.Days}} {
		if list.text.Kind() == 'n' {
			return fmt.Errorf("%s is null; give a list, an empty one to allow none, or leave it out to allow all", list.name)
		}
	}
	switch string(c.UnbudgetedCurrencies) {
	case "", `"deny"`:
	case `"allow"`:
		c.unbudgeted = true
	default:
		return errors.New("unbudgeted_currencies is neither deny nor allow")
	}
	switch string(c.RefundsRestoreBudget) {
	case "", "true", "false":
	default:
		return errors.New("refunds_restore_budget is neither true nor false")
	}
	return nil
}

func (c *constraints) prepare(text jsontext.Value) (err error) {
	if c.strict {
		if err := c.laterMembers(text); err != nil {
			return err
		}
	}
	for _, code := range c.Currencies {
		if _, err := ParseCurrency(string(code)); err != nil {
			return err
		}
	}
	if c.allowed, err = payeePatternsOf("payees_allowed", c.PayeesAllowed, false, !c.strict); err != nil {
		return err
	}
	if c.block, err = payeePatternsOf("payees_blocked", c.PayeesBlocked, true, !c.strict); err != nil {
		return err
	}
	for _, limit := range []struct {
		name, text string
		to         **decimal.Big
	}{
		{"minimum_amount", c.MinimumAmount, &c.minimum},
		{"maximum_amount", c.MaximumAmount, &c.maximum},
		{"review_above", c.ReviewAbove, &c.reviewAbove},
	} {
		if limit.text == "" {
			continue
		}
		if !decimalForm(limit.text) {
			return fmt.Errorf("%s: %s is not a decimal amount", limit.name, quoted(limit.text))
		}
		*limit.to, _ = decimals.SetString(new(decimal.Big), limit.text)
	}
	if c.Schedule != nil {
		if c.schedule, err = c.Schedule.compile(c.strict); err != nil {
			return err
		}
	}
	return c.compileLimits()
}

// RefundsRestoreBudget reports whether refunds give their amounts back to budgets.
func (p *Perimeter) RefundsRestoreBudget() bool {
	return p.c.strict && string(p.c.RefundsRestoreBudget) == "true"
}

// Decide is pure: the same document, amount, payee and moment give the same
// decision. Limits without a currency of their own are compared as numbers in
// the payment's currency. Denials come before reviews. What has been consumed
// of budgets and frequencies is another question (Uses).
func (p *Perimeter) Decide(amount Money, payee Payee, now time.Time) PerimeterDecision {
	d := PerimeterDecision{ID: p.ID, Version: p.Version, Decision: DecisionAllow}
	if d.Reason = p.denial(amount, payee, now); d.Reason != "" {
		d.Decision = DecisionDeny
	} else if p.c.reviewAbove != nil && amount.cmp(p.c.reviewAbove) > 0 {
		d.Decision, d.Reason = DecisionReview, ReasonAmountNeedsReview
	}
	return d
}

func (p *Perimeter) denial(amount Money, payee Payee, now time.Time) Reason {
	c := &p.c
	switch {
	case p.unknown:
		return ReasonUnknownConstraint
	case c.restricts(c.Currencies != nil, len(c.Currencies)) && !slices.Contains(c.Currencies, amount.Currency):
		return ReasonCurrencyNotAllowed
	case c.block.block(payee):
		return ReasonPayeeBlocked
	case c.restricts(c.PayeesAllowed != nil, len(c.PayeesAllowed)) && !c.allowed.allow(payee):
		return ReasonPayeeNotAllowed
	case c.minimum != nil && amount.cmp(c.minimum) < 0:
		return ReasonAmountBelowMinimum
	case c.maximum != nil && amount.cmp(c.maximum) > 0:
		return ReasonAmountAboveMaximum
	case c.schedule != nil && !c.schedule.open(now):
		return ReasonOutsideSchedule
	case c.strict && !c.unbudgeted && len(c.Budgets) > 0 && !slices.ContainsFunc(c.limits, func(l limit) bool { return l.currency == amount.Currency }):
		return ReasonBudgetCurrencyMissing
	}
	return ""
}

// restricts reports whether a list of what is allowed has a meaning: one that is
// there, or in an earlier release one that is not empty.
func (c *constraints) restricts(present bool, n int) bool { return n > 0 || c.strict && present }

func (m Money) cmp(limit *decimal.Big) int {
	return decimal.New(m.Minor, m.Currency.Exponent()).Cmp(limit)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
