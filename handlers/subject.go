package handlers

import (
	"log/slog"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// subject is what a request was about, as far as its path and its answer say:
// with it the log finds a payment, and what became of it.
type subject struct {
	Payment string        `json:"payment_id"`
	Ticket  string        `json:"ticket_id"`
	Code    tollgate.Code `json:"code"`
}

// about is the subject of a request that gets this answer. An error is read as
// it leaves, so that one that an earlier request got says the same.
func (c *call) about(a *answer) subject {
	var is subject
	if a.status >= 400 {
		is = saidIn(a.body)
	}
	if id, ok := strings.CutPrefix(a.location, "/v1/payments/"); ok && is.Payment == "" {
		is.Payment = id
	}
	if id := c.params.ByName("payment_id"); is.Payment == "" && tollgate.ValidID(id) {
		is.Payment = id
	}
	if id := c.params.ByName("ticket_id"); is.Ticket == "" && tollgate.ValidID(id) {
		is.Ticket = id
	}
	// One ends as the other does.
	if id, ok := strings.CutPrefix(is.Payment, tollgate.PrefixPayment); ok && is.Ticket == "" {
		is.Ticket = tollgate.PrefixTicket + id
	}
	if id, ok := strings.CutPrefix(is.Ticket, tollgate.PrefixTicket); ok && is.Payment == "" {
		is.Payment = tollgate.PrefixPayment + id
	}
	return is
}

// saidIn is what an error names; what it does not say stays empty.
func saidIn(body []byte) (is subject) {
	_ = json.Unmarshal(body, &is) // ours
	return is
}

// attributes are the subject in a line of the log; what is empty is left out.
func (is subject) attributes() (list []slog.Attr) {
	for _, a := range []slog.Attr{slog.String("payment_id", is.Payment), slog.String("ticket_id", is.Ticket), slog.String("code", string(is.Code))} {
		if a.Value.String() != "" {
			list = append(list, a)
		}
	}
	return list
}
