package rediskv_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payouts"
	"tollgate/rediskv/redistest"
)

func TestCreatePaymentIsReadBack(t *testing.T) {
	f := newFixture(t)
	a := f.MerchantAccount(t)
	for _, c := range []struct {
		payee  string
		method tollgate.CaptureMethod
		status tollgate.PaymentStatus
		event  tollgate.EventType
	}{
		{"shop.example", tollgate.CaptureManual, tollgate.Authorized, tollgate.PaymentAuthorized},
		{"shop.example", tollgate.CaptureAutomatic, tollgate.Captured, tollgate.PaymentCaptured},
		{"deny.test", tollgate.CaptureManual, tollgate.Declined, tollgate.PaymentDeclined},
	} {
		ch, ans := f.Draft(t, a, eur(1050), c.payee, c.method)
		r, err := f.CreatePayment(t.Context(), f.Caller, f.Key(f.NewID("")), a, ch, ans)
		if err != nil || r.Repeated || !bytes.Equal(r.Body, ans.Body) {
			t.Fatalf("%s: %v %v", c.payee, r, err)
		}
		p, _ := f.Read(t, ch.Payment.ID)
		if again := answer(t, 201, p); !bytes.Equal(again.Body, ans.Body) {
			t.Errorf("read back\n%s\nwas\n%s", again.Body, ans.Body)
		}
		if p.Status != c.status || ch.Event.Type != c.event {
			t.Errorf("%s %s: %s by %s, want %s by %s", c.payee, c.method, p.Status, ch.Event.Type, c.status, c.event)
		}
	}
	f.audit(t)
}

// Amounts up to the largest are exact: Lua and a sorted set's scores would
// round or print 1e+14.
func TestAmountsAreExact(t *testing.T) {
	f := newFixture(t)
	for _, c := range []tollgate.Currency{"JPY", "EUR", "BHD", "CLF"} {
		for _, minor := range []int64{1, 99_999_999_999_999, 100_000_000_000_000, 100_000_000_000_001, 999_999_999_999_998, tollgate.MaxMinor} {
			m := tollgate.Money{Minor: minor, Currency: c}
			p := f.Pay(t, m, tollgate.CaptureManual)
			if p.Amount != m || p.AmountCapturable != m {
				t.Errorf("%s %s came back as %s, %s capturable", m, c, p.Amount, p.AmountCapturable)
			}
			if minor > 1 {
				if err := f.Capture(t.Context(), p.ID, minor-1, true); err != nil {
					t.Fatal(err)
				}
				p, ticket := f.Read(t, p.ID)
				if p.AmountCaptured.Minor != minor-1 || p.AmountReleased.Minor != 1 || ticket.Amount != m {
					t.Errorf("%s %s: captured %s, released %s, ticket %s", m, c, p.AmountCaptured, p.AmountReleased, ticket.Amount)
				}
			}
		}
	}
	f.audit(t)
}

func TestSixtyFourTwins(t *testing.T) {
	f := newFixture(t)
	a := f.MerchantAccount(t)
	idem := f.Key("twin")
	var first, repeated atomic.Int64
	bodies := make([][]byte, 64)
	var g sync.WaitGroup
	for i := range bodies {
		ch, ans := f.Draft(t, a, eur(2000), "shop.example", tollgate.CaptureManual)
		g.Go(func() {
			r, err := f.CreatePayment(t.Context(), f.Caller, idem, a, ch, ans)
			if err != nil {
				t.Error(err)
			}
			if bodies[i], err = f.Given(t.Context(), r); err != nil {
				t.Error(err)
			}
			if r.Repeated {
				repeated.Add(1)
			} else {
				first.Add(1)
			}
		})
	}
	g.Wait()
	for _, b := range bodies {
		if !bytes.Equal(b, bodies[0]) {
			t.Fatalf("two answers:\n%s\n%s", b, bodies[0])
		}
	}
	if first.Load() != 1 || repeated.Load() != 63 {
		t.Errorf("%d first answers, %d repeated", first.Load(), repeated.Load())
	}
	if l := f.audit(t); len(l.payments) != 1 {
		t.Errorf("%d payments", len(l.payments))
	}
	other := idem
	other.Fingerprint = strings.Repeat("f", 64)
	ch, ans := f.Draft(t, a, eur(2001), "shop.example", tollgate.CaptureManual)
	if _, err := f.CreatePayment(t.Context(), f.Caller, other, a, ch, ans); code(err) != string(tollgate.CodeIdempotencyKeyReused) {
		t.Errorf("another request under the key: %v", err)
	}
}

