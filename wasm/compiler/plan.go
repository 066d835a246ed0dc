package compiler

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/wasm/abi"
)

// plan is a checked table in minor units.
type plan struct {
	label   string
	payees  []payeePlan
	refuses []refusePlan
	rows    []row
	rest    *row // for currencies in no row
	// Where there is no rest: how currencies in no row are refused, if they are,
	// and what is free on purpose.
	refuseRest *abi.Refusal
	free       abi.Free

	refunds bool  // whether the rule takes part in refunds
	refund  *plan // of refunds; nil: they are charged as payments are
}

// The refusals of currencies in no row.
var (
	paymentNotPriced = abi.Refusal{Code: "currency_not_priced", Message: "Payments in this currency are not priced."}
	refundNotPriced  = abi.Refusal{Code: "currency_not_priced", Message: "Refunds in this currency are not priced."}
)

// row is what currencies with equal numbers are charged.
type row struct {
	currencies       []tollgate.Currency
	tiers            []tier
	minimum, maximum int64 // maximum unlimited when there is none
}

// tier charges amounts up to upTo, which is unlimited in the last one.
type tier struct{ upTo, rate, fixed int64 }

const unlimited = math.MaxInt64

type refusePlan struct {
	currencies []tollgate.Currency
	except     bool
	abi.Refusal
}

type payeePlan struct {
	name, then string
	abi.Refusal
}

// rateUnit: a rate is in millionths of the amount, so that a percentage with
// four places is a whole number.
const rateUnit = 1_000_000

func (t *Table) plan() (*plan, error) {
	p := &plan{label: t.Label}
	for i := range t.Payees {
		pp, err := t.Payees[i].plan()
		if err != nil {
			return nil, &place{"payee", i + 1, err}
		}
		p.payees = append(p.payees, pp)
	}
	for i := range t.Refuses {
		rp, err := t.Refuses[i].plan()
		if err != nil {
			return nil, &place{"refuse", i + 1, err}
		}
		p.refuses = append(p.refuses, rp)
	}
	seen := map[tollgate.Currency]bool{}
	for i := range t.Fees {
		if err := p.fee(&t.Fees[i], seen); err != nil {
			return nil, &place{"fee", i + 1, err}
		}
	}
	if t.Otherwise != "" && p.rest != nil {
		return nil, errors.New("otherwise stands beside a fee without currencies, which charges all others")
	}
	if t.Otherwise == abi.OtherwiseRefuse {
		p.refuseRest = &paymentNotPriced
	}
	p.refunds = t.Refunds
	if t.Refund != nil {
		var err error
		if p.refund, err = t.Refund.plan(); err != nil {
			return nil, &place{"refund", 0, err}
		}
		if p.refund.refuseRest != nil {
			p.refund.refuseRest = &refundNotPriced
		}
	}
	// Only what the module's lines and refusals do not show is said in it, so
	// that a table without either has the bytes that it always had.
	if t.Otherwise == abi.OtherwiseFree {
		p.free.Otherwise = abi.OtherwiseFree
	}
	for _, r := range p.rows {
		if r.nothing() {
			p.free.Currencies = append(p.free.Currencies, r.currencies...)
		}
	}
	slices.Sort(p.free.Currencies)
	return p, nil
}

// nothing reports whether a row charges nothing, whatever the amount is.
func (r *row) nothing() bool {
	charges := slices.ContainsFunc(r.tiers, func(t tier) bool { return t.rate > 0 || t.fixed > 0 })
	return r.maximum == 0 || (r.minimum == 0 && !charges)
}

