package tollgate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A perimeter's budgets and frequencies limit what is spent, and how often, in
// a window of time (interface §2). What has been consumed is counted where
// payments are committed; here is only which counters a payment has to do with.

type budgetForm struct {
	Window   string                    `json:"window"`
	TimeZone string                    `json:"time_zone"` // "": UTC
	Currency string                    `json:"currency"`
	Amount   string                    `json:"amount"`
	Per      string                    `json:"per"`
	Unknown  map[string]jsontext.Value `json:",embed"`
}

type frequencyForm struct {
	Window   string                    `json:"window"`
	TimeZone string                    `json:"time_zone"` // "": UTC
	Per      string                    `json:"per"`
	Count    int64                     `json:"count"`
	Unknown  map[string]jsontext.Value `json:",embed"`
}

// limit is a budget, or without a currency a frequency.
type limit struct {
	monthly  bool
	zone     *time.Location
	currency Currency
	most     int64 // minor units, or payments
	perPayee bool
	unknown  bool // it has members that this release does not know
}

// mostFrequent bounds a frequency's count.
const mostFrequent = 1_000_000_000

func (f budgetForm) compile() (l limit, err error) {
	if l, err = limitOf(f.Window, f.TimeZone, f.Per); err != nil {
		return l, err
	}
	if l.currency, err = ParseCurrency(f.Currency); err != nil {
		return l, err
	}
	most, err := ParseMoney(f.Amount, l.currency)
	l.most, l.unknown = most.Minor, len(f.Unknown) > 0
	return l, err
}

func (f frequencyForm) compile() (l limit, err error) {
	if l, err = limitOf(f.Window, f.TimeZone, f.Per); err != nil {
		return l, err
	}
	if l.most = f.Count; l.most < 1 || l.most > mostFrequent {
		err = fmt.Errorf("count: %d is not between 1 and %d", f.Count, mostFrequent)
	}
	l.unknown = len(f.Unknown) > 0
	return l, err
}

func limitOf(window, zone, per string) (l limit, err error) {
	switch window {
	case "day":
	case "month":
		l.monthly = true
	default:
		return l, fmt.Errorf("window: %s is neither day nor month", quoted(window))
	}
	switch per {
	case "merchant_account":
	case "payee":
		l.perPayee = true
	default:
		return l, fmt.Errorf("per: %s is neither merchant_account nor payee", quoted(per))
	}
	if zone == "" {
		zone = "UTC"
	}
	l.zone, err = LoadZone(zone)
	return l, err
}

// compileLimits prepares budgets and frequencies.
func (c *constraints) compileLimits() error {
	for i, f := range c.Budgets {
		l, err := f.compile()
		if err := c.limit(l, err); err != nil {
			return fmt.Errorf("budgets[%d]: %w", i, err)
		}
	}
	for i, f := range c.Frequency {
		l, err := f.compile()
		if err := c.limit(l, err); err != nil {
			return fmt.Errorf("frequency[%d]: %w", i, err)
		}
	}
	return nil
}

// limit adds one; two that count the same are refused, because it would be
// counted twice.
func (c *constraints) limit(l limit, err error) error {
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.limits, func(other limit) bool { return l.counts() == other.counts() }) {
		return errors.New("there is another with the same window, time zone and subject")
	}
	c.limits = append(c.limits, l)
	return nil
}

// counts is what a limit counts, without window and subject.
func (l limit) counts() string {
	kind, length, per := frequencyCounter, "day", "account"
	if l.currency != "" {
		kind = budgetCounter + ":" + string(l.currency)
	}
	if l.monthly {
		length = "month"
	}
	if l.perPayee {
		per = "payee"
	}
	return strings.Join([]string{kind, length, l.zone.String(), per}, "/")
}

// Reservation is what a payment would consume of one limit: Add of at most Most, both
// in minor units, or in payments, in the window that ends at Until. Counter
// stands for the window and whose it is; it is the same for all versions of a
// perimeter, so that a new one does not begin anew. It is 33 characters long,
// because the payment keeps it: its kind and 128 bits of a SHA-256, so that
// nobody can choose payees that share a counter.
type Reservation struct {
	Counter string
	Add     int64
	Most    int64
	Until   Instant
	Reason  Reason // of the denial when it is too much
	// Earlier is set for a counter in which an earlier release counted this
	// payee: it is consumed only where it exists, and so ends with its window.
	Earlier bool
}

// Reservations lists what a payment at a moment would consume, budgets first, in the
// order of the document; none for most perimeters. Behind a limit per payee
// follows what an earlier release counted it as, if that was another name.
func (p *Perimeter) Reservations(account string, amount Money, payee Payee, now time.Time) (reservations []Reservation) {
	for _, l := range p.c.limits {
		if l.currency != "" && l.currency != amount.Currency {
			continue
		}
		r := Reservation{Add: amount.Minor, Most: l.most, Reason: ReasonBudgetExhausted}
		if l.currency == "" {
			r.Add, r.Reason = 1, ReasonFrequencyExceeded
		}
		subject := account
		if l.perPayee { // by whichever of the perimeter's accounts
			subject = payee.counted()
		}
		window, until := l.window(now)
		r.Counter, r.Until = l.counter(p.ID, window, subject), At(until)
		reservations = append(reservations, r)
		if !l.perPayee {
			continue
		}
		if earlier := payee.earlierCounted(); earlier != subject {
			r.Counter, r.Earlier = l.counter(p.ID, window, earlier), true
			reservations = append(reservations, r)
		}
	}
	return reservations
}

// counter is the name of a limit's counter for one window and subject.
func (l limit) counter(perimeter, window, subject string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{l.counts(), perimeter, window, subject}, "/")))
	kind := budgetCounter
	if l.currency == "" {
		kind = frequencyCounter
	}
	return kind + hex.EncodeToString(sum[:16])
}

// What a counter's name begins with.
const (
	budgetCounter    = "b"
	frequencyCounter = "f"
)

// CountsMoney reports whether a counter is of a budget; others count payments.
func CountsMoney(counter string) bool { return strings.HasPrefix(counter, budgetCounter) }

// window names the local day or month that now is in, and says where it ends:
// in spring and autumn not 24 hours after it began, and where midnight is in a
// gap an hour more or less.
func (l limit) window(now time.Time) (name string, until time.Time) {
	y, m, d := now.In(l.zone).Date()
	if l.monthly {
		return fmt.Sprintf("%04d-%02d", y, m), time.Date(y, m+1, 1, 0, 0, 0, 0, l.zone)
	}
	return fmt.Sprintf("%04d-%02d-%02d", y, m, d), time.Date(y, m, d+1, 0, 0, 0, 0, l.zone)
}

// Exceeded is p's denial because of a limit that is used up.
func (p *Perimeter) Exceeded(r Reservation) PerimeterDecision {
	return PerimeterDecision{ID: p.ID, Version: p.Version, Decision: DecisionDeny, Reason: r.Reason}
}