func TestStaleConfigurationIsNoticed(t *testing.T) {
	f := newFixture(t)
	for name, change := range map[string]func(*tollgate.Config){
		"account":      func(c *tollgate.Config) { c.MerchantAccounts[0].Name += "!" },
		"organization": func(c *tollgate.Config) { c.Organization.Name += "!" },
	} {
		a := f.MerchantAccount(t)
		ch, ans := f.Draft(t, a, eur(100), "shop.example", tollgate.CaptureManual)
		change(&f.Config)
		other := open(t, f.URL, f.Clock)
		if _, err := redistest.Provision(t.Context(), other, f.Config, false); err != nil {
			t.Fatal(err)
		}
		if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key(name), a, ch, ans); !errors.Is(err, rediskv.ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
		f.Refresh(f.Caller.Organization)
		if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key(name), f.MerchantAccount(t), ch, ans); err != nil {
			t.Errorf("%s, refreshed: %v", name, err)
		}
	}
	f.audit(t)
}

func TestRevokedGrantCommitsNothing(t *testing.T) {
	f := newFixture(t)
	p := f.Pay(t, eur(100), tollgate.CaptureManual)
	f.Config.Grants[0].Status = "revoked"
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
	a := f.MerchantAccount(t)
	ch, ans := f.Draft(t, a, eur(100), "shop.example", tollgate.CaptureManual)
	want := string(tollgate.CodeTokenInvalid)
	if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key("k"), a, ch, ans); code(err) != want {
		t.Errorf("create: %v", err)
	}
	if _, _, err := f.Payment(t.Context(), f.Caller, p.ID); code(err) != want {
		t.Errorf("read payment: %v", err)
	}
	if _, err := f.Ticket(t.Context(), f.Caller, p.TicketID); code(err) != want {
		t.Errorf("read ticket: %v", err)
	}
	if _, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 1}); code(err) != want {
		t.Errorf("events: %v", err)
	}
	for _, q := range []ledger.TransactionQuery{{Limit: 1}, {Limit: 1, PaymentID: p.ID}} {
		if _, _, _, err := f.Transactions(t.Context(), f.Caller, q); code(err) != want {
			t.Errorf("transactions: %v", err)
		}
	}
	if _, _, err := f.ReadResource(t.Context(), f.Caller, "organization", f.Caller.Organization); code(err) != want {
		t.Errorf("read organization: %v", err)
	}
	f.Caller.GrantVersion = 2
	if l := f.audit(t); len(l.payments) != 1 {
		t.Errorf("%d payments", len(l.payments))
	}
}

// Whatever races, no more is captured than was authorized.
func TestRacingCapturesNeverExceed(t *testing.T) {
	f := newFixture(t)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	var done atomic.Int64
	var g sync.WaitGroup
	for range 16 {
		g.Go(func() {
			for {
				err := f.Capture(t.Context(), p.ID, 150, false)
				if errors.Is(err, rediskv.ErrConflict) {
					continue
				}
				if err == nil {
					done.Add(1)
				} else if c := code(err); c != string(tollgate.CodeCaptureExceeds) && c != string(tollgate.CodePaymentStateInvalid) {
					t.Error(err)
				}
				return
			}
		})
	}
	g.Wait()
	if done.Load() != 6 {
		t.Errorf("%d captures of 150 out of 1000", done.Load())
	}
	f.audit(t)
}

// Whatever races, captures of the same payment among it, no more is refunded than
// was captured.
func TestRacingRefundsNeverExceed(t *testing.T) {
	f := newFixture(t)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	must(t, f.Capture(t.Context(), p.ID, 400, false))
	var g sync.WaitGroup
	again := func(do func() error, refused tollgate.Code) {
		g.Go(func() {
			for {
				err := do()
				if errors.Is(err, rediskv.ErrConflict) {
					continue
				}
				if err != nil && code(err) != string(refused) {
					t.Error(err)
				}
				return
			}
		})
	}
	for range 12 {
		again(func() error { return f.GiveBack(t.Context(), p.ID, 150, false) }, tollgate.CodeRefundExceeds)
		again(func() error { return f.Capture(t.Context(), p.ID, 50, false) }, tollgate.CodePaymentStateInvalid)
	}
	g.Wait()
	if p, _ = f.Read(t, p.ID); p.AmountCaptured != eur(1000) || p.AmountRefunded.Minor%150 != 0 || p.Refunds < 2 || p.Refunds > 6 {
		t.Errorf("captured %s, refunded %s in %d", p.AmountCaptured, p.AmountRefunded, p.Refunds)
	}
	f.audit(t)
}

