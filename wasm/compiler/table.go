package compiler

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"tollgate"
	"tollgate/wasm/abi"
)

// Table is a pricing rule written as numbers. Build compiles it.
//
//	label = "Card fee"            # of the fee line; 1–64 bytes, printable
//	otherwise = "refuse"          # currencies without a fee; or "free"
//
//	[[fee]]                       # one per set of currencies
//	currencies = ["EUR", "USD"]   # absent: every currency without a fee of its own
//	percentage = "1.40"           # of the amount; 0–100, up to 4 places
//	fixed      = "0.25"           # added to it
//	minimum    = "0.30"           # then the fee is at least this
//	maximum    = "50.00"          # and at most this
//
//	[[fee]]
//	currencies = ["CHF"]
//	tiers = [                     # the whole amount is charged by the first tier
//	  { up_to = "100.00", percentage = "1.40", fixed = "0.30" },  # that reaches it;
//	  { percentage = "1.20", fixed = "0.30" },                    # up_to is inclusive
//	]
//
//	[[refuse]]                    # looked at before the fees
//	currencies = ["KPW"]          # or except = ["EUR"]: all but these
//	code       = "currency_blocked"
//	message    = "Payments in this currency are not accepted."
//
//	[[payee]]                     # looked at first
//	name = "refuse.test"          # the whole payee, upper and lower case alike
//	then = "refuse"               # with code and message; or "trap", or "loop"
//
// A rule charges for refunds only when it says so. They are charged as payments
// are, or from a table of their own, with the keys of this one but refunds:
//
//	refunds = true
//
//	[refund]
//	label = "Refund fee"          # of the fee line; absent: that of payments
//
//	[[refund.fee]]                # and [[refund.refuse]], [[refund.payee]]
//	currencies = ["EUR"]
//	fixed      = "0.25"
//
// A currency without a fee is refused, as currency_not_priced, or free: what
// otherwise says. A table that does not say cannot be activated for an account
// that takes such a currency; where it is in force, the currency gets no line. A
// fee of zero is no line either.
// The fee is amount × percentage, rounded half to even to the minor unit, plus
// fixed, then not below minimum, then not above maximum. It is exact for every
// amount. Amounts of money are decimal strings of each of the currencies that
// they stand for; a fee without currencies therefore has a percentage only.
type Table struct {
	Label     string        `toml:"label"`
	Refunds   bool          `toml:"refunds"`
	Refund    *Table        `toml:"refund"` // nil: refunds are charged as payments are
	Otherwise string        `toml:"otherwise"`
	Fees      []TableFee    `toml:"fee"`
	Refuses   []TableRefuse `toml:"refuse"`
	Payees    []TablePayee  `toml:"payee"`
}

// TableFee is what some currencies are charged: Tiers or one TableRate.
type TableFee struct {
	Currencies []tollgate.Currency `toml:"currencies"`
	TableRate
	Tiers   []TableRate `toml:"tiers"`
	Minimum string      `toml:"minimum"`
	Maximum string      `toml:"maximum"`
}

// TableRate is a percentage and a fixed amount, for amounts up to UpTo when it
// is a tier that is not the last.
type TableRate struct {
	UpTo       string `toml:"up_to"`
	Percentage string `toml:"percentage"`
	Fixed      string `toml:"fixed"`
}

// TableRefuse refuses currencies: those listed, or all except those listed.
type TableRefuse struct {
	Currencies []tollgate.Currency `toml:"currencies"`
	Except     []tollgate.Currency `toml:"except"`
	Code       string              `toml:"code"`
	Message    string              `toml:"message"`
}

// TablePayee makes one payee fail: "refuse" (with Code and Message), "trap" or
// "loop", an endless one that fuel must end. It is for sandboxes.
type TablePayee struct {
	Name    string `toml:"name"`
	Then    string `toml:"then"`
	Code    string `toml:"code"`
	Message string `toml:"message"`
}

const (
	maxTableSource = 64 << 10
	maxFees        = 64
	maxTiers       = 16
	maxRefuses     = 16
	maxPayees      = 16
)

// Build compiles a table in TOML to a module of ABI tollgate:rule/1 with the
// manifest in it. It is strict: an unknown key, a number that is not a string,
// an amount with more places than its currency has, and a currency that two
// fees name are errors. The same table gives the same bytes.
func Build(source []byte) (binary []byte, t Table, err error) {
	if t, err = parseTable(source); err != nil {
		return nil, Table{}, fmt.Errorf("table: %w", err)
	}
	p, err := t.plan()
	if err != nil {
		return nil, Table{}, fmt.Errorf("table: %w", err)
	}
	if binary, err = p.compile(); err != nil {
		return nil, Table{}, fmt.Errorf("table: %w", err)
	}
	if _, err := abi.Parse(binary); err != nil {
		return nil, Table{}, fmt.Errorf("table: the module breaks a limit: %w", err)
	}
	return binary, t, nil
}

func parseTable(source []byte) (t Table, err error) {
	if len(source) > maxTableSource {
		return t, fmt.Errorf("%d bytes, at most %d are allowed", len(source), maxTableSource)
	}
	found, err := toml.Decode(string(source), &t)
	if err != nil {
		return t, err
	}
	if unknown := found.Undecoded(); len(unknown) > 0 {
		return t, &unknownKey{key: unknown[0].String()}
	}
	for _, key := range found.Keys() { // the decoder takes Label for label
		if s := key.String(); s != strings.ToLower(s) {
			return t, &unknownKey{key: s}
		}
	}
	return t, t.check()
}

func (t *Table) check() error {
	if err := (abi.Manifest{ABI: abi.ABI, Label: t.Label}).Check(); err != nil {
		return err
	}
	if t.Refund == nil {
		return t.checkFees()
	}
	refund := *t.Refund
	switch {
	case !t.Refunds:
		return errors.New("it has a table [refund], and does not say refunds = true")
	case refund.Refunds || refund.Refund != nil:
		return errors.New("refunds and [refund] do not stand in [refund]")
	case refund.Label == "":
		refund.Label = t.Label
	}
	if err := refund.check(); err != nil {
		return &place{"refund", 0, err}
	}
	return t.checkFees()
}

func (t *Table) checkFees() error {
	for _, n := range []struct {
		what       string
		has, limit int
	}{
		{"fee", len(t.Fees), maxFees},
		{"refuse", len(t.Refuses), maxRefuses},
		{"payee", len(t.Payees), maxPayees},
	} {
		if n.has > n.limit {
			return fmt.Errorf("%d [[%s]], at most %d are allowed", n.has, n.what, n.limit)
		}
	}
	if t.Otherwise != "" && t.Otherwise != abi.OtherwiseRefuse && t.Otherwise != abi.OtherwiseFree {
		return fmt.Errorf("otherwise is %.20q, not refuse or free", t.Otherwise)
	}
	if len(t.Fees)+len(t.Refuses)+len(t.Payees) == 0 && t.Refund == nil {
		return errors.New("it has no [[fee]], [[refuse]] or [[payee]]")
	}
	return nil
}

// ForRefunds is the table that refunds are charged by: one without a fee when the
// rule takes no part in them.
func (t *Table) ForRefunds() *Table {
	switch {
	case !t.Refunds:
		return &Table{Label: t.Label}
	case t.Refund == nil:
		return t
	}
	return t.Refund
}
