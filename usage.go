package tollgate

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Usage is what is left of one of a perimeter's limits in the window that runs
// now (interface §11).
type Usage struct {
	MerchantAccountID *string   `json:"merchant_account_id"` // whose it is, of a limit per merchant_account
	Payee             *string   `json:"payee"`               // whose it is, of a limit per payee, if one was asked for
	Version           int64     `json:"version"`             // of the perimeter that sets the limit
	Window            string    `json:"window"`              // day or month
	TimeZone          string    `json:"time_zone"`
	Per               string    `json:"per"`      // merchant_account or payee
	Used              *string   `json:"used"`     // an amount, or a number of payments; null of a payee that was not named
	Limit             string    `json:"limit"`    // of a budget an amount, of a frequency a number of payments
	Currency          *Currency `json:"currency"` // of a budget
	ResetsAt          Instant   `json:"resets_at"`
}

// PerimeterAnswer is a perimeter as consoles and people look at it: one version
// of it, where it is in force, and what is left of its limits there.
type PerimeterAnswer struct {
	Object      string          `json:"object"` // "perimeter"
	ID          string          `json:"id"`
	CreatedAt   Instant         `json:"created_at"` // null: it is not kept
	Version     int64           `json:"version"`
	Semantics   *int64          `json:"semantics"` // null of a version that an earlier release stored
	Constraints jsontext.Value  `json:"constraints"`
	Versions    []int64         `json:"versions"`
	Accounts    []PerimeterUse  `json:"merchant_accounts"`
	Usage       []Listed[Usage] `json:"usage"`
}

// PerimeterUse is a merchant account and the version that decides there.
type PerimeterUse struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
}

// Meter is a usage whose Used is still to be read from its counters.
type Meter struct {
	Usage
	Counters []string

	currency Currency
}

// Meters lists the limits that hold for an account, with those per payee if
// perPayee says so; the zero Payee is none in particular.
func (p *Perimeter) Meters(account string, payee Payee, perPayee bool, now time.Time) (meters []Meter) {
	for _, l := range p.c.limits {
		if l.perPayee && !perPayee {
			continue
		}
		window, until := l.window(now)
		m := Meter{currency: l.currency, Usage: Usage{
			Version: p.Version, Window: "day", TimeZone: l.zone.String(), Per: "merchant_account", ResetsAt: At(until), Limit: l.print(l.most),
		}}
		if l.monthly {
			m.Window = "month"
		}
		if l.currency != "" {
			m.Currency = &l.currency
		}
		switch {
		case !l.perPayee:
			m.MerchantAccountID, m.Counters = &account, []string{l.counter(p.ID, window, account)}
		case payee == (Payee{}):
			m.Per = "payee"
		default:
			m.Per, m.Payee = "payee", &payee.text
			m.Counters = []string{l.counter(p.ID, window, payee.counted())}
			if earlier := payee.earlierCounted(); earlier != payee.counted() {
				m.Counters = append(m.Counters, l.counter(p.ID, window, earlier))
			}
		}
		meters = append(meters, m)
	}
	return meters
}

// Read is the usage that the values of the counters make. Of two, each has to
// have room for a payment, so the higher one says what is left.
func (m Meter) Read(values []int64) Usage {
	if len(values) > 0 {
		used := limit{currency: m.currency}.print(slices.Max(values))
		m.Used = &used
	}
	return m.Usage
}

// print is an amount of a budget, or a number of payments.
func (l limit) print(n int64) string {
	if l.currency == "" {
		return strconv.FormatInt(n, 10)
	}
	return Money{Minor: n, Currency: l.currency}.String()
}
