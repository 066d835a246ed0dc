package rediskv_test

import (
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/webhooks"
)

// slot is the cluster slot of the fixture's partition; node i of three has the
// i-th third of all 16384.
func (f *fixture) slot(t testing.TB) int64 {
	t.Helper()
	c, key := f.raw(t)
	slot, err := c.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// fixtureIn is a fixture whose partition lies in some slots.
func fixtureIn(t testing.TB, url string, first, last int64) *fixture {
	t.Helper()
	for range 500 {
		f := newFixtureAt(t, url)
		if slot := f.slot(t); first <= slot && slot <= last {
			return f
		}
	}
	t.Fatalf("no partition in the slots %d to %d", first, last)
	return nil
}

// While one master of a cluster hangs, attempts are recorded on the others
// before it is given up.
func TestRecordBesideHungMaster(t *testing.T) {
	if redistest.Kind(t) != redistest.Cluster {
		t.Skip("needs a cluster")
	}
	server := redistest.Fresh(t)
	healthy, sick := fixtureIn(t, server.URL, 8192, 10921), fixtureIn(t, server.URL, 10922, 16383) // neighbors on two masters
	ended := func(f *fixture) (list []webhooks.Ended) {
		f.endpoint(t)
		for range 8 {
			f.Pay(t, eur(100), tollgate.CaptureManual)
		}
		f.fanOut(t, "a")
		for _, w := range f.take(t, 8) {
			list = append(list, f.ended(w, succeeded))
		}
		return list
	}
	good, bad := ended(healthy), ended(sick)
	// Long enough that nobody takes a stall of the machine for the hang.
	healthy = healthy.with(t, rediskv.Options{Timeout: 5 * time.Second})
	server.HangNode(2)
	failed := make(chan error, len(bad))
	for i := range bad {
		go func() {
			_, err := healthy.RecordAttempts(t.Context(), bad[i:i+1])
			failed <- err
		}()
	}
	for i := range good {
		r, err := healthy.RecordAttempts(t.Context(), good[i:i+1])
		if err != nil || r[0].Late {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
	}
	if len(failed) > 0 {
		t.Error("what goes to a healthy master waits for the one that hangs")
	}
	for range bad {
		if err := <-failed; code(err) != string(tollgate.CodeStoreUnavailable) {
			t.Errorf("on the master that hangs: %v", err)
		}
	}
}
