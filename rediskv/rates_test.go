package rediskv_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/redistest"
)

// onlyOne counts a request of a caller that may do one an hour.
func onlyOne(c rediskv.Caller, kind gcra.Kind) *gcra.Count {
	return &gcra.Count{Kind: kind, Of: c.Actor.ClientID, Limit: gcra.Limit{Rate: 1, Period: time.Hour, Burst: 1}}
}

// counting is a caller's next request, which counts in a limit.
func counting(c rediskv.Caller, kind gcra.Kind, l gcra.Limit) rediskv.Caller {
	c.Rate = &gcra.Count{Kind: kind, Of: c.Actor.ClientID, Limit: l}
	return c
}

// TestRateLimit: Redis admits a burst at once and then the steady rate, by its own
// time; each client and each kind has a bucket. A request counts in the first script
// that it runs, whatever that answers, and in no other.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limit := gcra.Limit{Rate: 1, Period: time.Hour, Burst: 5}
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	read := func(c rediskv.Caller) error { _, _, err := f.Payment(t.Context(), c, p.ID); return err }
	for n := range int64(5) {
		c := counting(f.Caller, gcra.Reads, limit)
		for range 3 {
			must(t, read(c))
		}
		if s, ok := c.Rate.State(); !ok || s.Remaining != 4-n || s.Refused() || s.Reset > time.Duration(n+1)*time.Hour || s.Reset < time.Duration(n+1)*time.Hour-time.Minute {
			t.Fatalf("request %d: %+v, %v", n, s, ok)
		}
	}
	last := counting(f.Caller, gcra.Reads, limit)
	if err := read(last); code(err) != "rate_limited" {
		t.Errorf("one too many: %v", err)
	}
	if s, _ := last.Rate.State(); s.Remaining != 0 || s.Retry > time.Hour || s.Retry < 59*time.Minute {
		t.Errorf("one too many: %+v", s)
	}
	must(t, read(counting(f.Caller, gcra.Writes, limit)))
	other := counting(f.Caller, gcra.Reads, limit)
	other.Rate.Of = f.Caller.Actor.GrantID
	must(t, read(other))
	must(t, read(f.Caller))
}

// What is refused is not carried out, and leaves no record: the same request is a
// first one when it comes again.
func TestLimitedRequestWritesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, raw := f.MerchantAccount(t), rawClient(t, f.URL)
	ch, ans := f.Draft(t, a, eur(1000), "shop.example", tollgate.CaptureManual)
	c := f.Caller
	c.Rate = onlyOne(c, gcra.Writes)
	must(t, f.Audit(t.Context(), c, tollgate.AuditEntry{Type: "request.refused", Outcome: "refused"}))
	before := keyspace(t, raw)
	c.Rate = onlyOne(c, gcra.Writes)
	if _, err := f.CreatePayment(t.Context(), c, f.Key("one"), a, ch, ans); code(err) != "rate_limited" {
		t.Fatalf("one too many: %v", err)
	}
	c.Rate = onlyOne(c, gcra.Writes)
	if err := f.Audit(t.Context(), c, tollgate.AuditEntry{Type: "request.refused", Outcome: "refused"}); code(err) != "rate_limited" {
		t.Fatalf("one too many: %v", err)
	}
	for key, value := range keyspace(t, raw) {
		if before[key] != value {
			t.Errorf("%s was %q and is %q", key, before[key], value)
		}
	}
	must(t, raw.Del(t.Context(), f.Space(c.Organization).Rate(c.Actor.ClientID, gcra.Writes)).Err())
	c.Rate = onlyOne(c, gcra.Writes)
	r, err := f.CreatePayment(t.Context(), c, f.Key("one"), a, ch, ans)
	must(t, err)
	if r.Repeated {
		t.Error("the refusal was remembered")
	}
}

