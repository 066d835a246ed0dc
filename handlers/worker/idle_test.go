package worker_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/loop"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// through opens a store that a wire counts the commands of.
func through(t *testing.T, wire *redistest.Wire, c *clock) *store.Store {
	t.Helper()
	return openWith(t, rediskv.Options{URL: wire.URL, Clock: c.Now, Observe: c.observe})
}

// While nothing happens a worker sends, for all partitions, no more than the word
// that it waits for events, and once in twenty of those waits a look at what falls
// due: one command for each partition.
func TestIdleWorkerSleeps(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := newShop(t, server.URL)
	wire := redistest.Proxy(t, server.Addr)
	const interval = 50 * time.Millisecond
	s.work(t, worker.Config{Store: through(t, wire, s.Clock), Interval: interval})
	// All partitions are quiet once a reading asks for all of them.
	until(t, "one reader for all partitions", func() bool {
		for _, c := range wire.Sent() {
			if c.Name == "XREADGROUP" && len(c.Args) > 2*partitions+5 {
				return true
			}
		}
		return false
	})
	rounds := func() int { return int(s.Clock.looks.Load()) / partitions }
	since := rounds()
	until(t, "a look everywhere", func() bool { return rounds() > since+1 })
	wire.Reset()
	since = rounds()
	const watched = 5
	until(t, "some looks everywhere", func() bool { return rounds() >= since+watched })
	counts := wire.Counts()
	// One reading an interval, of which looksApart are in a round; a gauge for each
	// partition in less than a round.
	reads, all := counts["XREADGROUP"], 0
	for name, n := range counts {
		all += n
		// Twice a minute it looks how long the logs are, and whether all is posted.
		if !slices.Contains([]string{"XREADGROUP", "EVALSHA", "ZRANGE", "PING", "INFO", "SMEMBERS", "XLEN", "MEMORY", "HGET", "GET"}, name) {
			t.Errorf("%d of %s", n, name)
		}
	}
	const rounded = watched + 2 // the first and the last are parts of one
	if reads > 25*rounded || counts["EVALSHA"] > partitions*rounded || counts["ZRANGE"] > 2*partitions*rounded {
		t.Errorf("in %d looks everywhere at %d partitions: %v", watched, partitions, counts)
	}
	if all == 0 {
		t.Error("nothing was counted")
	}
}

// The first attempt begins because an event comes, and a replay, a test delivery and
// a job because somebody asks: no clock has to tick.
func TestNothingWaitsForATick(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	in := newInbox(t)
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	metrics := observe()
	s.work(t, worker.Config{Interval: time.Hour, Observer: metrics})
	for n := range 3 { // the first partition to hear of one is quiet; then it is busy
		s.pay(t, 1000)
		until(t, "the delivery", func() bool { return len(in.all()) == n+1 })
	}
	until(t, "their records", func() bool { return metrics.of("attempted succeeded") == 3 })
	d := s.deliveries(t, hook)[0]
	r, err := tollgate.ReplayDelivery(s.NewID, s.Origin(s.Caller), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CommitReplay(t.Context(), s.Caller, nil, r, rediskv.Answer{Status: 202}); err != nil {
		t.Fatal(err)
	}
	until(t, "the replay", func() bool { return len(in.all()) == 4 })
	ping, err := tollgate.PingWebhook(s.NewID, s.Origin(s.Caller), s.webhook(t, hook))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CommitPing(t.Context(), s.Caller, nil, ping, rediskv.Answer{Status: 202}); err != nil {
		t.Fatal(err)
	}
	until(t, "the test delivery", func() bool { return len(in.all()) == 5 })
	jobs := metrics.of("rounds jobs")
	s.remove(t, hook)
	until(t, "the job of a deletion", func() bool { return metrics.of("rounds jobs") > jobs })
}

// Two workers whose machines' clocks are twenty minutes apart send each event once.
func TestSkewedWorkersSendOnce(t *testing.T) {
	address := redistest.URL(t)
	s := newShop(t, address)
	in := newInbox(t)
	var late atomic.Int32
	in.answers(func(http.ResponseWriter, *http.Request) {
		if late.Add(1)%4 == 0 {
			time.Sleep(30 * time.Millisecond) // some are under way while the other worker looks
		}
	})
	hook := s.hook(t, in.url, nil, newKey(t, 1, tollgate.SignatureV1))
	for _, apart := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		c := func() time.Time { return s.Clock.Now().Add(apart) }
		runs(t, newWorker(t, worker.Config{
			Store: openWith(t, rediskv.Options{URL: address, Clock: c, Observe: s.Clock.observe}), Clock: c, Development: true, Interval: 10 * time.Millisecond,
		}))
	}
	const payments = 60
	for range payments {
		s.pay(t, 1000)
	}
	until(t, "all deliveries", func() bool {
		n := 0
		for _, d := range s.deliveries(t, hook) {
			if d.State == tollgate.DeliverySucceeded {
				n++
			}
			if d.AttemptCount > 1 {
				t.Errorf("%d attempts of %s", d.AttemptCount, d.ID)
			}
		}
		s.Clock.Advance(time.Minute) // what the fast one has queued is due for the slow one, too
		return n == payments
	})
	if n := len(in.all()); n != payments {
		t.Errorf("%d requests for %d events", n, payments)
	}
}

