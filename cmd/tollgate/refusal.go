package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// decisionText is a perimeter's decision for people.
func decisionText(d tollgate.PerimeterDecision) string {
	if d.Reason != "" {
		return fmt.Sprintf("%s (%s) by %s@%d", d.Decision, d.Reason, d.ID, d.Version)
	}
	return fmt.Sprintf("%s by %s@%d", d.Decision, d.ID, d.Version)
}

// refusal is an answer of the server that is not 2xx.
type refusal struct {
	tollgate.Problem
	status     int
	retryAfter time.Duration
	body       jsontext.Value
	asJSON     bool
}

// retriable reports whether the same request may be answered differently. A
// rule that fails fails again.
func (r *refusal) retriable() bool {
	return r.status >= 500 && r.Code != tollgate.CodeRuleFailed
}

// exit is the exit code of a refusal.
func (r *refusal) exit() int {
	if r.status >= 500 {
		return exitUnavailable
	}
	return exitRefused
}

// Error is for people, or with --json the server's own JSON.
func (r *refusal) Error() string {
	if r.asJSON && r.body.IsValid() {
		text := slices.Clone(r.body)
		if err := text.Indent(jsontext.WithIndent("  ")); err == nil {
			return string(text)
		}
	}
	var b strings.Builder
	if r.Code == "" {
		fmt.Fprintf(&b, "the server answered %d %s", r.status, http.StatusText(r.status))
	} else {
		fmt.Fprintf(&b, "%s\n", printable(r.Message))
		t := table{indent: "  "}
		t.row("code", string(r.Code))
		rule := ""
		if r.Rule != nil {
			rule = r.Rule.String()
		}
		for _, line := range [][2]string{{"param", r.Param}, {"rule", rule}, {"payment", r.PaymentID}, {"ticket", r.TicketID}} {
			if line[1] != "" {
				t.row(line[0], line[1])
			}
		}
		if r.Perimeter != nil {
			t.row("perimeter", decisionText(*r.Perimeter))
		}
		if len(r.Errors) > 1 {
			for _, e := range r.Errors {
				t.row(e.Param, string(e.Code)+": "+e.Message)
			}
		}
		if r.RequestID != "" {
			t.row("request", r.RequestID)
		}
		b.WriteString(strings.TrimRight(t.String(), "\n"))
	}
	return b.String()
}
