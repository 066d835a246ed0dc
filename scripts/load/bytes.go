package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// weigh makes payments that are captured, each with one delivery, in a redis-server of its
// own, and prints what they take up there: all together, and by what keys hold.
func weigh(ctx context.Context, out io.Writer, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	server, err := startRedis(ctx, o.dir, o.port, "")
	if err != nil {
		return err
	}
	defer server.kill()
	o.span = 0
	m, err := open(ctx, rediskv.Options{URL: server.url(), Partitions: 1}, o, nil)
	if err != nil {
		return err
	}
	defer m.close()
	receiver, err := m.receive(ctx)
	if err != nil {
		return err
	}
	defer receiver.Close()
	if err := m.capture(ctx, receiver, min(o.payments, 100)); err != nil { // what is there once
		return err
	}
	begun := used(server.client)
	was, err := weights(ctx, server.client)
	if err != nil {
		return err
	}
	done, err := report(m, server.url())
	if err != nil {
		return err
	}
	err = m.capture(ctx, receiver, o.payments)
	done()
	if err != nil {
		return err
	}
	// A worker does it every half minute.
	for p := range m.store.Partitions() {
		if _, err := m.store.CutLogs(ctx, p); err != nil {
			return err
		}
	}
	ended := used(server.client)
	is, err := weights(ctx, server.client)
	if err != nil {
		return err
	}
	return table(out, o.payments, ended-begun, was, is)
}

// table prints bytes a payment.
func table(out io.Writer, payments int, all int64, was, is map[string]int64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	each := func(bytes int64) float64 { return float64(bytes) / float64(payments) }
	fmt.Fprintln(w, "bytes a payment\t\t")
	rest := all
	for _, kind := range weighed {
		bytes := is[kind] - was[kind]
		rest -= bytes
		fmt.Fprintf(w, "%s\t%.0f\t\n", kind, each(bytes))
	}
	fmt.Fprintf(w, "tables of keys, and what is not used\t%.0f\t\n", each(rest))
	fmt.Fprintf(w, "all\t%.0f\t\n", each(all))
	return w.Flush()
}

// receiver counts deliveries.
type receiver struct {
	*httptest.Server
	received atomic.Int64
}

// receive adds an endpoint that is told of captures, and answers at once.
func (m *market) receive(ctx context.Context) (*receiver, error) {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.received.Add(1) }))
	status, answer, err := m.api.post(ctx, "/v1/webhooks", fmt.Sprintf(`{"url":%q,"event_types":["payment.captured"]}`, r.URL))
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("the endpoint: %d %s", status, answer)
	}
	if err != nil {
		r.Close()
	}
	return r, err
}

// capture makes payments and captures them, and waits until each has been delivered and
// posted.
func (m *market) capture(ctx context.Context, r *receiver, payments int) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	m.made.Store(0)
	before := r.received.Load()
	bodies := make(chan string)
	var clients sync.WaitGroup
	for range m.clients {
		clients.Go(func() {
			for body := range bodies {
				if err := m.captured(ctx, body); err != nil {
					failed(err)
				}
			}
		})
	}
	shops := slices.DeleteFunc(slices.Clone(m.sales.shops), func(s shop) bool { return s.name == "" }) // whose perimeter asks for reviews
	for range payments {
		m.sales.made++
		s := shops[pick(m.sales.random, shops, func(s shop) float64 { return s.weight })]
		c := s.currencies[pick(m.sales.random, s.currencies, func(c currency) float64 { return c.weight })]
		body := paymentBody{
			Account: s.id, Amount: m.sales.amount(c), Currency: c.code, Payee: payeeName(int(m.sales.payee.Uint64())), Method: string(tollgate.CaptureManual),
		}
		m.sales.annotate(&body)
		text, err := json.Marshal(body)
		if err != nil {
			failed(err)
			break
		}
		bodies <- string(text)
	}
	close(bodies)
	clients.Wait()
	for ctx.Err() == nil && r.received.Load() < before+int64(payments) {
		time.Sleep(50 * time.Millisecond)
	}
	for ctx.Err() == nil { // what is new is posted every second while there is something
		posted, err := m.store.PostTransactions(ctx, 0)
		if err != nil {
			return err
		}
		if posted == 0 {
			break
		}
	}
	return context.Cause(ctx)
}

