package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"tollgate"
	"tollgate/handlers/worker"

	"tollgate/scripts/simulate/draw"
)

// receiver is who gets an endpoint's deliveries.
type receiver struct {
	name string

	mu       sync.Mutex
	id       string             // of the endpoint
	seen     map[string][]byte  // bodies by the event's id
	said     map[string]int     // how often an event came
	secrets  []string           // that it was told, the newest last
	attempts map[string]attempt // the last of each event
	// unleased are events of which Redis may have forgotten that they are being sent.
	unleased map[string]bool
}

// attempt is one to deliver an event.
type attempt struct {
	by        *process
	since, at time.Time // the second by the right clock
	over      bool      // but what it came to may not have been written yet
}

func newReceiver(name string) *receiver {
	return &receiver{name: name, seen: map[string][]byte{}, said: map[string]int{}, attempts: map[string]attempt{}, unleased: map[string]bool{}}
}

// outbound carries the deliveries of a process.
type outbound struct{ p *process }

var errNetwork = errors.New("connection reset by peer")

// RoundTrip takes a delivery to its receiver, which answers in one way or another.
func (o *outbound) RoundTrip(r *http.Request) (*http.Response, error) {
	x := o.p.world
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	event, name := r.Header.Get("Webhook-Id"), strings.TrimPrefix(r.URL.Path, "/")
	to := x.receivers[name]
	if to == nil {
		return nil, fmt.Errorf("nobody is at %s", r.URL)
	}
	defer to.begin(x, event, o.p)()
	to.mu.Lock()
	n := to.said[event] + 1
	to.mu.Unlock()
	how := x.wire.chance.Of("delivery", name, event, o.p.name, n)
	if err := o.travel(r.Context(), how); err != nil {
		return nil, err
	}
	answers := how >> 32 % 100
	if x.calm.Load() {
		answers = 99
	}
	if answers < 4 { // it never comes
		return nil, o.never(r.Context())
	}
	x.judge.delivered(x, to, event, body, r.Header)
	switch {
	case answers < 8: // it is never heard of
		return nil, o.never(r.Context())
	case answers < 12:
		return nil, errNetwork
	}
	if err := o.travel(r.Context(), draw.Mixed(how)); err != nil {
		return nil, err
	}
	status := http.StatusOK
	if answers < 20 {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r,
	}, nil
}

// begin notes an attempt. While one is under way nobody else has the lease, unless
// who makes it has been frozen or is dead.
func (to *receiver) begin(x *world, event string, p *process) (end func()) {
	to.mu.Lock()
	defer to.mu.Unlock()
	mine := attempt{by: p, since: time.Now(), at: x.wire.now()}
	other, ok := to.attempts[event]
	if last, ever := x.loss.back(); ok && ever && !other.at.After(last) {
		to.unleased[event] = true // its lease may be lost, and what it tells, even later, is taken for another's
	}
	if ok && !other.over && !to.unleased[event] && !other.by.hurt() && !p.hurt() {
		x.judge.wrong("%s is sent event %s by %s, while %s has been sending it for %s", to.name, event, p.name, other.by.name, time.Since(other.since))
	}
	to.attempts[event] = mine
	return func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		if to.attempts[event] == mine {
			mine.over = true
			to.attempts[event] = mine
		}
	}
}

func (o *outbound) travel(ctx context.Context, n uint64) error {
	return o.wait(ctx, draw.Between(n, time.Millisecond, 300*time.Millisecond))
}

func (o *outbound) never(ctx context.Context) error {
	return o.wait(ctx, 24*time.Hour)
}

// wait is until something has travelled, and the process hears again.
func (o *outbound) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, time.Until(o.p.thaws().Add(d))))
	defer timer.Stop()
	select {
	case <-o.p.stopped:
		return errNetwork
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// payer is the bank: it pays what it is asked to pay, once for each id.
type payer struct {
	mu     sync.Mutex
	asked  map[string]int
	first  map[string]time.Time // when it was first asked
	of     map[string]string    // the account
	paid   map[string]tollgate.Money
	failed map[string]bool
}

func newPayer() *payer {
	return &payer{asked: map[string]int{}, first: map[string]time.Time{}, of: map[string]string{}, paid: map[string]tollgate.Money{}, failed: map[string]bool{}}
}

// pay is the payout step of a process.
func (p *process) pay(ctx context.Context, payout tollgate.Payout) (tollgate.PayoutOutcome, error) {
	x, o := p.world, &outbound{p}
	b := x.payer
	b.mu.Lock()
	b.asked[payout.ID]++
	n := b.asked[payout.ID]
	if n == 1 {
		b.first[payout.ID], b.of[payout.ID] = x.wire.now(), payout.MerchantAccountID
	}
	first := b.first[payout.ID]
	b.mu.Unlock()
	x.mayPay(p, payout.ID, first)
	how := x.wire.chance.Of("pay", payout.ID, p.name, n)
	unknown := func(err error) (tollgate.PayoutOutcome, error) {
		return tollgate.PayoutOutcome{}, &worker.Later{Cause: err}
	}
	if err := o.travel(ctx, how); err != nil {
		return unknown(err)
	}
	answers := how >> 32 % 100
	if x.calm.Load() {
		answers = 99
	}
	if answers < 15 { // it never arrives
		return unknown(errNetwork)
	}
	said := b.take(x, payout)
	if answers < 35 { // nobody hears what became of it
		return unknown(errNetwork)
	}
	if err := o.travel(ctx, draw.Mixed(how)); err != nil {
		return unknown(err)
	}
	return said, nil
}

// take pays a payout, unless it has been asked for before: then it says the same.
func (b *payer) take(x *world, payout tollgate.Payout) tollgate.PayoutOutcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	const closed = "The bank account is closed."
	if b.failed[payout.ID] {
		return tollgate.PayoutOutcome{Failure: closed}
	}
	if before, ok := b.paid[payout.ID]; ok {
		if before != payout.Amount() {
			x.judge.wrong("payout %s was paid with %s and is asked for again with %s", payout.ID, before, payout.Amount())
		}
		return tollgate.PayoutOutcome{Reference: "bank-" + payout.ID}
	}
	if !x.calm.Load() && x.wire.chance.Of("bank", payout.ID)%6 == 0 {
		b.failed[payout.ID] = true
		return tollgate.PayoutOutcome{Failure: closed}
	}
	b.paid[payout.ID] = payout.Amount()
	x.wire.tell("the bank pays %s for %s", payout.Amount(), payout.ID)
	return tollgate.PayoutOutcome{Reference: "bank-" + payout.ID}
}
