package simulate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// ledger is everything that the service has, as its API shows it.
type ledger struct {
	payments     []payment
	transactions []transaction
	events       []event_
	payouts      []payout
	endpoints    []endpoint
	used         int64 // of the budget
}

// The objects of the API, as far as they are judged.
type (
	payment struct {
		ID         string  `json:"id"`
		Account    string  `json:"merchant_account_id"`
		Status     string  `json:"status"`
		Reference  string  `json:"reference"`
		Amount     decimal `json:"amount"`
		Capturable decimal `json:"amount_capturable"`
		Captured   decimal `json:"amount_captured"`
		Released   decimal `json:"amount_released"`
		Refunded   decimal `json:"amount_refunded"`
		Fees       decimal `json:"fee_total"`
		Reason     *string `json:"cancellation_reason"`
	}
	transaction struct {
		ID        string  `json:"id"`
		Type      string  `json:"type"`
		Status    string  `json:"status"`
		Payment   string  `json:"payment_id"`
		Capture   string  `json:"capture_id"`
		Refund    string  `json:"refund_id"`
		Payout    string  `json:"payout_id"`
		Account   string  `json:"merchant_account_id"`
		Amount    decimal `json:"amount"`
		Reference string  `json:"reference"`
		Day       string  `json:"batch_date"`
	}
	event_ struct {
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
		text string
	}
	payout struct {
		ID       string  `json:"id"`
		Account  string  `json:"merchant_account_id"`
		Status   string  `json:"status"`
		Amount   decimal `json:"amount"`
		Captured decimal `json:"amount_captured"`
		Refunded decimal `json:"amount_refunded"`
		Fees     decimal `json:"fee_total"`
	}
	endpoint struct {
		ID         string   `json:"id"`
		URL        string   `json:"url"`
		Types      []string `json:"event_types"`
		deliveries []delivery
	}
	delivery struct {
		ID    string `json:"id"`
		Event string `json:"event_id"`
		State string `json:"state"`
	}
)

// decimal is an amount in minor units.
type decimal int64

func (d *decimal) UnmarshalJSON(b []byte) error {
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
	*d = decimal(whole*100 + cents)
	return nil
}

func (d decimal) String() string { return money(int64(d)) }

// reader asks the service for everything.
type reader struct {
	*client
	fault error
	said  answer // that is the fault
}

func (r *reader) get(path string) []byte {
	said, known := r.send("GET", path, "", "")
	if (!known || said.status != http.StatusOK) && r.fault == nil {
		r.fault, r.said = fmt.Errorf("GET %s: %d %s", path, said.status, said.body), said
	}
	return said.body
}

// list reads a whole list and hands over each entry.
func (r *reader) list(path string, query url.Values, each func(json.RawMessage)) {
	query.Set("limit", "100")
	for r.fault == nil {
		var page struct {
			Data []json.RawMessage `json:"data"`
			More bool              `json:"has_more"`
			Next string            `json:"next_cursor"`
		}
		if err := json.Unmarshal(r.get(path+"?"+query.Encode()), &page); err != nil && r.fault == nil {
			r.fault = fmt.Errorf("%s: %w", path, err)
		}
		for _, entry := range page.Data {
			each(entry)
		}
		if !page.More {
			return
		}
		query.Set("cursor", page.Next)
	}
}

func entries[T any](r *reader, path string, query url.Values) (all []T) {
	r.list(path, query, func(text json.RawMessage) {
		var one T
		if err := json.Unmarshal(text, &one); err != nil && r.fault == nil {
			r.fault = fmt.Errorf("%s: %w in %s", path, err, text)
		}
		all = append(all, one)
	})
	return all
}

