package tollgate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ericlagergren/decimal"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decision is what a perimeter says of a payment (spec §2).
type Decision string

// The three decisions; the specification names allow and leaves room for more.
const (
	Allow  Decision = "allow"
	Deny   Decision = "deny"
	Review Decision = "review"
)

// Reason says which constraint led to a decision other than allow.
type Reason string

// MarshalJSON prints null for no reason.
func (r Reason) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return []byte(`"` + string(r) + `"`), nil
}

// The reasons, in the order in which constraints are checked.
const (
	ReasonUnknownConstraint  Reason = "unknown_constraint"
	ReasonCurrencyNotAllowed Reason = "currency_not_allowed"
	ReasonPayeeBlocked       Reason = "payee_blocked"
	ReasonPayeeNotAllowed    Reason = "payee_not_allowed"
	ReasonAmountBelowMinimum Reason = "amount_below_minimum"
	ReasonAmountAboveMaximum Reason = "amount_above_maximum"
	ReasonOutsideSchedule    Reason = "outside_schedule"
	ReasonAmountNeedsReview  Reason = "amount_needs_review"
)

// PerimeterDecision is the decision of one version of a perimeter.
type PerimeterDecision struct {
	ID       string   `json:"id"`
	Version  int64    `json:"version"`
	Decision Decision `json:"decision"`
	Reason   Reason   `json:"reason"` // null for allow
}

// PerimeterDocument is a perimeter as it is provisioned and stored: data, not
// code, immutable per version (spec §9).
type PerimeterDocument struct {
	ID          string         `json:"id"`
	Version     int64          `json:"version"`
	Constraints jsontext.Value `json:"constraints"`
}

// constraints are those that this release knows. A document with any other is
// kept and denies everything: a limit that is not understood must not be
// ignored.
type constraints struct {
	Currencies     []Currency                `json:"currencies"`
	PayeesAllowed  []string                  `json:"payees_allowed"`
	PayeesBlocked  []string                  `json:"payees_blocked"`
	MinimumAmount  string                    `json:"minimum_amount"`
	MaximumAmount  string                    `json:"maximum_amount"`
	ReviewAbove    string                    `json:"review_above"`
	Budgets        []budgetForm              `json:"budgets"`
	Frequency      []frequencyForm           `json:"frequency"`
	Schedule       *scheduleForm             `json:"schedule"`
	Unknown        map[string]jsontext.Value `json:",embed"`
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
	if err := p.c.prepare(); err != nil {
		return nil, fmt.Errorf("perimeter %s@%d: %w", d.ID, d.Version, err)
	}
	p.unknown = len(p.c.Unknown) > 0 || slices.ContainsFunc(p.c.limits, func(l limit) bool { return l.unknown })
	return p, nil
}

func (c *constraints) prepare() (err error) {
	for _, code := range c.Currencies {
		if _, err := ParseCurrency(string(code)); err != nil {
			return err
		}
	}
	if c.allowed, err = payeePatternsOf("payees_allowed", c.PayeesAllowed); err != nil {
		return err
	}
	if c.block, err = payeePatternsOf("payees_blocked", c.PayeesBlocked); err != nil {
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
		if c.schedule, err = c.Schedule.compile(); err != nil {
			return err
		}
	}
	return c.compileLimits()
}

// Decide is pure: the same document, amount, payee and moment give the same
// decision. Limits without a currency of their own are compared as numbers in
// the payment's currency. Denials come before reviews. What has been consumed
// of budgets and frequencies is another question (Uses).
func (p *Perimeter) Decide(amount Money, payee string, now time.Time) PerimeterDecision {
	d := PerimeterDecision{ID: p.ID, Version: p.Version, Decision: Allow}
	if d.Reason = p.denial(amount, payee, now); d.Reason != "" {
		d.Decision = Deny
	} else if p.c.reviewAbove != nil && amount.cmp(p.c.reviewAbove) > 0 {
		d.Decision, d.Reason = Review, ReasonAmountNeedsReview
	}
	return d
}

