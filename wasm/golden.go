package wasm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
)

const maxGoldenCases = 2000

// GoldenKind is what a case prices: a payment, which is left out, or a refund.
type GoldenKind string

// GoldenRefund is the kind of a refund's case.
const GoldenRefund GoldenKind = "refund"

// UnmarshalText reads "payment", which becomes "", or "refund".
func (k *GoldenKind) UnmarshalText(text []byte) error {
	switch *k = GoldenKind(text); *k {
	case "payment":
		*k = ""
	case GoldenRefund:
	default:
		return fmt.Errorf("kind is %.20q, not payment or refund", text)
	}
	return nil
}

// ParseGolden reads golden cases: a JSON array of at least one of them.
func ParseGolden(text []byte) ([]GoldenCase, error) {
	var cases []GoldenCase
	if err := json.Unmarshal(text, &cases, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("golden cases: %w", err)
	}
	return cases, checkGolden(cases)
}

func checkGolden(cases []GoldenCase) error {
	if len(cases) == 0 || len(cases) > maxGoldenCases {
		return fmt.Errorf("%d golden cases, 1 to %d are needed", len(cases), maxGoldenCases)
	}
	for i, c := range cases {
		if err := c.check(); err != nil {
			return fmt.Errorf("golden case %d: %w", i+1, err)
		}
	}
	return nil
}

func (c *GoldenCase) check() error {
	if _, err := c.Input(); err != nil {
		return err
	}
	outcomes := 0
	for _, is := range []bool{len(c.Lines) > 0, c.Refused != "", c.Failed} {
		if is {
			outcomes++
		}
	}
	if outcomes > 1 {
		return fmt.Errorf("only one of lines, refused and failed can happen")
	}
	for _, l := range c.Lines {
		if _, err := tollgate.ParseMoney(l.Amount, c.Currency); err != nil {
			return fmt.Errorf("line %s: %w", l.Amount, err)
		}
	}
	return nil
}

// Input is what the case prices.
func (c *GoldenCase) Input() (tollgate.PricingInput, error) {
	if _, err := tollgate.ParseCurrency(string(c.Currency)); err != nil {
		return tollgate.PricingInput{}, err
	}
	amount, err := tollgate.ParseMoney(c.Amount, c.Currency)
	if err != nil {
		return tollgate.PricingInput{}, fmt.Errorf("amount %q: %w", c.Amount, err)
	}
	in := tollgate.PricingInput{Amount: amount, Payee: c.Payee, Refund: c.Kind == GoldenRefund}
	_, err = checkInput(&in)
	return in, err
}

// Name is the case's input for people.
func (c *GoldenCase) Name() string {
	name := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Amount, c.Currency, c.Payee))
	if c.Kind == GoldenRefund {
		name = "refund of " + name
	}
	return name
}

// holds compares an outcome with the case's and says what differs, nothing
// when they agree.
func (c *GoldenCase) holds(o *Outcome) error {
	got := GoldenCase{}.With(o)
	if got.Refused == c.Refused && got.Failed == c.Failed && slices.Equal(got.Lines, c.Lines) {
		return nil
	}
	text := got.Outcome()
	if o.Failed != nil {
		text += fmt.Sprintf(" (%v)", firstLine(o.Failed.Error()))
	}
	return fmt.Errorf("%s, want %s", text, c.Outcome())
}

// With is the case with another outcome.
func (c GoldenCase) With(o *Outcome) GoldenCase {
	c.Refused, c.Failed, c.Lines = o.Refused, o.Failed != nil, nil
	for _, l := range o.Lines {
		c.Lines = append(c.Lines, GoldenLine{Label: l.Label, Amount: l.Amount.String()})
	}
	return c
}

// firstLine cuts the stack trace that wazero adds to a trap.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Outcome is the case's outcome for people.
func (c *GoldenCase) Outcome() string {
	switch {
	case c.Failed:
		return "a failure"
	case c.Refused != "":
		return fmt.Sprintf("the refusal %q", c.Refused)
	case len(c.Lines) == 0:
		return "no line"
	}
	parts := make([]string, len(c.Lines))
	for i, l := range c.Lines {
		parts[i] = l.Amount + " (" + l.Label + ")"
	}
	return strings.Join(parts, " + ")
}
