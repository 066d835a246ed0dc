package rediskv_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// TestQuotaOfPerimeters: of two that add perimeters at the same time, one finds
// no room left; what is stored stays usable, and changes that add none pass.
func TestQuotaOfPerimeters(t *testing.T) {
	f := newFixture(t)
	add := func(n, first int) error {
		c := f.Config
		c.Perimeters = nil
		for v := first; v < first+n; v++ {
			c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{
				ID: "per_00000000000000000000000001", Version: int64(v), Constraints: jsontext.Value(fmt.Sprintf(`{"minimum_amount":"%d.00"}`, v)),
			})
		}
		_, err := f.ApplyConfig(t.Context(), c, false)
		return err
	}
	if err := add(1000-4, 1); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var refused atomic.Int32
	for i := range 2 {
		all.Go(func() {
			if err := add(3, 2000+10*i); err != nil {
				if code(err) != string(tollgate.CodeQuotaExceeded) {
					t.Error(err)
				}
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if n := refused.Load(); n != 1 {
		t.Errorf("%d of two were refused", n)
	}
	if err := add(1000-4, 1); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := add(1, 3000); code(err) != string(tollgate.CodeQuotaExceeded) { // with the fixture's own there are 1,000
		t.Errorf("one more: %v", err)
	}
}

// TestTrimAudit: entries that are old enough go, a batch at a time until none is
// left, and nothing else does.
func TestTrimAudit(t *testing.T) {
	f := newFixture(t)
	p := f.Pay(t, eur(100), tollgate.CaptureManual)
	raw := rawClient(t, f.URL)
	key := scanKeys(t, raw, "*:"+f.Caller.Organization+":audit")[0]
	pipe := raw.Pipeline()
	for range 2500 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []any{"b", "{}"}})
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	length := func(stream string) int64 {
		n, err := raw.XLen(t.Context(), stream).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	entries := func() int64 { return length(key) }
	_, log := f.raw(t)
	events := length(log)
	trim := func(until time.Time) (removed int64) {
		n, err := f.TrimAudit(t.Context(), f.Caller.Organization, tollgate.At(until))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := entries()
	if removed := trim(time.Now().Add(-time.Hour)); removed != 0 || entries() != before {
		t.Errorf("%d entries that are not old are gone", removed)
	}
	if removed := trim(time.Now().Add(time.Hour)); removed != before || entries() != 0 {
		t.Errorf("%d of %d entries are gone", removed, before)
	}
	if n := length(log); n != events || n == 0 {
		t.Errorf("%d of %d events are left", n, events)
	}
	f.Read(t, p.ID)
}
