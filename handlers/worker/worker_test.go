package worker_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// partitions are fewer than usual: each has its own loops.
const partitions = 4

// clock is a clock that tests move. It also counts the looks at what falls due, and the
// attempts that could not be recorded, of stores that have it.
type clock struct {
	*testkit.Clock
	looks      atomic.Int64
	takes      atomic.Int64 // looks at what endpoints are due
	unrecorded atomic.Int64
}

func (c *clock) observe(operation string, _ time.Duration, err error) {
	switch {
	case operation == "upcoming":
		c.looks.Add(1)
	case operation == "ready_endpoints":
		c.takes.Add(1)
	case operation == "record_attempts" && err != nil:
		c.unrecorded.Add(1)
	}
}

// shop is an organization that makes payments.
type shop struct {
	*testkit.Shop
	Clock   *clock
	account string
}

func open(t testing.TB, url string, c *clock) *store.Store {
	t.Helper()
	return openWith(t, rediskv.Options{URL: url, Clock: c.Now, Observe: c.observe})
}

// away opens a store on a Redis that will not answer, which it finds in the
// service's own time.
func away(t testing.TB, url string, c *clock) *store.Store {
	t.Helper()
	return openWith(t, rediskv.Options{URL: url, Clock: c.Now, Observe: c.observe, Timeout: rediskv.OperationTimeout})
}

func openWith(t testing.TB, o rediskv.Options) *store.Store {
	t.Helper()
	o.Partitions = cmp.Or(o.Partitions, partitions)
	return testkit.Open(t, o)
}

func newShop(t testing.TB, url string) *shop { return newShopIn(t, url, partitions) }

// newShopIn provisions a modest organization in a Redis of so many partitions.
func newShopIn(t testing.TB, url string, partitions int) *shop {
	t.Helper()
	c := &clock{Clock: testkit.NewClock()}
	s := testkit.NewShop(t, rediskv.Options{URL: url, Observe: c.observe, Partitions: partitions}, c.Clock, modest)
	return &shop{s, c, s.Config.MerchantAccounts[0].ID}
}

// modest is an organization with one account, without rules and clients.
func modest(o *tollgate.Config) {
	o.Clients, o.Grants = nil, nil
	o.RuleSets[0].Rules = nil
	o.Perimeters[0].Constraints = []byte(`{"review_above":"100"}`)
	o.MerchantAccounts = o.MerchantAccounts[:1]
	a := &o.MerchantAccounts[0]
	a.Currencies, a.CaptureWindowHours = []tollgate.Currency{"EUR"}, 48
	a.Cutoff = tollgate.Cutoff{CutoffTime: "00:00", TimeZone: "UTC", Calendar: "none", Interval: "daily"}
}

// pay makes a payment and returns its id.
func (s *shop) pay(t testing.TB, minor int64) string {
	t.Helper()
	return s.Pay(t, testkit.EUR(minor), tollgate.CaptureManual).ID
}