func (p *Perimeter) denial(amount Money, payee string, now time.Time) Reason {
	c := &p.c
	switch {
	case p.unknown:
		return ReasonUnknownConstraint
	case len(c.Currencies) > 0 && !slices.Contains(c.Currencies, amount.Currency):
		return ReasonCurrencyNotAllowed
	case c.block.match(payee) || c.block.match(hostOf(payee)):
		return ReasonPayeeBlocked
	case len(c.PayeesAllowed) > 0 && !c.allowed.match(payee):
		return ReasonPayeeNotAllowed
	case c.minimum != nil && amount.cmp(c.minimum) < 0:
		return ReasonAmountBelowMinimum
	case c.maximum != nil && amount.cmp(c.maximum) > 0:
		return ReasonAmountAboveMaximum
	case c.schedule != nil && !c.schedule.open(now):
		return ReasonOutsideSchedule
	}
	return ""
}

func (m Money) cmp(limit *decimal.Big) int {
	return decimal.New(m.Minor, m.Currency.Exponent()).Cmp(limit)
}

// hostOf is the host that a payee address with a scheme, a user, a port or a
// path names: a block of deny.test that https://deny.test:443/x gets round is
// no block. What is allowed has to be named as it is.
func hostOf(payee string) string {
	_, host := payeeParts(payee)
	return host
}

// payeeScheme is what a URL begins with. A name with a dot before a colon is a
// host, for it may have an empty port.
var payeeScheme = regexp.MustCompile(`^(?i:https?:|[a-z][a-z0-9+-]*:[/\\])?[/\\]*`)

// payeeParts are the user with its @, which an address such as user@bank has
// and a URL has not, and the host.
func payeeParts(payee string) (user, host string) {
	if !strings.ContainsAny(payee, `:/\?#@`) {
		return "", strings.TrimRight(payee, ".")
	}
	scheme := len(payeeScheme.FindString(payee))
	host = payee[scheme:]
	if i := strings.IndexAny(host, `/\?#`); i >= 0 {
		host = host[:i]
	}
	at := strings.LastIndexByte(host, '@') + 1
	user, host = host[:at], host[at:]
	if scheme > 0 {
		user = ""
	}
	if i := strings.IndexByte(host, ':'); i >= 0 && strings.Trim(host[i:], ":.0123456789") == "" {
		host = host[:i]
	} else if i := strings.IndexByte(host, ']'); i >= 0 { // an IPv6 address
		host = host[:i+1]
	}
	return user, strings.TrimRight(host, ".")
}

// payeeKey is whom a payment counts for: however the host of a URL is spelled,
// it is one payee, and so is an address.
func payeeKey(payee string) string {
	user, host := payeeParts(strings.ToLower(payee))
	return user + host
}

// payeePatterns are exact names and, for "*.suffix", everything below a name
// (the name itself not included). They compare without regard to case:
// a block that a capital letter gets round is no block.
type payeePatterns struct {
	exact    map[string]struct{}
	suffixes []string // with the leading dot
}

func payeePatternsOf(param string, list []string) (payeePatterns, error) {
	p := payeePatterns{exact: make(map[string]struct{}, len(list))}
	for _, text := range list {
		suffix, wild := strings.CutPrefix(text, "*")
		name, err := ParsePayee(strings.TrimPrefix(suffix, "."))
		if err != nil || strings.Contains(suffix, "*") || (wild && !strings.HasPrefix(suffix, ".")) {
			return p, fmt.Errorf("%s: %s is neither a payee nor a pattern *.suffix", param, quoted(text))
		}
		name = strings.ToLower(name)
		if wild {
			p.suffixes = append(p.suffixes, "."+name)
		} else {
			p.exact[name] = struct{}{}
		}
	}
	return p, nil
}

func (p payeePatterns) match(payee string) bool {
	payee = strings.ToLower(payee)
	if _, ok := p.exact[payee]; ok {
		return true
	}
	return slices.ContainsFunc(p.suffixes, func(suffix string) bool {
		return len(payee) > len(suffix) && strings.HasSuffix(payee, suffix)
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