// A deadline that has passed ends what can be captured, and no refund.
func TestRefundBehindTheDeadline(t *testing.T) {
	f := newFixture(t)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	must(t, f.Capture(t.Context(), p.ID, 400, false))
	f.Clock.Advance(169 * time.Hour)
	must(t, f.GiveBack(t.Context(), p.ID, 100, false))
	must(t, f.ExpirePayment(t.Context(), f.Caller.Organization, p.ID))
	must(t, f.GiveBack(t.Context(), p.ID, 300, false))
	if p, _ = f.Read(t, p.ID); p.Status != tollgate.Captured || p.AmountRefunded != eur(400) || p.AmountReleased != eur(600) {
		t.Errorf("%s: refunded %s, released %s", p.Status, p.AmountRefunded, p.AmountReleased)
	}
	f.audit(t)
}

// After any sequence of operations everything still adds up.
func TestRandomSequences(t *testing.T) {
	f := newFixture(t)
	random := rand.New(rand.NewPCG(7, 11))
	var ids []string
	var mu sync.Mutex
	pick := func() (string, int64, int) {
		mu.Lock()
		defer mu.Unlock()
		return ids[random.IntN(len(ids))], random.Int64N(600) + 1, random.IntN(10)
	}
	for range 12 {
		method := tollgate.CaptureManual
		if random.IntN(4) == 0 {
			method = tollgate.CaptureAutomatic
		}
		ids = append(ids, f.Pay(t, eur(random.Int64N(2000)+1), method).ID)
	}
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 40 {
				id, amount, what := pick()
				var err error
				switch what {
				case 0:
					err = f.Move(t.Context(), id, tollgate.TriggerCancel)
				case 1:
					f.Clock.Advance(4 * time.Hour)
					err = f.ExpirePayment(t.Context(), f.Caller.Organization, id)
				case 3, 4, 5:
					err = f.GiveBack(t.Context(), id, amount, what == 3)
				default:
					err = f.Capture(t.Context(), id, amount, what == 2)
				}
				switch {
				case err == nil, errors.Is(err, rediskv.ErrConflict):
				case code(err) == string(tollgate.CodePaymentStateInvalid), code(err) == string(tollgate.CodeCaptureExceeds),
					code(err) == string(tollgate.CodeAuthorizationExpired), code(err) == string(tollgate.CodeCaptureLimitReached),
					code(err) == string(tollgate.CodeRefundExceeds), code(err) == string(tollgate.CodeRefundLimitReached):
				default:
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	f.audit(t)
}

func TestExpiry(t *testing.T) {
	f := newFixture(t)
	untouched := f.Pay(t, eur(500), tollgate.CaptureManual)
	partly := f.Pay(t, eur(500), tollgate.CaptureManual)
	if err := f.Capture(t.Context(), partly.ID, 200, false); err != nil {
		t.Fatal(err)
	}
	between := f.Pay(t, eur(500), tollgate.CaptureManual)
	f.Clock.Advance(168*time.Hour - time.Millisecond)
	p, ticket := f.Read(t, between.ID)
	late, err := tollgate.TransitionPayment(f.NewID, f.Origin(f.Caller), p, ticket, tollgate.TriggerCancel, nil)
	if err != nil {
		t.Fatal(err)
	}
	if due := f.due(t); len(due) != 0 {
		t.Errorf("due a millisecond early: %v", due)
	}
	if err := f.ExpirePayment(t.Context(), f.Caller.Organization, untouched.ID); err != nil {
		t.Fatal(err)
	}
	if p, _ := f.Read(t, untouched.ID); p.Status != tollgate.Authorized {
		t.Errorf("%s a millisecond early", p.Status)
	}
	f.Clock.Advance(time.Millisecond)
	if due := f.due(t); len(due) != 3 {
		t.Errorf("due: %v", due)
	}
	// What was computed in time and is committed too late is not made.
	late.Payment.UpdatedAt = f.Now()
	if _, err := f.Transition(t.Context(), f.Caller, nil, nil, late, rediskv.Answer{Status: 200}); code(err) != string(tollgate.CodeAuthorizationExpired) {
		t.Errorf("a cancellation that comes too late: %v", err)
	}
	if p, _ := f.Read(t, between.ID); p.Status != tollgate.Expired {
		t.Errorf("touched too late: %s", p.Status)
	}
	// The capture finds the expiry itself, whether or not the sweeper has run.
	if err := f.Capture(t.Context(), untouched.ID, 1, false); code(err) != string(tollgate.CodeAuthorizationExpired) {
		t.Errorf("capture past the deadline: %v", err)
	}
	if err := f.ExpirePayment(t.Context(), f.Caller.Organization, partly.ID); err != nil {
		t.Fatal(err)
	}
	if p, _ := f.Read(t, untouched.ID); p.Status != tollgate.Expired || p.AmountReleased != eur(500) {
		t.Errorf("untouched: %s, released %s", p.Status, p.AmountReleased)
	}
	if p, _ := f.Read(t, partly.ID); p.Status != tollgate.Captured || p.AmountReleased != eur(300) {
		t.Errorf("partly captured: %s, released %s", p.Status, p.AmountReleased)
	}
	if due := f.due(t); len(due) != 0 {
		t.Errorf("still due: %v", due)
	}
	f.audit(t)
}

func (f *fixture) due(t *testing.T) (mine []payouts.Due) {
	t.Helper()
	for p := range f.Partitions() {
		due, err := f.DuePayments(t.Context(), p, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range due {
			if d.Organization == f.Caller.Organization {
				mine = append(mine, d)
			}
		}
	}
	return mine
}

// A payment is one command to Redis: one EVALSHA and nothing else.
func TestOneRoundTrip(t *testing.T) {
	server := redistest.Single(t)
	wire := redistest.Proxy(t, server.Addr)
	f := newFixtureAt(t, wire.URL)
	f.Pay(t, eur(100), tollgate.CaptureManual) // fills cache and connection
	a := f.MerchantAccount(t)
	wire.Reset()
	ch, ans := f.Draft(t, a, eur(100), "shop.example", tollgate.CaptureManual)
	if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key("one"), a, ch, ans); err != nil {
		t.Fatal(err)
	}
	if sent := wire.Counts(); len(sent) != 1 || sent["EVALSHA"] != 1 {
		t.Errorf("sent %v", sent)
	}
}

// The reply is lost on its way: go-redis sends the script again, and it finds
// its own work.
func TestLostReply(t *testing.T) {
	server := redistest.Single(t)
	wire := redistest.Proxy(t, server.Addr)
	f := newFixtureAt(t, wire.URL)
	a := f.MerchantAccount(t)
	ch, ans := f.Draft(t, a, eur(700), "shop.example", tollgate.CaptureManual)
	lost := wire.SwallowReply("EVALSHA")
	r, err := f.CreatePayment(t.Context(), f.Caller, f.Key("lost"), a, ch, ans)
	if err != nil || r.Repeated {
		t.Fatalf("%v, repeated %v", err, r.Repeated)
	}
	<-lost
	id := ch.Payment.ID
	p, ticket := f.Read(t, id)
	change, err := tollgate.CapturePayment(f.NewID, f.Origin(f.Caller), p, ticket, tollgate.CaptureRequest{Amount: eur(200), SalesDay: f.MerchantAccount(t).Cutoffs.SalesDay(f.Now(), 0)}, f.Price(eur(200), 1))
	if err != nil {
		t.Fatal(err)
	}
	lost = wire.SwallowReply("EVALSHA")
	if _, err := f.Transition(t.Context(), f.Caller, nil, f.MerchantAccount(t), change, rediskv.Answer{Status: 201}); err != nil {
		t.Fatal(err)
	}
	<-lost
	if p, _ := f.Read(t, id); p.AmountCaptured != eur(200) || p.Captures != 1 {
		t.Errorf("captured %s in %d captures", p.AmountCaptured, p.Captures)
	}
	// What has no operation id finds its own audit entry.
	lost = wire.SwallowReply("EVALSHA")
	if _, _, err := f.ReadResource(t.Context(), f.Caller, "organization", f.Caller.Organization); err != nil {
		t.Fatal(err)
	}
	<-lost
	before := f.auditLength(t)
	lost = wire.SwallowReply("EVALSHA")
	if err := f.Audit(t.Context(), f.Caller, tollgate.AuditEntry{Type: "access.denied", Outcome: "denied"}); err != nil {
		t.Fatal(err)
	}
	<-lost
	if n := f.auditLength(t); n != before+1 {
		t.Errorf("%d audit entries for one denial", n-before)
	}
	// Configuration says what it changed although the first reply was lost.
	f.Config.Organization.Name = "renamed"
	lost = wire.SwallowReply("EVALSHA")
	if changes, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil || len(changes) != 1 {
		t.Errorf("changes %v, %v", changes, err)
	}
	<-lost
	if l := f.audit(t); len(l.payments) != 1 {
		t.Errorf("%d payments", len(l.payments))
	}
}

func (f *fixture) auditLength(t testing.TB) int64 {
	t.Helper()
	c := rawClient(t, f.URL)
	keys := scanKeys(t, c, "*:"+f.Caller.Organization+":audit")
	if len(keys) != 1 {
		t.Fatal(keys)
	}
	n, err := c.XLen(t.Context(), keys[0]).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUnreachableRedisIsUnavailable(t *testing.T) {
	t.Parallel() // it waits most of its time
	server := redistest.Single(t)
	wire := redistest.Proxy(t, server.Addr)
	f := newFixtureAt(t, wire.URL).with(t, rediskv.Options{Timeout: rediskv.OperationTimeout})
	a := f.MerchantAccount(t)
	for name, fault := range map[string][2]func(){
		"refused": {wire.Refuse, wire.Accept}, "silent": {wire.Pause, wire.Resume},
	} {
		fault[0]()
		ch, ans := f.Draft(t, a, eur(100), "shop.example", tollgate.CaptureManual)
		start := time.Now()
		_, err := f.CreatePayment(t.Context(), f.Caller, f.Key(name), a, ch, ans)
		if code(err) != string(tollgate.CodeStoreUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 10*rediskv.OperationTimeout { // the machine may stall
			t.Errorf("%s: answered after %s", name, took)
		}
		if _, err := f.Account(t.Context(), f.Caller.Organization, a.ID); err != nil {
			t.Errorf("%s: cached account: %v", name, err)
		}
		f.Refresh(f.Caller.Organization)
		if _, err := f.Account(t.Context(), f.Caller.Organization, a.ID); err != nil {
			t.Errorf("%s: account known to be old: %v", name, err)
		}
		fault[1]()
		until(t, name+": Redis", func() bool { return f.Ping(t.Context()) == nil })
		if name == "silent" { // what was held back arrives afterwards, as a whole
			until(t, "the payment of the silence", func() bool {
				_, _, err := f.Payment(t.Context(), f.Caller, ch.Payment.ID)
				return err == nil
			})
		}
	}
	f.audit(t)
}

// kill -9 of Redis with its append-only file: what was acknowledged is there.
func TestRedisKilled(t *testing.T) {
	server := redistest.Fresh(t)
	f := newFixtureAt(t, server.URL)
	a := f.MerchantAccount(t)
	var acknowledged sync.Map
	var count atomic.Int64
	var g sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		g.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				ch, ans := f.Draft(t, a, eur(100), "shop.example", tollgate.CaptureManual)
				if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key(fmt.Sprint(w, "-", i)), a, ch, ans); err == nil {
					acknowledged.Store(ch.Payment.ID, true)
					count.Add(1)
				}
			}
		})
	}
	for range 2 {
		before := count.Load()
		until(t, "load", func() bool { return count.Load() >= before+20 })
		server.Kill()
		server.Restart()
	}
	close(stop)
	g.Wait()
	until(t, "Redis", func() bool { return f.Ping(t.Context()) == nil })
	l := f.audit(t)
	acknowledged.Range(func(id, _ any) bool {
		if l.payments[id.(string)] == nil {
			t.Errorf("%s was acknowledged and is gone", id)
		}
		return true
	})
}
