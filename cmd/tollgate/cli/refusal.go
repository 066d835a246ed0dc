package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
)

// DecisionText is a perimeter's decision for people.
func DecisionText(d tollgate.PerimeterDecision) string {
	if d.Reason != "" {
		return fmt.Sprintf("%s (%s) by %s@%d", d.Decision, d.Reason, d.ID, d.Version)
	}
	return fmt.Sprintf("%s by %s@%d", d.Decision, d.ID, d.Version)
}

// Refusal is an answer of the server that is not 2xx.
type Refusal struct {
	problem.Problem
	Status     int
	retryAfter time.Duration
	body       jsontext.Value
	AsJSON     bool
}

// Retriable reports whether the same request may be answered differently. A
// rule that fails fails again.
func (r *Refusal) Retriable() bool {
	return r.Status >= 500 && r.Code != tollgate.CodeRuleFailed
}

// exit is the exit code of a refusal.
func (r *Refusal) exit() int {
	if r.Status >= 500 {
		return ExitUnavailable
	}
	return ExitRefused
}

// Error is for people, or with --json the server's own JSON.
func (r *Refusal) Error() string {
	if r.AsJSON && r.body.IsValid() {
		text := slices.Clone(r.body)
		if err := text.Indent(jsontext.WithIndent("  ")); err == nil {
			return string(text)
		}
	}
	var b strings.Builder
	if r.Code == "" {
		fmt.Fprintf(&b, "the server answered %d %s", r.Status, http.StatusText(r.Status))
	} else {
		fmt.Fprintf(&b, "%s\n", Printable(r.Message))
		t := Table{Indent: "  "}
		t.Row("code", string(r.Code))
		rule := ""
		if r.Rule != nil {
			rule = r.Rule.String()
		}
		for _, line := range [][2]string{{"param", r.Param}, {"rule", rule}, {"payment", r.PaymentID}, {"ticket", r.TicketID}} {
			if line[1] != "" {
				t.Row(line[0], line[1])
			}
		}
		if r.Perimeter != nil {
			t.Row("perimeter", DecisionText(*r.Perimeter))
		}
		if len(r.Errors) > 1 {
			for _, e := range r.Errors {
				t.Row(e.Param, string(e.Code)+": "+e.Message)
			}
		}
		if r.RequestID != "" {
			t.Row("request", r.RequestID)
		}
		b.WriteString(strings.TrimRight(t.String(), "\n"))
	}
	return b.String()
}
