package mcp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// problem is an error of the API (interface §7), as far as it is put into words.
type problem struct {
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	Param     string    `json:"param"`
	Rule      string    `json:"rule"`
	RequestID string    `json:"request_id"`
	PaymentID string    `json:"payment_id"`
	Status    string    `json:"payment_status"`
	Perimeter *decision `json:"perimeter"`
	Accounts  []string  `json:"merchant_account_ids"`
	Errors    []struct {
		Param   string `json:"param"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"errors"`
}

// unanswered is what to do when nobody knows what became of a call.
func (c *call) unanswered(err error) string {
	text := "store_unavailable: There is no answer from the service"
	if c.ctx.Err() == nil {
		text += " (" + cut(err.Error()) + ")"
	}
	if c.tool.writes {
		return text + ". It may have been carried out. Call again with the same arguments: with the same reference it is carried out once."
	}
	return text + ". Call again."
}

// refusal is an error of the API for an agent: what is wrong, what would be allowed,
// and what to do now.
func (c *call) refusal(r *reply) string {
	var p problem
	if err := json.Unmarshal(r.body, &p); err != nil || p.Code == "" {
		return fmt.Sprintf("internal: The service answered %d %s without saying why. Call again later with the same arguments.", r.status, http.StatusText(r.status))
	}
	b := &strings.Builder{}
	if p.Code == "idempotency_key_reused" { // agents know the reference, not the key
		p.Message, p.Param = "The reference was used before with other arguments. To repeat that call, send the arguments of then. To do something new, choose another reference.", ""
	}
	fmt.Fprintf(b, "%s: %s", p.Code, p.Message)
	if p.Param != "" {
		fmt.Fprintf(b, " (argument %s)", p.Param)
	}
	for _, e := range p.Errors[min(1, len(p.Errors)):] {
		fmt.Fprintf(b, " Also %s, argument %s: %s", e.Code, e.Param, e.Message)
	}
	if p.Rule != "" {
		fmt.Fprintf(b, " The rule is %s.", p.Rule)
	}
	if p.Perimeter != nil {
		fmt.Fprintf(b, " The decision is %s.", p.Perimeter)
		b.WriteString(c.wouldBeAllowed(*p.Perimeter, p.PaymentID))
	}
	if len(p.Accounts) > 0 {
		fmt.Fprintf(b, " Call again with merchant_account_id, one of %s.", strings.Join(p.Accounts, ", "))
	}
	switch {
	case p.Code == "scope_missing":
		b.WriteString(" Ask the operator for a grant with that scope; calling again does not help.")
	case r.status == http.StatusTooManyRequests, r.status == http.StatusServiceUnavailable && p.Code != "rule_failed":
		fmt.Fprintf(b, " Call again with the same arguments%s.", after(r.retryAfter))
	}
	if p.PaymentID != "" {
		fmt.Fprintf(b, " It is about payment %s.", p.PaymentID)
	}
	if p.RequestID != "" {
		fmt.Fprintf(b, " [%s]", p.RequestID)
	}
	return b.String()
}

func after(seconds string) string {
	if seconds == "" {
		return ""
	}
	return " in " + seconds + " s"
}

// has reports whether the token has a scope. What it has no scope for is not asked:
// the audit record would show a refusal of something that nobody wanted.
func (c *call) has(scope string) bool { return slices.Contains(c.caller.Scopes, scope) }
