package worker_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

// childVariable makes the test binary a worker on the Redis that it names.
const childVariable = "TOLLGATE_TEST_WORKER"

// TestChildWorks is the worker that TestWorkerKilled starts and kills.
func TestChildWorks(t *testing.T) {
	const longest = 10 * time.Second // a time-out would make the endpoint slow for a minute
	workAsChild(t, childVariable, worker.Config{
		Development: true, Interval: 50 * time.Millisecond, Timeouts: delivery.Timeouts{Connect: longest, TLS: longest, All: longest}, Lease: longest + 2*time.Second,
	}, nil)
}

// workAsChild is a worker on the Redis that a variable names, until its parent
// ends; without the variable it is nothing.
func workAsChild(t *testing.T, variable string, c worker.Config, observe func(string, time.Duration, error)) {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		return
	}
	c.Store, c.Clock = openWith(t, rediskv.Options{URL: address, Clock: time.Now, Observe: observe}), time.Now
	w := newWorker(t, c)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // the parent's end closes the pipe, also when the parent was killed
		os.Exit(0)
	}()
	w.Run(t.Context())
}

// child starts a worker; the function it returns is SIGKILL.
func child(t *testing.T, url string) (kill func()) {
	t.Helper()
	_, kill = childOf(t, "TestChildWorks", childVariable+"="+url)
	return kill
}

// childOf starts this program for one of its tests, with variables set.
func childOf(t *testing.T, test string, variables ...string) (cmd *exec.Cmd, kill func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), variables...)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	t.Cleanup(kill)
	return cmd, kill
}

// Workers are killed five times under load, Redis once, and the consumer group
// is destroyed: every event is delivered, and only what was on its way at a kill
// comes again, once.
func TestWorkerKilled(t *testing.T) {
	if redistest.Kind(t) == redistest.Miniredis {
		t.Skip("an embedded server is not killed, and loses track of readers that were while they waited")
	}
	server := redistest.Fresh(t)
	s := newShop(t, server.URL)
	s.Clock.Set(time.Now()) // the children have real time
	in := newInbox(t)
	in.answers(func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Millisecond) })
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))

	stop := make(chan struct{})
	var paid atomic.Int64
	var load sync.WaitGroup
	for range 3 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if s.tryPay(t) {
					paid.Add(1)
				}
				time.Sleep(8 * time.Millisecond) // load, not flood
			}
		})
	}
	lost := map[lostAttempt]bool{}
	for round := range 5 {
		kill := child(t, server.URL)
		before := len(in.all())
		until(t, "deliveries under load", func() bool { return len(in.all()) >= before+40 })
		kill()
		rows, _ := s.all(t, hook)
		for _, d := range rows {
			if d.State == tollgate.DeliverySending {
				lost[lostAttempt{d.EventID, d.AttemptCount}] = true
			}
		}
		switch round {
		case 1:
			server.Kill()
			server.Restart()
		case 3:
			for p := range partitions { // those without a stream say so
				_ = server.Command("XGROUP", "DESTROY", fmt.Sprintf("{p%02d}:dispatch", p), "workers")
			}
		}
	}
	close(stop)
	load.Wait()
	child(t, server.URL)

	events := map[string]bool{}
	q := eventlog.EventQuery{Types: tollgate.TypeFilter{"payment.*"}, Limit: 100}
	for more := true; more; {
		page, next, again, err := s.Events(t.Context(), s.Caller, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range page {
			var e tollgate.Event
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			events[e.ID] = true
		}
		q.After, more = next, again
	}
	if int64(len(events)) < paid.Load() {
		t.Fatalf("%d payments were acknowledged, the log has %d events", paid.Load(), len(events))
	}
	deadline := time.Now().Add(2 * time.Minute)
	var seen map[string]int
	for {
		seen = map[string]int{}
		for _, r := range in.all() {
			seen[r.header.Get("Webhook-Id")]++
		}
		if len(seen) >= len(events) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d events were delivered", len(seen), len(events))
		}
		time.Sleep(20 * time.Millisecond)
	}
	until(t, "one delivery per event, all succeeded", func() bool {
		rows, _ := s.all(t, hook)
		succeeded := 0
		for _, d := range rows {
			if d.State == tollgate.DeliverySucceeded {
				succeeded++
			}
		}
		return len(rows) == len(events) && succeeded == len(events)
	})
	times := map[string]int{}
	for _, r := range in.all() {
		times[r.header.Get("Webhook-Id")]++
	}
	for l := range lost {
		times[l.event]-- // it may have been sent before its worker died, and not have been recorded
	}
	for id, n := range times {
		if !events[id] {
			t.Errorf("%s was delivered and is in no log", id)
		}
		if n > 1 {
			t.Errorf("%s came %d times more than workers died over it", id, n-1)
		}
	}
	t.Logf("%d events, %d came again, %d were on their way at a kill", len(events), len(in.all())-len(events), len(lost))
}

// lostAttempt is an attempt that was under way when its worker was killed.
type lostAttempt struct {
	event  string
	number int
}

// tryPay makes a payment unless Redis is away.
func (s *shop) tryPay(t *testing.T) bool {
	a, err := s.Account(t.Context(), s.Caller.Organization, s.account)
	if err != nil {
		return false
	}
	amount := tollgate.Money{Minor: 1000, Currency: "EUR"}
	payee, err := tollgate.ParsePayee("shop.example")
	if err != nil {
		t.Fatal(err)
	}
	ch, err := tollgate.CreatePayment(s.NewID, s.Origin(s.Caller), tollgate.NewPayment{
		MerchantAccountID: a.ID, Amount: amount, Payee: "shop.example", CaptureMethod: tollgate.CaptureManual, CaptureWindowHours: a.CaptureWindowHours,
	}, a.Perimeter.Decide(amount, payee, s.Clock.Now()), tollgate.Pricing{Input: tollgate.PricingInput{Amount: amount, Payee: "shop.example"}}, nil)
	if err != nil {
		t.Error(err)
		return false
	}
	idem := rediskv.Idempotency{Scope: a.ID + ":payments.create", Key: ch.Payment.ID, Fingerprint: strings.Repeat("f", 64)}
	_, err = s.CreatePayment(t.Context(), s.Caller, idem, a, ch, rediskv.Answer{Status: 201})
	var e *tollgate.Error
	if err != nil && (!errors.As(err, &e) || e.Code != tollgate.CodeStoreUnavailable) {
		t.Error(err)
	}
	return err == nil
}

// all walks the pages of an endpoint's deliveries.
func (s *shop) all(t *testing.T, hook string) (rows []tollgate.Delivery, pages int) {
	t.Helper()
	for q := (webhooks.DeliveryQuery{Limit: 100}); ; pages++ {
		page, next, more, err := s.Deliveries(t.Context(), s.Caller, hook, q)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page...)
		if q.After = next; !more {
			return rows, pages
		}
	}
}
