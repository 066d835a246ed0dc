package mcp

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// said is what of an answer is put into words.
type said struct {
	ID         string           `json:"id"`
	Status     string           `json:"status"`
	Amount     string           `json:"amount"`
	Currency   string           `json:"currency"`
	Payee      string           `json:"payee"`
	PaymentID  string           `json:"payment_id"`
	TicketID   string           `json:"ticket_id"`
	Captured   string           `json:"amount_captured"`
	Capturable string           `json:"amount_capturable"`
	Refundable string           `json:"amount_refundable"`
	Total      string           `json:"total"`
	Lines      []line           `json:"lines"`
	Perimeter  decision         `json:"perimeter"`
	Data       []jsontext.Value `json:"data"`
	HasMore    bool             `json:"has_more"`
	NextCursor *string          `json:"next_cursor"`
	Payment    *said            `json:"payment"`
}

type line struct {
	Label  string `json:"label"`
	Amount string `json:"amount"`
	Rule   string `json:"rule"`
}

// decision is a perimeter's, of an answer or a problem.
type decision struct {
	ID       string `json:"id"`
	Version  int64  `json:"version"`
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

func (d decision) String() string {
	text := fmt.Sprintf("%s by %s@%d", d.Decision, d.ID, d.Version)
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return text
}

// fees are the lines of a quote or a ticket.
func (s *said) fees() string {
	if len(s.Lines) == 0 {
		return "There are no fees."
	}
	list := make([]string, len(s.Lines))
	for i, l := range s.Lines {
		list[i] = fmt.Sprintf("%s %s %s (%s)", l.Label, l.Amount, s.Currency, l.Rule)
	}
	return "Fees: " + strings.Join(list, ", ") + "."
}

func sayQuote(s *said, a arguments) string {
	return fmt.Sprintf("A quote for %s %s to %s; nothing was submitted. %s Together: %s %s. The perimeter's decision would be %s.",
		a.text("amount"), s.Currency, a.text("payee"), s.fees(), s.Total, s.Currency, s.Perimeter)
}

func sayPayment(s *said, _ arguments) string {
	text := fmt.Sprintf("Payment %s is %s: %s %s to %s. Captured: %s. Capturable: %s. Refundable: %s.",
		s.ID, s.Status, s.Amount, s.Currency, s.Payee, s.Captured, s.Capturable, s.Refundable)
	switch s.Status {
	case "authorized":
		text += " Take the money with capture, or release it with cancel."
	case "requires_review":
		text += " A person has to review it. Read it again later with get_payment."
	}
	return text
}

func sayCapture(s *said, a arguments) string {
	return fmt.Sprintf("Captured %s %s of payment %s as %s. ", s.Amount, s.Currency, s.PaymentID, s.ID) + s.after(a)
}

func sayRefund(s *said, a arguments) string {
	return fmt.Sprintf("Refunded %s %s of payment %s as %s. ", s.Amount, s.Currency, s.PaymentID, s.ID) + s.after(a)
}

// after is the payment after a change of it.
func (s *said) after(a arguments) string {
	if s.Payment == nil {
		return ""
	}
	return sayPayment(s.Payment, a)
}

func sayTicket(s *said, _ arguments) string {
	return fmt.Sprintf("Ticket %s of payment %s. %s The perimeter's decision was %s.", s.ID, s.PaymentID, s.fees(), s.Perimeter)
}

func sayList(noun string) func(*said, arguments) string {
	return func(s *said, _ arguments) string {
		text := fmt.Sprintf("%d %ss.", len(s.Data), noun)
		if len(s.Data) == 1 {
			text = "1 " + noun + "."
		}
		switch {
		case s.HasMore:
			text += " There are more: call again with the cursor in next_cursor."
		case s.NextCursor != nil:
			text += " That is all for now. next_cursor goes on from here later."
		}
		return text
	}
}
