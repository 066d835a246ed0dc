package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/rediskv/testkit"
)

// load is clients that make and capture payments, each request with an
// Idempotency-Key, and what was acknowledged to them.
type load struct {
	*site
	base     atomic.Value // string: where the service is now
	strict   bool         // a request that fails is an error, and not made again
	stopped  chan struct{}
	stopOnce sync.Once
	clients  sync.WaitGroup
	acked    atomic.Int64
	allowed  atomic.Int64 // clients wait when so many were acknowledged, so that a slow restart costs no megabytes

	mu     sync.Mutex
	orders []*order
}

// order is one payment and its captures, as far as they were acknowledged.
type order struct {
	payment  seenPayment
	captures int
	requests []acknowledged
}

// What the checks look at, as a client of the interface sees it.
type (
	seenPayment struct {
		ID               string `json:"id"`
		Status           string `json:"status"`
		CaptureMethod    string `json:"capture_method"`
		Amount           cents  `json:"amount"`
		AmountCapturable cents  `json:"amount_capturable"`
		AmountCaptured   cents  `json:"amount_captured"`
		AmountReleased   cents  `json:"amount_released"`
		FeeTotal         cents  `json:"fee_total"`
		TicketID         string `json:"ticket_id"`
	}
	seenTicket struct {
		ID       string   `json:"id"`
		EventIDs []string `json:"event_ids"`
		Total    cents    `json:"total"`
	}
	seenEvent struct {
		ID       string         `json:"id"`
		Type     string         `json:"type"`
		Sequence int            `json:"sequence"`
		Data     map[string]any `json:"data"`
	}
	seenTransaction struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		PaymentID string `json:"payment_id"`
		Amount    cents  `json:"amount"`
	}
)

// cents is an amount of euros.
type cents int64

func (c *cents) UnmarshalText(text []byte) error {
	whole, part, ok := strings.Cut(string(text), ".")
	n, err := strconv.ParseInt(whole+part, 10, 64)
	if err != nil || !ok || len(part) != 2 {
		return fmt.Errorf("%q is no amount of euros with its two places", text)
	}
	*c = cents(n)
	return nil
}

// acknowledged is a request that was answered with success.
type acknowledged struct{ path, key, body, answer string }

// ahead is how many requests the clients make beyond those that are waited
// for: what is killed then is killed under load.
const ahead = 300

