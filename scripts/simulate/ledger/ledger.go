// Package ledger is everything that the service has, read through its API, and what must
// hold of it whatever has gone wrong before. It shares no code with the product.
package ledger

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// Ledger is everything that the service has.
type Ledger struct {
	Payments     []Payment
	Transactions []Transaction
	Events       []Event
	Payouts      []Payout
	Endpoints    []Endpoint
	Used         int64 // of the budget
}

// The objects of the API, as far as they are judged.
type (
	Payment struct {
		ID         string  `json:"id"`
		Account    string  `json:"merchant_account_id"`
		Status     string  `json:"status"`
		Reference  string  `json:"reference"`
		Amount     Decimal `json:"amount"`
		Capturable Decimal `json:"amount_capturable"`
		Captured   Decimal `json:"amount_captured"`
		Released   Decimal `json:"amount_released"`
		Refunded   Decimal `json:"amount_refunded"`
		Fees       Decimal `json:"fee_total"`
		Reason     *string `json:"cancellation_reason"`
	}
	Transaction struct {
		ID        string  `json:"id"`
		Type      string  `json:"type"`
		Status    string  `json:"status"`
		Payment   string  `json:"payment_id"`
		Capture   string  `json:"capture_id"`
		Refund    string  `json:"refund_id"`
		Payout    string  `json:"payout_id"`
		Account   string  `json:"merchant_account_id"`
		Amount    Decimal `json:"amount"`
		Reference string  `json:"reference"`
		Day       string  `json:"batch_date"`
	}
	Event struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Sequence int64  `json:"sequence"`
		Data     struct {
			Payment string `json:"payment_id"`
			Capture string `json:"capture_id"`
			Refund  string `json:"refund_id"`
			Payout  string `json:"payout_id"`
			Webhook string `json:"webhook_id"`
		} `json:"data"`
		Text string `json:"-"`
	}
	Payout struct {
		ID       string  `json:"id"`
		Account  string  `json:"merchant_account_id"`
		Status   string  `json:"status"`
		Amount   Decimal `json:"amount"`
		Captured Decimal `json:"amount_captured"`
		Refunded Decimal `json:"amount_refunded"`
		Fees     Decimal `json:"fee_total"`
	}
	Endpoint struct {
		ID         string     `json:"id"`
		URL        string     `json:"url"`
		Types      []string   `json:"event_types"`
		Deliveries []Delivery `json:"-"`
	}
	Delivery struct {
		ID    string `json:"id"`
		Event string `json:"event_id"`
		State string `json:"state"`
	}
)

// Decimal is an amount in minor units.
type Decimal int64

func (d *Decimal) UnmarshalJSON(b []byte) error {
	var text string
	if string(b) == "null" {
		return nil
	}
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	var whole, cents int64
	if n, err := fmt.Sscanf(text, "%d.%02d", &whole, &cents); err != nil || n != 2 {
		return fmt.Errorf("amount %q", text)
	}
	*d = Decimal(whole*100 + cents)
	return nil
}

func (d Decimal) String() string { return Money(int64(d)) }

// Money is an amount in minor units as the API has it.
func Money(minor int64) string { return fmt.Sprintf("%d.%02d", minor/100, minor%100) }

// reader asks the service for everything, until something cannot be read.
type reader struct {
	get   func(path string) ([]byte, error)
	fault error
}

// list reads a whole list and hands over each entry.
func (r *reader) list(path string, query url.Values, each func(json.RawMessage) error) {
	query.Set("limit", "100")
	for r.fault == nil {
		var page struct {
			Data []json.RawMessage `json:"data"`
			More bool              `json:"has_more"`
			Next string            `json:"next_cursor"`
		}
		r.into(path+"?"+query.Encode(), &page)
		for _, entry := range page.Data {
			if err := each(entry); err != nil && r.fault == nil {
				r.fault = fmt.Errorf("%s: %w in %s", path, err, entry)
			}
		}
		if !page.More {
			return
		}
		query.Set("cursor", page.Next)
	}
}

func (r *reader) into(path string, v any) {
	text, err := r.get(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil && r.fault == nil {
		r.fault = fmt.Errorf("%s: %w", path, err)
	}
}

func entries[T any](r *reader, path string, query url.Values) (all []T) {
	r.list(path, query, func(text json.RawMessage) error {
		var one T
		err := json.Unmarshal(text, &one)
		all = append(all, one)
		return err
	})
	return all
}

// Read reads all of it; perimeter is the one with the budget. get answers with the body
// of a 200, or with an error.
func Read(get func(path string) ([]byte, error), perimeter string) (l Ledger, err error) {
	r := &reader{get: get}
	l.Payments = entries[Payment](r, "/v1/payments", url.Values{"order": {"asc"}})
	l.Transactions = entries[Transaction](r, "/v1/transactions", url.Values{"order": {"asc"}})
	l.Payouts = entries[Payout](r, "/v1/payouts", url.Values{"order": {"asc"}})
	l.Endpoints = entries[Endpoint](r, "/v1/webhooks", url.Values{})
	for i := range l.Endpoints {
		l.Endpoints[i].Deliveries = entries[Delivery](r, "/v1/webhooks/"+l.Endpoints[i].ID+"/deliveries", url.Values{})
	}
	r.list("/v1/events", url.Values{}, func(text json.RawMessage) error {
		e := Event{Text: string(text)}
		err := json.Unmarshal(text, &e)
		l.Events = append(l.Events, e)
		return err
	})
	var limits struct {
		Usage []struct {
			Used Decimal `json:"used"`
		} `json:"usage"`
	}
	if r.into("/v1/perimeters/"+perimeter, &limits); r.fault == nil && len(limits.Usage) != 1 {
		r.fault = fmt.Errorf("the budget of %s is in %d rows", perimeter, len(limits.Usage))
	}
	if r.fault == nil {
		l.Used = int64(limits.Usage[0].Used)
	}
	return l, r.fault
}

// Missing says why not everything has come that has to come.
func (l *Ledger) Missing() string {
	for _, e := range l.Endpoints {
		done := map[string]bool{}
		for _, d := range e.Deliveries {
			if d.State != "succeeded" && d.State != "failed" {
				return fmt.Sprintf("delivery %s of %s is %s", d.ID, d.Event, d.State)
			}
			done[d.Event] = true
		}
		for _, event := range due(l.Events, e) {
			if !done[event.ID] {
				return fmt.Sprintf("event %s (%s) has no delivery to %s", event.ID, event.Type, e.URL)
			}
		}
	}
	for _, p := range l.Payouts {
		if p.Status == "pending" || p.Status == "in_transit" {
			return fmt.Sprintf("payout %s is %s", p.ID, p.Status)
		}
	}
	return ""
}
