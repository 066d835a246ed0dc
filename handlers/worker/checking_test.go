package worker_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers/worker"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// checked is an observer of what a worker checks.
type checked struct {
	worker.Unobserved
	mu      sync.Mutex
	objects int
	kinds   []string
}

func (c *checked) Checked(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects += n
}

func (c *checked) CheckFound(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = append(c.kinds, kind)
}

func (c *checked) found(kind consistency.FindingKind) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.kinds {
		if k == string(kind) {
			n++
		}
	}
	return n
}

// A worker finds what does not agree, again and again, and tells of it: in its log, in
// a metric, and once by an event. At rate 0 it looks at nothing.
func TestWorkerChecks(t *testing.T) {
	s := newShop(t, redistest.Fresh(t).URL)
	id := s.pay(t, 1000)
	k := s.Space(s.Caller.Organization)
	member := testkit.TransactionOf(t, s.Redis, k, tollgate.AuthorizationOf(id)).Member()
	if err := s.Redis.ZRem(t.Context(), k.TransactionsOf(s.Config.MerchantAccounts[0].ID), member).Err(); err != nil {
		t.Fatal(err)
	}
	off := &checked{}
	stop := s.work(t, worker.Config{Observer: off})
	seen, log := &checked{}, &testkit.Log{}
	for times := 1; times <= 2; times++ {
		stopChecking := s.work(t, worker.Config{Observer: seen, Log: slog.New(slog.NewTextHandler(log, nil)), CheckRate: 100_000})
		before := seen.found(consistency.FindingIndex)
		testkit.Eventually(t, "the finding", func() bool { return seen.found(consistency.FindingIndex) > before })
		stopChecking()
		for p := range s.Partitions() { // they rest no longer
			if err := s.LeaveCheck(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	if !log.Has("a check has found something") {
		t.Error("the log does not say so")
	}
	if n := s.events(t, tollgate.IntegrityFailed); len(n) != 1 {
		t.Errorf("events: %v", n)
	}
	if off.objects != 0 {
		t.Errorf("%d objects were checked at rate 0", off.objects)
	}
	var found []checks.Finding
	for _, f := range testkit.Findings(t, s.Store) {
		found = append(found, f)
		if err := s.Repair(t.Context(), f); err != nil && !strings.Contains(err.Error(), "changed") {
			t.Error(err)
		}
	}
	if len(found) == 0 {
		t.Error("nothing is left to repair")
	}
	testkit.Consistent(t, s.Store)
}

// A walk goes on where the last one stopped, whoever made that, and a partition that
// was walked through rests.
func TestChecksGoOn(t *testing.T) {
	s := newShop(t, redistest.Fresh(t).URL)
	p := s.Space(s.Caller.Organization).Partition
	for range 3 {
		s.pay(t, 100)
	}
	from, taken, err := s.BeginCheck(t.Context(), p, "a", time.Minute)
	if err != nil || !taken || from != (checks.Place{}) {
		t.Fatal(from, taken, err)
	}
	if _, taken, err := s.BeginCheck(t.Context(), p, "b", time.Minute); err != nil || taken {
		t.Fatal("two walk through one partition", err)
	}
	at := checks.Place{Organization: s.Caller.Organization, Part: "events", At: "1-0"}
	if err := s.KeepCheck(t.Context(), p, at, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.LeaveCheck(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	from, taken, err = s.BeginCheck(t.Context(), p, "b", time.Minute)
	if err != nil || !taken || from != at {
		t.Fatal(from, taken, err)
	}
	w := &checks.Walk{Found: func(f checks.Finding) { t.Error(f) }}
	if err := s.CheckPartition(t.Context(), p, from, w); err != nil {
		t.Fatal(err)
	}
	if w.Looked["events"] == 0 || w.Looked["payments"] != 0 {
		t.Errorf("from the events on: %v", w.Looked)
	}
	if err := s.EndCheck(t.Context(), p, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, taken, err := s.BeginCheck(t.Context(), p, "c", time.Minute); err != nil || taken {
		t.Fatal("it does not rest", err)
	}
}
