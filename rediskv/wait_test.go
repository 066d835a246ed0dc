package rediskv_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/script"
	"tollgate/rediskv/testkit"
)

// With a replica that must have each change, what is acknowledged is on both. When its
// link stops, a change is made and not acknowledged, and a repeat is answered once the
// replica has it.
func TestWaitForReplicas(t *testing.T) {
	t.Parallel() // it waits most of its time
	primary, replica := redistest.Replicated(t)
	wire := redistest.Proxy(t, primary.URL)
	shop := testkit.NewShop(t, rediskv.Options{URL: wire.URL, Rules: cards}, testkit.NewClock(), nil)
	replica.Follow(primary)
	shop = shop.With(t, rediskv.Options{Rules: cards, WaitReplicas: 1, Timeout: 4 * time.Second})
	testkit.Eventually(t, "the replica follows", func() bool { return shop.Beat(t.Context()) == health.Written })
	ctx, key := t.Context(), shop.Key("waits")
	a := shop.MerchantAccount(t)
	pay := func() (rediskv.Result, error) {
		t.Helper()
		ch, ans := shop.Draft(t, a, testkit.EUR(1000), "shop.example", tollgate.CaptureManual)
		return shop.CreatePayment(ctx, shop.Caller, key, a, ch, ans)
	}

	shop.Pay(t, testkit.EUR(500), tollgate.CaptureManual)
	wire.Reset()
	first := shop.Pay(t, testkit.EUR(500), tollgate.CaptureManual)
	sent := wire.Counts()
	delete(sent, "HGETALL") // the test reads what it paid
	if sent["EVALSHA"] == 0 || sent["WAIT"] == 0 || slices.Contains(slices.Collect(maps.Keys(sent)), "SCRIPT") {
		t.Errorf("a payment sends %v", sent)
	}
	if n, err := rawClient(t, replica.URL).Exists(ctx, shop.Space(shop.Caller.Organization).Object(first.ID)).Result(); err != nil || n != 1 {
		t.Errorf("the replica has not what was acknowledged: %d, %v", n, err)
	}
	if err := primary.Command("SCRIPT", "FLUSH"); err != nil { // as after a failover
		t.Fatal(err)
	}
	shop.Pay(t, testkit.EUR(500), tollgate.CaptureManual)

	for name, link := range map[string]struct{ stop, resume func() }{
		"gone":      {replica.Unfollow, func() { replica.Follow(primary) }},
		"half open": {func() { replica.HangNode(0) }, func() { replica.ResumeNode(0) }},
	} {
		key = shop.Key(name)
		link.stop()
		testkit.Eventually(t, name+": the replica is missed", func() bool { return shop.Beat(ctx) == health.TooFewReplicas })
		_, err := pay()
		if e, ok := errors.AsType[*tollgate.Error](err); !ok || e.Code != tollgate.CodeStoreUnavailable || !errors.Is(err, rediskv.ErrTooFewReplicas) ||
			!strings.Contains(e.Message, "may have been made") || !strings.Contains(e.Message, "same Idempotency-Key") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := pay(); !errors.Is(err, rediskv.ErrTooFewReplicas) {
			t.Errorf("%s: a repeat is answered with what one server has: %v", name, err)
		}
		if _, _, err := shop.FindRepeated(ctx, shop.Caller, key); !errors.Is(err, rediskv.ErrTooFewReplicas) {
			t.Errorf("%s: what one server has is found: %v", name, err)
		}
		link.resume()
		testkit.Eventually(t, name+": a repeat is answered", func() bool {
			r, err := pay()
			return err == nil && r.Repeated
		})
	}
}

// A master that becomes a replica of another one answers WAIT with an error. What it had
// changed may be lost: nobody is told that it was made, or that something is wrong here.
func TestMasterIsDemotedMeanwhile(t *testing.T) {
	t.Parallel()
	primary, other := redistest.Replicated(t)
	shop := testkit.NewShop(t, rediskv.Options{URL: primary.URL, Rules: cards}, testkit.NewClock(), nil)
	shop = shop.With(t, rediskv.Options{Rules: cards, WaitReplicas: 1, Timeout: 30 * time.Second})
	c, a := rawClient(t, primary.URL), shop.MerchantAccount(t)
	failed := make(chan error, 1)
	go func() {
		ch, ans := shop.Draft(t, a, testkit.EUR(1000), "shop.example", tollgate.CaptureManual)
		_, err := shop.CreatePayment(t.Context(), shop.Caller, shop.Key("demoted"), a, ch, ans)
		failed <- err
	}()
	testkit.Eventually(t, "a change waits for a replica", func() bool {
		info, err := c.Info(t.Context(), "clients").Result()
		return err == nil && strings.Contains(info, "blocked_clients:1")
	})
	primary.Follow(other)
	if err := <-failed; !errors.Is(err, rediskv.ErrTooFewReplicas) {
		t.Errorf("the change is answered %v", err)
	}
}

// In a cluster both commands go to the master of the keys.
func TestWaitInACluster(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("only a cluster has several masters")
	}
	f := newFixture(t)
	s := f.With(t, rediskv.Options{Rules: cards, WaitReplicas: 1, Timeout: 2 * time.Second})
	a := s.MerchantAccount(t)
	ch, ans := s.Draft(t, a, testkit.EUR(1000), "shop.example", tollgate.CaptureManual)
	if _, err := s.CreatePayment(t.Context(), s.Caller, s.Key("k"), a, ch, ans); !errors.Is(err, rediskv.ErrTooFewReplicas) {
		t.Errorf("there are no replicas: %v", err)
	}
	ch, ans = f.Draft(t, a, testkit.EUR(1000), "shop.example", tollgate.CaptureManual)
	if r, err := f.CreatePayment(t.Context(), f.Caller, f.Key("k"), a, ch, ans); err != nil || !r.Repeated {
		t.Errorf("what was not acknowledged is a repeat for whoever does not wait: %v %v", r.Repeated, err)
	}
}

// Scripts that wait for nobody are there, and none of them answers a client.
func TestUnwaitedScriptsAreThere(t *testing.T) {
	for _, name := range rediskv.Unwaited() {
		if !slices.ContainsFunc(script.All(), func(s *script.Named) bool { return s.Name == name }) {
			t.Errorf("there is no script %s", name)
		}
	}
}

// BenchmarkWaitForReplicas pays on a primary with a replica, whose copy of each change
// nobody waits for (0), or everybody (1).
func BenchmarkWaitForReplicas(b *testing.B) {
	primary, replica := redistest.Replicated(b)
	shop := testkit.NewShop(b, rediskv.Options{URL: primary.URL, Rules: cards}, testkit.NewClock(), nil)
	replica.Follow(primary)
	for n := range 2 {
		payer := shop.With(b, rediskv.Options{Rules: cards, WaitReplicas: n, Timeout: 10 * time.Second})
		testkit.Eventually(b, "the replica follows", func() bool { return payer.Beat(b.Context()) == health.Written })
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					payer.Pay(b, testkit.EUR(500), tollgate.CaptureManual)
				}
			})
		})
	}
}
