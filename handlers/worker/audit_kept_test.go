package worker_test

import (
	"testing"
	"time"

	"tollgate/handlers/worker"
	"tollgate/rediskv/redistest"
)

// TestAuditIsKept: a worker removes entries of the audit record after 400 days,
// or after what it is told, and none before. Entries have Redis' time.
func TestAuditIsKept(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	s.pay(t, 1000)
	const day = 24 * time.Hour
	trimmed := func(after, keep time.Duration) int {
		t.Helper()
		w := newWorker(t, worker.Config{
			Store: s.Store, Clock: s.Clock.Now, Wall: func() time.Time { return time.Now().Add(after) }, KeepEvents: 10_000 * day, KeepAudit: keep,
		})
		n, err := w.TrimRound(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct{ after, keep time.Duration }{{399 * day, 0}, {401 * day, 402 * day}} {
		if n := trimmed(c.after, c.keep); n != 0 {
			t.Errorf("after %s, kept for %s: %d entries are gone", c.after, c.keep, n)
		}
	}
	if n := trimmed(401*day, 0); n == 0 {
		t.Error("after 401 days none is gone")
	}
}