// startLoad starts clients against the service at base.
func startLoad(s *site, base string, clients int, strict bool) *load {
	l := &load{site: s, strict: strict, stopped: make(chan struct{})}
	l.base.Store(base)
	l.allowed.Store(ahead)
	s.authenticate(base)
	for n := range clients {
		l.clients.Go(func() {
			for i := 0; l.order(fmt.Sprintf("%d-%d", n, i), (n+i)%3 == 0); i++ {
				for l.acked.Load() >= l.allowed.Load() && !l.stopping() {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	s.t.Cleanup(l.stop)
	return l
}

// order makes one payment and captures it in two steps; it reports whether to
// go on.
func (l *load) order(name string, automatic bool) bool {
	o := &order{}
	method := "manual"
	if automatic {
		method = "automatic"
	}
	ok := l.request(o, "/v1/payments", "pay-"+name, fmt.Sprintf(
		`{"amount":"%d.37","currency":"EUR","payee":"shop.example","capture_method":"%s","reference":"%s"}`, 50+len(name), method, name), &o.payment)
	if o.payment.ID == "" {
		return false
	}
	l.mu.Lock()
	l.orders = append(l.orders, o)
	l.mu.Unlock()
	for i, body := range []string{`{"amount":"10.00","final_capture":false}`, ``} {
		if ok && !automatic {
			var capture struct {
				ID string `json:"id"`
			}
			ok = l.request(o, "/v1/payments/"+o.payment.ID+"/captures", fmt.Sprintf("cap-%s-%d", name, i), body, &capture)
			if capture.ID != "" {
				o.captures++
			}
		}
	}
	return ok
}

// request makes one request until it is acknowledged: a request that was begun
// is followed up with the same key even when the load is stopping. It reports
// whether to make another one.
func (l *load) request(o *order, path, key, body string, into any) bool {
	// One request can live through several restarts.
	for deadline := time.Now().Add(4 * patience); ; time.Sleep(5 * time.Millisecond) {
		r, err := l.send("POST", l.base.Load().(string)+path, key, body)
		switch {
		case err == nil && r.StatusCode == http.StatusCreated:
			r.into(l.t, into)
			o.requests = append(o.requests, acknowledged{path, key, body, r.Text})
			l.acked.Add(1)
			return !l.stopping()
		case l.t.Context().Err() != nil:
			return false
		case l.strict, err == nil && r.StatusCode != http.StatusServiceUnavailable, time.Now().After(deadline):
			l.t.Errorf("POST %s (%s): error %v, answer %q", path, key, err, r.Text)
			return false
		}
	}
}

func (l *load) stopping() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// more waits until n more requests were acknowledged.
func (l *load) more(n int) {
	l.t.Helper()
	want := l.acked.Load() + int64(n)
	l.allowed.Store(want + ahead)
	testkit.Eventually(l.t, "more requests are acknowledged", func() bool { return l.acked.Load() >= want || l.t.Failed() })
}

// stop lets every client finish the request that it has begun.
func (l *load) stop() {
	l.stopOnce.Do(func() { close(l.stopped) })
	l.clients.Wait()
}

// check reads everything back and holds it to what was acknowledged. All
// requests that were begun have been acknowledged, so the two are equal:
// nothing is missing, nothing is there twice, and nothing is half made.
func (l *load) check() {
	l.t.Helper()
	base := l.base.Load().(string)
	if len(l.orders) == 0 {
		l.t.Fatal("nothing was acknowledged")
	}
	events := map[string][]seenEvent{} // by payment
	for i, e := range pages[seenEvent](l.site, base+"/v1/events?limit=100") {
		if e.Sequence != i+1 {
			l.t.Fatalf("event %d has sequence %d", i+1, e.Sequence)
		}
		if id, ok := e.Data["payment_id"].(string); ok {
			events[id] = append(events[id], e)
		}
	}
	moves := map[string][]seenTransaction{}
	for _, x := range pages[seenTransaction](l.site, base+"/v1/transactions?limit=100") {
		moves[x.PaymentID] = append(moves[x.PaymentID], x)
	}
	if len(events) != len(l.orders) || len(moves) != len(l.orders) {
		l.t.Errorf("%d payments were acknowledged; %d have events and %d have transactions", len(l.orders), len(events), len(moves))
	}
	var each sync.WaitGroup
	for part := range slices.Chunk(l.orders, 1+len(l.orders)/4) {
		each.Go(func() {
			for _, o := range part {
				l.checkOrder(base, o, events[o.payment.ID], moves[o.payment.ID])
			}
		})
	}
	each.Wait()
	l.t.Logf("%d requests acknowledged, %d payments", l.acked.Load(), len(l.orders))
}

func (l *load) checkOrder(base string, o *order, events []seenEvent, moves []seenTransaction) {
	automatic := o.payment.CaptureMethod == "automatic"
	want := []string{"payment.authorized", "payment.captured", "payment.captured"}[:1+o.captures]
	status, captures := []string{"authorized", "partially_captured", "captured"}[o.captures], o.captures
	if automatic {
		want, status, captures = []string{"payment.captured"}, "captured", 1
	}
	var p seenPayment
	var ticket seenTicket
	for address, into := range map[string]any{"/v1/payments/" + o.payment.ID: &p, "/v1/tickets/" + o.payment.TicketID: &ticket} {
		r, err := l.send("GET", base+address, "", "")
		if err != nil || r.StatusCode != http.StatusOK {
			l.t.Errorf("%s was acknowledged: error %v, answer %q", address, err, r.Text)
			return
		}
		r.into(l.t, into)
	}
	if p.Status != status || p.Amount != o.payment.Amount || p.AmountCapturable+p.AmountCaptured+p.AmountReleased != p.Amount {
		l.t.Errorf("%s, after %d captures: %+v", p.ID, captures, p)
	}
	types, ids := make([]string, len(events)), make([]string, len(events))
	for i, e := range events {
		types[i], ids[i] = e.Type, e.ID
	}
	if !slices.Equal(types, want) || !slices.Equal(ticket.EventIDs, ids) {
		l.t.Errorf("%s: events %v (%v), want %v; its ticket refers to %v", p.ID, types, ids, want, ticket.EventIDs)
	}
	count, sum := map[string]int{}, map[string]cents{}
	for _, x := range moves {
		count[x.Type]++
		sum[x.Type] += x.Amount
		if x.Type == "authorization" && x.Status != status {
			l.t.Errorf("%s is %s, its authorization %s", p.ID, status, x.Status)
		}
	}
	if count["authorization"] != 1 || count["capture"] != captures || count["fee"] != captures || len(moves) != 1+2*captures {
		l.t.Errorf("%s, %d captures: transactions %v", p.ID, captures, count)
	}
	if sum["authorization"] != p.Amount || sum["capture"] != p.AmountCaptured || ticket.Total != p.FeeTotal || (captures > 0 && sum["fee"] != p.FeeTotal) {
		l.t.Errorf("%s: %+v, transactions %v, ticket %+v", p.ID, p, sum, ticket)
	}
	for _, q := range o.requests {
		r, err := l.send("POST", base+q.path, q.key, q.body)
		if err != nil || r.StatusCode != http.StatusCreated || r.Text != q.answer || r.Header.Get("Idempotent-Replayed") != "true" {
			l.t.Errorf("%s repeated: error %v, answer %q, it was %q", q.key, err, r.Text, q.answer)
		}
	}
}

// pages reads a listing to its end.
func pages[T any](s *site, address string) (all []T) {
	s.t.Helper()
	cursor := ""
	for {
		var page struct {
			Data       []T    `json:"data"`
			HasMore    bool   `json:"has_more"`
			NextCursor string `json:"next_cursor"`
		}
		s.must(http.StatusOK, "GET", address+cursor, "", "").into(s.t, &page)
		all = append(all, page.Data...)
		if !page.HasMore {
			return all
		}
		cursor = "&cursor=" + page.NextCursor
	}
}

// point sends the clients to another instance.
func (l *load) point(base string) { l.base.Store(base) }