// ledger reads all of it.
func (r *reader) ledger() (l ledger, err error) {
	r.fault, r.said = nil, answer{}
	l.payments = entries[payment](r, "/v1/payments", url.Values{"order": {"asc"}})
	l.transactions = entries[transaction](r, "/v1/transactions", url.Values{"order": {"asc"}})
	l.payouts = entries[payout](r, "/v1/payouts", url.Values{"order": {"asc"}})
	l.endpoints = entries[endpoint](r, "/v1/webhooks", url.Values{})
	for i := range l.endpoints {
		l.endpoints[i].deliveries = entries[delivery](r, "/v1/webhooks/"+l.endpoints[i].ID+"/deliveries", url.Values{})
	}
	r.list("/v1/events", url.Values{}, func(text json.RawMessage) {
		e := event_{text: string(text)}
		if err := json.Unmarshal(text, &e); err != nil && r.fault == nil {
			r.fault = err
		}
		l.events = append(l.events, e)
	})
	var perimeter struct {
		Usage []struct {
			Used decimal `json:"used"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(r.get("/v1/perimeters/"+limited), &perimeter); err != nil || len(perimeter.Usage) != 1 {
		if r.fault == nil {
			r.fault = fmt.Errorf("the budget cannot be read: %v", err)
		}
		return l, r.fault
	}
	l.used = int64(perimeter.Usage[0].Used)
	return l, r.fault
}

// quiet says why not everything has come that has to come.
func (x *world) quiet(l ledger) string {
	for _, e := range l.endpoints {
		done := map[string]bool{}
		for _, d := range e.deliveries {
			if d.State != "succeeded" && d.State != "failed" {
				return fmt.Sprintf("delivery %s of %s is %s", d.ID, d.Event, d.State)
			}
			done[d.Event] = true
		}
		for _, event := range due(l.events, e) {
			if !done[event.ID] {
				return fmt.Sprintf("event %s (%s) has no delivery to %s", event.ID, event.Type, e.URL)
			}
		}
	}
	for _, p := range l.payouts {
		if p.Status == "pending" || p.Status == "in_transit" {
			return fmt.Sprintf("payout %s is %s", p.ID, p.Status)
		}
	}
	if has := len(x.tailed(l)); !x.plan.Untailed && has < len(l.events) {
		return fmt.Sprintf("who follows the events has %d of %d", has, len(l.events))
	}
	return ""
}

// tailed are the events that the one who follows the log has got. Where Redis went back
// it has read what is lost, too, and what is not twice.
func (x *world) tailed(l ledger) []string {
	x.judge.mu.Lock()
	defer x.judge.mu.Unlock()
	if _, ever := x.loss.back(); !ever {
		return x.judge.tailed
	}
	there := map[string]bool{}
	for _, e := range l.events {
		there[e.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(x.judge.tailed), func(id string) bool {
		is := there[id]
		there[id] = false
		return !is
	})
}

// settle waits until everything has come that has to come, and says what has not.
func (x *world) settle() (l ledger, err error) {
	r := &reader{client: &client{world: x, name: "reader"}}
	missing := ""
	for _, wait := range []time.Duration{20 * time.Second, 40 * time.Second, time.Minute, time.Minute, 3 * time.Minute, 5 * time.Minute} {
		pause(x.ctx, wait)
		if l, err = r.ledger(); err != nil && historyCode(r.said) != "" { // it begins anew
			missing = err.Error()
			continue
		} else if err != nil {
			return l, err
		}
		if missing = x.quiet(l); missing == "" {
			return l, nil
		}
	}
	return l, fmt.Errorf("after all was well again: %s", missing)
}

// follow reads the log of events as it grows.
func (x *world) follow() {
	c := &client{world: x, name: "follower"}
	query := url.Values{}
	for page := 0; x.ctx.Err() == nil; page++ {
		query.Set("limit", fmt.Sprint(1+x.wire.chance.of("page", page)%20))
		said, known := c.send("GET", "/v1/events?"+query.Encode(), "", "")
		var read struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			More bool   `json:"has_more"`
			Next string `json:"next_cursor"`
		}
		switch {
		case !known:
			continue
		case historyCode(said) != "": // it begins anew, and knows what it has read
			query.Del("cursor")
			continue
		case said.status != http.StatusOK || json.Unmarshal(said.body, &read) != nil:
			x.judge.wrong("who follows the events is answered %d %s", said.status, said.body)
			return
		}
		x.judge.mu.Lock()
		for _, e := range read.Data {
			x.judge.tailed = append(x.judge.tailed, e.ID)
		}
		x.judge.mu.Unlock()
		query.Set("cursor", read.Next)
		if !read.More {
			pause(x.ctx, 3*time.Second)
		}
	}
}