// A bucket that holds anything but a time that may come is full or fills up in time.
func TestUnreadableBucket(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	raw, limit := rawClient(t, f.URL), gcra.Limit{Rate: 1, Period: time.Hour, Burst: 2}
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	key := f.Space(f.Caller.Organization).Rate(f.Caller.Actor.ClientID, gcra.Reads)
	for _, test := range []struct {
		value     string
		remaining int64
	}{{"nan", 1}, {"inf", 1}, {"", 1}, {"-1", 1}, {"0x10", 1}, {"1e300", 1}, {"17", 1}, {"123456789012345678901234567890", 1}, {"9999999999999999", 0}} {
		must(t, raw.Set(t.Context(), key, test.value, 0).Err())
		c := counting(f.Caller, gcra.Reads, limit)
		_, _, err := f.Payment(t.Context(), c, p.ID)
		s, _ := c.Rate.State()
		if refused := test.remaining == 0; (code(err) == "rate_limited") != refused || s.Remaining != test.remaining || s.Retry > time.Hour {
			t.Errorf("%q: %v, %+v", test.value, err, s)
		}
	}
	must(t, raw.Del(t.Context(), key).Err())
	must(t, raw.HSet(t.Context(), key, "a", "b").Err())
	c := counting(f.Caller, gcra.Reads, limit)
	_, _, err := f.Payment(t.Context(), c, p.ID)
	must(t, err)
	if s, _ := c.Rate.State(); s.Remaining != 1 {
		t.Errorf("a hash: %+v", s)
	}
}

// The bucket goes by itself when it is full.
func TestBucketsExpire(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	_, _, err := f.Payment(t.Context(), counting(f.Caller, gcra.Reads, gcra.Limit{Rate: 1, Period: time.Minute, Burst: 3}), p.ID)
	must(t, err)
	left := rawClient(t, f.URL).PTTL(t.Context(), f.Space(f.Caller.Organization).Rate(f.Caller.Actor.ClientID, gcra.Reads)).Val()
	if left > time.Minute || left < 50*time.Second {
		t.Errorf("it is kept for %s", left)
	}
}

// A Redis that takes no writes counts nothing, and reads go on.
func TestReadsGoOnWithoutCounting(t *testing.T) {
	t.Parallel()
	server := redistest.Started(t, redistest.Real)
	f := newFixtureAt(t, server.URL)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	raw := rawClient(t, server.URL)
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	for range 3 {
		c := f.Caller
		c.Rate = onlyOne(c, gcra.Reads)
		_, _, err := f.Payment(t.Context(), c, p.ID)
		must(t, err)
	}
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// Requests of many instances at once are counted one by one.
func TestCountedOneByOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	var asking sync.WaitGroup
	var mutex sync.Mutex
	admitted, seen := 0, map[string]bool{}
	for range 40 {
		asking.Go(func() {
			c := counting(f.Caller, gcra.Reads, gcra.Limit{Rate: 1, Period: time.Hour, Burst: 25})
			_, _, err := f.Payment(context.WithoutCancel(t.Context()), c, p.ID)
			s, _ := c.Rate.State()
			mutex.Lock()
			defer mutex.Unlock()
			if err == nil {
				admitted++
				seen[strconv.FormatInt(s.Remaining, 10)] = true
			} else if code(err) != "rate_limited" {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if admitted != 25 || len(seen) != 25 {
		t.Errorf("%d were admitted, with %d different rests", admitted, len(seen))
	}
}

// A change whose reply is lost is not refused when it is sent again, although its client
// may do no more: it finds its own first run, even without an Idempotency-Key.
func TestOwnRunIsNotRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	wire := redistest.Proxy(t, server.Addr)
	through := f.with(t, rediskv.Options{URL: wire.URL})
	p, ticket := f.Read(t, f.Pay(t, eur(1000), tollgate.CaptureManual).ID)
	ch, err := tollgate.TransitionPayment(f.NewID, f.Origin(f.Caller), p, ticket, tollgate.TriggerCancel, nil)
	must(t, err)
	lost := wire.SwallowReplyAfter("EVALSHA "+hashOf("change_payment"), func() {})
	c := f.Caller
	c.Rate = onlyOne(c, gcra.Writes)
	_, err = through.Transition(t.Context(), c, nil, nil, ch, rediskv.Answer{Status: 200, Body: []byte("{}")})
	must(t, err)
	<-lost
	if after, _ := f.Read(t, p.ID); after.Status != tollgate.Canceled {
		t.Errorf("it is %s", after.Status)
	}
}
