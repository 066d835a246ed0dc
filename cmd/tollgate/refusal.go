package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// problem is the body of an error (interface §7) or of the token endpoint.
type problem struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
	Param     string `json:"param"`
	Errors    []struct {
		Param   string `json:"param"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"errors"`
	Rule      string     `json:"rule"`
	Perimeter *perimeter `json:"perimeter"`
	PaymentID string     `json:"payment_id"`
	TicketID  string     `json:"ticket_id"`
}

type perimeter struct {
	ID       string  `json:"id"`
	Version  int64   `json:"version"`
	Decision string  `json:"decision"`
	Reason   *string `json:"reason"`
}

func (p *perimeter) String() string {
	text := fmt.Sprintf("%s by %s@%d", p.Decision, p.ID, p.Version)
	if p.Reason != nil {
		text = fmt.Sprintf("%s (%s) by %s@%d", p.Decision, *p.Reason, p.ID, p.Version)
	}
	return text
}

// refusal is an answer of the server that is not 2xx.
type refusal struct {
	problem
	status     int
	retryAfter time.Duration
	body       jsontext.Value
	asJSON     bool
}

// retriable reports whether the same request may be answered differently. A
// rule that fails fails again.
func (r *refusal) retriable() bool {
	return r.status >= 500 && r.Code != "rule_failed"
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
		t.row("code", r.Code)
		for _, line := range [][2]string{{"param", r.Param}, {"rule", r.Rule}, {"payment", r.PaymentID}, {"ticket", r.TicketID}} {
			if line[1] != "" {
				t.row(line[0], line[1])
			}
		}
		if r.Perimeter != nil {
			t.row("perimeter", r.Perimeter.String())
		}
		if len(r.Errors) > 1 {
			for _, e := range r.Errors {
				t.row(e.Param, e.Code+": "+e.Message)
			}
		}
		if r.RequestID != "" {
			t.row("request", r.RequestID)
		}
		b.WriteString(strings.TrimRight(t.String(), "\n"))
	}
	return b.String()
}
