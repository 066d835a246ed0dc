package worker_test

import (
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/keyring"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// A worker makes the next key for access tokens when it is time, and not while its
// clock may be wrong. Without a first one, which an instance makes, it makes none.
func TestWorkerMakesTheNextKey(t *testing.T) {
	t.Parallel()
	s := newShop(t, redistest.URL(t))
	ring, err := keyring.New(keyring.Config{Store: s.Store, Vault: newVault(t, 1), Entropy: rand.Reader, Clock: s.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	keys := func() []keyring.Key {
		r, err := ring.Ring(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r.Keys
	}
	var off atomic.Int64
	off.Store(int64(20 * time.Second))
	store := openWith(t, rediskv.Options{
		URL: s.URL, Clock: s.Clock.Now, Observe: s.Clock.observe, Wall: func() time.Time { return time.Now().Add(time.Duration(off.Load())) },
	})
	if _, err := ring.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(29*24*time.Hour + time.Minute)
	seen := observe()
	s.work(t, worker.Config{Store: store, Observer: seen})
	testkit.Eventually(t, "the clock is compared", func() bool { return seen.of("skipped clock") > 2*partitions })
	if list := keys(); len(list) != 1 {
		t.Errorf("by a wrong clock: %+v", list)
	}
	off.Store(0)
	testkit.Eventually(t, "the clock is right", func() bool { return store.CheckClock(health.ClockTolerance) == nil })
	testkit.Eventually(t, "there is a next key", func() bool { return len(keys()) == 2 })
	if next := keys()[1]; next.ActiveAt != tollgate.At(s.Now().Time().Add(keyring.Ahead)) {
		t.Errorf("it signs from %s, and it is %s", next.ActiveAt, s.Now())
	}
}