// In a partition without organizations a worker has a look at what falls due, and at
// nothing else until there is one.
func TestVacantPartitions(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := newShop(t, server.URL)
	wire := redistest.Proxy(t, server.Addr)
	s.work(t, worker.Config{Store: through(t, wire, s.Clock), Interval: 20 * time.Millisecond})
	mine := s.Store.Partition(s.Caller.Organization)
	looks := func() (by [partitions]int) {
		for _, c := range wire.Sent() {
			for p := range by {
				if c.Name == "ZRANGE" && c.Args[0] == rediskv.ReadyKey(p) {
					by[p]++
				}
			}
		}
		return by
	}
	before := looks()
	until(t, "some looks at its queue, and none at others", func() bool {
		now := looks()
		for p := range now {
			if p != mine && now[p] > before[p] { // it may not have known yet
				before = now
			}
		}
		return now[mine] > before[mine]+2
	})
	another := testkit.Organization(s.Store.NewID)
	for s.Store.Partition(another.Organization.ID) == mine {
		another = testkit.Organization(s.Store.NewID)
	}
	another.RuleSets, another.MerchantAccounts = nil, nil
	if _, err := redistest.Provision(t.Context(), s.Store, another, false); err != nil {
		t.Fatal(err)
	}
	until(t, "a look where an organization has come", func() bool {
		p := s.Store.Partition(another.Organization.ID)
		return looks()[p] > before[p]
	})
}

// A chore is not done where nobody is, and is in the next look where somebody has come.
func TestChoresOfVacantPartitions(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.URL(t))
	var done [partitions]atomic.Int64
	var empty atomic.Bool
	empty.Store(true)
	l := loop.New(loop.Config{
		Common: loop.Common{Store: s.Store, Clock: s.Clock.Now, Wall: s.Clock.Now, Log: slog.New(slog.DiscardHandler), Observer: loop.Unobserved{}},
		Name:   "chore", Every: time.Millisecond, Concurrency: 1,
		Vacant: func(p int) bool { return p > 0 && empty.Load() },
		Do: func(_ context.Context, p int) (int, error) {
			done[p].Add(1)
			return 0, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx)
	}()
	until(t, "some rounds", func() bool { return done[0].Load() > 20 })
	if n := done[1].Load() + done[2].Load() + done[3].Load(); n > 0 {
		t.Errorf("%d times where nobody is", n)
	}
	empty.Store(false)
	until(t, "rounds everywhere", func() bool { return done[1].Load() > 0 && done[2].Load() > 0 && done[3].Load() > 0 })
	cancel()
	<-ended
}