// capturePart captures and leaves the rest capturable.
func (s *shop) capturePart(t testing.TB, id string, minor int64) {
	t.Helper()
	if err := s.Capture(t.Context(), id, minor, false); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) status(t testing.TB, id string) tollgate.PaymentStatus {
	t.Helper()
	p, _, err := s.Payment(t.Context(), s.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return p.Status
}

// events counts the organization's events of a type by payment.
func (s *shop) events(t testing.TB, kind tollgate.EventType) map[string]int {
	t.Helper()
	count := map[string]int{}
	q := eventlog.EventQuery{Types: tollgate.TypeFilter{string(kind)}, Limit: 100}
	for {
		page, next, more, err := s.Events(t.Context(), s.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			_, id, _ := strings.Cut(string(e), `"payment_id":"`)
			id, _, _ = strings.Cut(id, `"`)
			count[id]++
		}
		if !more {
			return count
		}
		q.After = next
	}
}

func newWorker(t testing.TB, c worker.Config) *worker.Worker {
	t.Helper()
	c.Entropy = rand.Reader
	if c.Vault == nil {
		c.Vault = newVault(t, 1)
	}
	w, err := worker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func round(t testing.TB, w *worker.Worker) {
	t.Helper()
	if _, err := w.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Each state has its own deadline and its own end (interface §3).
func TestExpiry(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	w := newWorker(t, worker.Config{Store: s.Store, Clock: s.Clock.Now})
	authorized, captured, reviewed := s.pay(t, 1000), s.pay(t, 1000), s.pay(t, 10_001)
	s.capturePart(t, captured, 400)
	for _, step := range []struct {
		advance                        time.Duration
		authorized, captured, reviewed tollgate.PaymentStatus
	}{
		{0, tollgate.Authorized, tollgate.PartiallyCaptured, tollgate.RequiresReview},
		{24*time.Hour - time.Millisecond, tollgate.Authorized, tollgate.PartiallyCaptured, tollgate.RequiresReview},
		{time.Millisecond, tollgate.Authorized, tollgate.PartiallyCaptured, tollgate.Expired},
		{24*time.Hour - time.Millisecond, tollgate.Authorized, tollgate.PartiallyCaptured, tollgate.Expired},
		{time.Millisecond, tollgate.Expired, tollgate.Captured, tollgate.Expired},
		{time.Hour, tollgate.Expired, tollgate.Captured, tollgate.Expired},
	} {
		s.Clock.Advance(step.advance)
		round(t, w)
		got := []tollgate.PaymentStatus{s.status(t, authorized), s.status(t, captured), s.status(t, reviewed)}
		want := []tollgate.PaymentStatus{step.authorized, step.captured, step.reviewed}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("at %s: %v, want %v", s.Clock.Now(), got, want)
		}
	}
	if got := s.events(t, tollgate.PaymentExpired); len(got) != 2 || got[authorized] != 1 || got[reviewed] != 1 {
		t.Errorf("payment.expired: %v", got)
	}
	if got := s.events(t, tollgate.PaymentReleased); len(got) != 1 || got[captured] != 1 {
		t.Errorf("payment.released: %v", got)
	}
}

// Workers that race end each payment once, also when there are more payments
// than one batch.
func TestWorkersShare(t *testing.T) {
	address := redistest.URL(t)
	s := newShop(t, address)
	const payments = 60
	for range payments {
		s.pay(t, 1000)
	}
	s.Clock.Advance(72 * time.Hour)
	var group sync.WaitGroup
	for range 3 {
		w := newWorker(t, worker.Config{Store: open(t, address, s.Clock), Clock: s.Clock.Now, PageSize: 7})
		group.Go(func() {
			if _, err := w.Round(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got := s.events(t, tollgate.PaymentExpired)
	if len(got) != payments {
		t.Errorf("%d payments expired, want %d", len(got), payments)
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s expired %d times", id, n)
		}
	}
}

// The clock stands while Redis is away and goes on by itself.
func TestOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	direct := newShop(t, server.URL)
	wire := redistest.Proxy(t, server.Addr)
	metrics, said := observe(), new(testkit.Log)
	w := newWorker(t, worker.Config{
		Store: away(t, wire.URL, direct.Clock), Clock: direct.Clock.Now, Observer: metrics, Interval: 10 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(said, nil)),
	})
	if err := w.Ready(); err == nil {
		t.Error("ready before the first round")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	until(t, "the first round", func() bool { return w.Ready() == nil })

	wire.Refuse()
	until(t, "a failed round", func() bool { return metrics.all("failed") > 0 })
	id := direct.pay(t, 1000)
	direct.Clock.Advance(72 * time.Hour)
	until(t, "a clock that stands, in no partition at work", func() bool {
		checks := w.Checks()
		i := slices.IndexFunc(checks, func(c worker.Check) bool { return c.Part == "clock" })
		return w.Ready() != nil && checks[i].Err != nil
	})
	until(t, "a word in the log", func() bool {
		return said.Has(`"makes no progress" work=clock error="clock: partition`)
	})
	wire.Accept()
	until(t, "expiry after the outage", func() bool { return direct.status(t, id) == tollgate.Expired })
	until(t, "readiness after the outage", func() bool { return w.Ready() == nil })
	until(t, "another word in the log", func() bool { return said.Has(`"makes progress again" work=clock`) })

	cancel()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Run goes on after its context has ended")
	}
}

var until = testkit.Eventually

func TestNewRefuses(t *testing.T) {
	if _, err := worker.New(worker.Config{}); err == nil {
		t.Error("a worker without a store")
	}
	s := newShop(t, redistest.URL(t))
	whole := worker.Config{Store: s.Store, Clock: s.Clock.Now, Entropy: rand.Reader, Vault: newVault(t, 1)}
	if _, err := worker.New(whole); err != nil {
		t.Error(err)
	}
	whole.Lease = 10 * time.Second
	if _, err := worker.New(whole); err == nil {
		t.Error("a lease that is shorter than an attempt")
	}
}