// fee adds the rows of one [[fee]]: a row for each set of its currencies whose
// numbers are the same in minor units.
func (p *plan) fee(f *TableFee, seen map[tollgate.Currency]bool) error {
	if len(f.Currencies) == 0 {
		if p.rest != nil {
			return errors.New("a second fee without currencies")
		}
		rest, err := f.row("")
		p.rest = &rest
		return err
	}
	first := len(p.rows)
	for _, c := range f.Currencies {
		if _, err := tollgate.ParseCurrency(string(c)); err != nil {
			return err
		}
		if seen[c] {
			return fmt.Errorf("%s has a fee already", c)
		}
		seen[c] = true
		r, err := f.row(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		same := slices.IndexFunc(p.rows[first:], r.equal)
		if same >= 0 {
			p.rows[first+same].currencies = append(p.rows[first+same].currencies, c)
			continue
		}
		r.currencies = []tollgate.Currency{c}
		p.rows = append(p.rows, r)
	}
	return nil
}

func (r *row) equal(o row) bool {
	return r.minimum == o.minimum && r.maximum == o.maximum && slices.Equal(r.tiers, o.tiers)
}

// row is the fee in minor units of c; "" stands for any currency.
func (f *TableFee) row(c tollgate.Currency) (row, error) {
	r := row{maximum: unlimited}
	rates := f.Tiers
	if len(rates) == 0 {
		rates = []TableRate{f.TableRate}
		if f.Percentage == "" && f.Fixed == "" && f.Minimum == "" {
			return r, errors.New("it charges nothing: percentage, fixed or minimum is needed")
		}
		if f.UpTo != "" {
			return r, errors.New("up_to stands in tiers only")
		}
	} else if f.TableRate != (TableRate{}) {
		return r, errors.New("percentage and fixed stand in the tiers when there are tiers")
	}
	if len(rates) > maxTiers {
		return r, fmt.Errorf("%d tiers, at most %d are allowed", len(rates), maxTiers)
	}
	for i, rate := range rates {
		t, err := rate.tier(c, i == len(rates)-1)
		if err != nil {
			return r, err
		}
		if i > 0 && t.upTo <= r.tiers[i-1].upTo {
			return r, fmt.Errorf("up_to %s is not above the tier before", rate.UpTo)
		}
		r.tiers = append(r.tiers, t)
	}
	if err := minor(&r.minimum, "minimum", f.Minimum, c); err != nil {
		return r, err
	}
	if err := minor(&r.maximum, "maximum", f.Maximum, c); err != nil {
		return r, err
	}
	if r.minimum > r.maximum {
		return r, fmt.Errorf("minimum %s is above maximum %s", f.Minimum, f.Maximum)
	}
	return r, nil
}

func (t TableRate) tier(c tollgate.Currency, last bool) (tier, error) {
	out := tier{upTo: unlimited}
	if last != (t.UpTo == "") {
		return out, errors.New("every tier but the last has up_to")
	}
	if err := minor(&out.upTo, "up_to", t.UpTo, c); err != nil {
		return out, err
	}
	if err := minor(&out.fixed, "fixed", t.Fixed, c); err != nil {
		return out, err
	}
	var err error
	out.rate, err = parsePercentage(t.Percentage)
	return out, err
}

// minor sets n to an amount in minor units; an absent one leaves it alone.
func minor(n *int64, what, s string, c tollgate.Currency) error {
	if s == "" {
		return nil
	}
	if c == "" {
		return fmt.Errorf("%s is an amount of money, which a fee without currencies cannot have", what)
	}
	m, err := tollgate.ParseMoney(s, c)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	*n = m.Minor
	return nil
}

var percentageForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.[0-9]{1,4})?$`)

// parsePercentage reads "1.40" as 14000 millionths. Absent is zero.
func parsePercentage(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	if !percentageForm.MatchString(s) {
		return 0, fmt.Errorf(`percentage %.20q is not of the form "1.40", 0 to 100 with up to 4 places`, s)
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(fraction + "0000")[:4], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("percentage: %w", err)
	}
	if n > rateUnit {
		return 0, fmt.Errorf("percentage %s is above 100", s)
	}
	return n, nil
}

func (t *TableRefuse) plan() (refusePlan, error) {
	p := refusePlan{currencies: t.Currencies, Refusal: abi.Refusal{Code: t.Code, Message: t.Message}}
	if (len(t.Currencies) == 0) == (len(t.Except) == 0) {
		return p, errors.New("either currencies or except is needed")
	}
	if len(t.Except) > 0 {
		p.currencies, p.except = t.Except, true
	}
	for i, c := range p.currencies {
		if _, err := tollgate.ParseCurrency(string(c)); err != nil {
			return p, err
		}
		if slices.Contains(p.currencies[:i], c) {
			return p, fmt.Errorf("%s stands twice", c)
		}
	}
	return p, p.Check()
}

func (t *TablePayee) plan() (payeePlan, error) {
	p := payeePlan{t.Name, t.Then, abi.Refusal{Code: t.Code, Message: t.Message}}
	if len(t.Name) == 0 || len(t.Name) > abi.MaxPayee || strings.ToLower(t.Name) != t.Name ||
		strings.IndexFunc(t.Name, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return p, errors.New("name is 1 to 255 printable ASCII characters in lower case, without spaces")
	}
	switch t.Then {
	case "refuse":
		return p, p.Check()
	case "trap", "loop":
		if t.Code != "" || t.Message != "" {
			return p, errors.New("code and message belong to refuse")
		}
		return p, nil
	}
	return p, fmt.Errorf("then is %.20q, not refuse, trap or loop", t.Then)
}
