package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
)

// eventsKept is how long the service keeps events at least (interface §8).
const eventsKept = 30 * 24 * time.Hour

// binding is what a ticket is compared with beside its own rules.
type binding struct {
	records *paymentRecords // nil: nothing
	why     string          // nothing
}

// records fetches what the service keeps of a ticket's payment. Who may not
// read one kind of it compares the ticket with the others; which one is in
// missing.
func records(ctx context.Context, c *cli.Client, t *tollgate.Ticket) (r *paymentRecords, missing []string, err error) {
	body, err := c.Get(ctx, client.PaymentPath(t.PaymentID, ""), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("payment %s: %w", cli.Printable(t.PaymentID), err)
	}
	r = new(paymentRecords)
	if err := cli.Parse(body, &r.Payment); err != nil {
		return nil, nil, err
	}
	query := url.Values{"payment_id": {t.PaymentID}, "order": {"asc"}, "limit": {"100"}}
	r.Transactions = []tollgate.Transaction{}
	for query != nil && err == nil {
		query, err = transactionPage(ctx, c, query, r)
	}
	if scopeMissing(err) {
		r.Transactions, missing = nil, append(missing, "its transactions (transactions:read)")
	} else if err != nil {
		return nil, nil, err
	}
	now, err := c.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.EventsExpired = now.Sub(r.Payment.CreatedAt.Time()) >= eventsKept
	r.Events = map[string]paymentEvent{}
	for _, id := range t.EventIDs {
		var refused *cli.Refusal
		body, err := c.Get(ctx, "/v1/events/"+url.PathEscape(id), nil)
		switch {
		case scopeMissing(err):
			r.Events = nil
			return r, append(missing, "its events (events:read)"), nil
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
			continue
		case err != nil:
			return nil, nil, err
		}
		var event paymentEvent
		if err := cli.Parse(body, &event); err != nil {
			return nil, nil, err
		}
		r.Events[id] = event
	}
	return r, missing, nil
}

// transactionPage adds a page and returns the query of the next one, if any.
func transactionPage(ctx context.Context, c *cli.Client, query url.Values, r *paymentRecords) (url.Values, error) {
	_, page, err := cli.Read[tollgate.List[tollgate.Transaction]](c.Get(ctx, "/v1/transactions", query))
	if err != nil {
		return nil, err
	}
	r.Transactions = append(r.Transactions, page.Data...)
	if page.NextCursor == nil {
		return nil, nil
	}
	return url.Values{"cursor": {*page.NextCursor}}, nil
}

func scopeMissing(err error) bool {
	var refused *cli.Refusal
	return errors.As(err, &refused) && refused.Code == tollgate.CodeScopeMissing
}

// bind fetches the records of a ticket, when there is a service to ask.
func (s *moduleShelf) bind(ctx context.Context, t *tollgate.Ticket) (*binding, error) {
	if s.client == nil {
		return &binding{why: "no service was asked: set TOLLGATE_URL, or give the ticket's id"}, nil
	}
	r, missing, err := records(ctx, s.client, t)
	if scopeMissing(err) {
		return &binding{why: "the token lacks the scope payments:read"}, nil
	}
	b := &binding{records: r}
	for _, what := range missing {
		b.why = join(b.why, what)
	}
	if b.why != "" {
		b.why = "the token may not read " + b.why
	}
	return b, err
}

func join(list, next string) string {
	if list == "" {
		return next
	}
	return list + " and " + next
}