// captured makes one payment and captures it.
func (m *market) captured(ctx context.Context, body string) error {
	if ctx.Err() != nil {
		return nil
	}
	status, answer, err := m.api.post(ctx, "/v1/payments", body)
	if err != nil {
		return err
	}
	var payment struct {
		ID     string                 `json:"id"`
		Status tollgate.PaymentStatus `json:"status"`
	}
	if err := json.Unmarshal(answer, &payment); err != nil || payment.Status != tollgate.Authorized {
		return fmt.Errorf("%s: %d %s", body, status, answer)
	}
	if status, answer, err = m.api.post(ctx, "/v1/payments/"+payment.ID+"/captures", `{}`); err == nil && status != http.StatusCreated {
		err = fmt.Errorf("capture: %d %s", status, answer)
	}
	m.made.Add(1)
	return err
}

// weights adds up what keys take up, by kind.
func weights(ctx context.Context, client *redis.Client) (map[string]int64, error) {
	sum := map[string]int64{}
	var cursor uint64
	for {
		keys, next, err := client.Scan(ctx, cursor, "", 1000).Result()
		if err != nil {
			return nil, err
		}
		pipe := client.Pipeline()
		for _, key := range keys {
			pipe.MemoryUsage(ctx, key, 0)
		}
		sizes, err := pipe.Exec(ctx)
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		for i, key := range keys {
			sum[kindOf(key)] += sizes[i].(*redis.IntCmd).Val() // 0: it has expired meanwhile
		}
		if cursor = next; cursor == 0 {
			return sum, nil
		}
	}
}

// What keys hold, as the table has it.
const (
	weighsPayments    = "payments"
	weighsTickets     = "tickets"
	weighsParts       = "transactions and captures"
	weighsIdempotency = "idempotency keys with their answers"
	weighsEvents      = "events"
	weighsAudit       = "audit entries"
	weighsDeliveries  = "deliveries and attempts"
	weighsIndexes     = "indexes and queues"
	weighsPostings    = "posting lists"
	weighsMarks       = "marks of scripts, which last five minutes"
	weighsOther       = "other"
)

var weighed = []string{weighsPayments, weighsTickets, weighsParts, weighsIdempotency, weighsEvents, weighsAudit, weighsDeliveries, weighsIndexes, weighsPostings, weighsMarks, weighsOther}

// ofOrganization begins a key of an organization; ofPartition is a queue of a partition.
var (
	ofOrganization = regexp.MustCompile(`^\{p\d+\}:org_\w+:`)
	ofPartition    = regexp.MustCompile(`^\{p\d+\}:[a-z]+(:|$)`)
)

var kinds = []struct {
	key  *regexp.Regexp // what follows the organization
	kind string
}{
	{regexp.MustCompile(`^pay_\w+$`), weighsPayments},
	{regexp.MustCompile(`^tkt_`), weighsTickets},
	{regexp.MustCompile(`^(parts:|pay_\w+:txns$|(txn|cap|rfd)_)`), weighsParts},
	{regexp.MustCompile(`^idem:`), weighsIdempotency},
	{regexp.MustCompile(`^events(:|$)`), weighsEvents},
	{regexp.MustCompile(`^(audit|tree)(:|$)`), weighsAudit},
	{regexp.MustCompile(`^(dlv_|we_\w+:)`), weighsDeliveries},
	{regexp.MustCompile(`^op:`), weighsMarks},
	{regexp.MustCompile(`^postings(:|$)`), weighsPostings},
	{regexp.MustCompile(`^(txns(:|$)|ma_\w+:)`), weighsIndexes},
}

// kindOf is what a key holds.
func kindOf(key string) string {
	begin := ofOrganization.FindString(key)
	if begin == "" && ofPartition.MatchString(key) {
		return weighsIndexes
	}
	for _, one := range kinds {
		if begin != "" && one.key.MatchString(key[len(begin):]) {
			return one.kind
		}
	}
	return weighsOther
}
