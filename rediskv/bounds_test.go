package rediskv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

// A list between times has what was made between them, wherever the places of the
// times are looked up: in a log that the service's own clock wrote, in one whose
// beginning has been trimmed, and in one of another clock, which says nothing.
func TestSearchBetweenTimes(t *testing.T) {
	f := newFixture(t)
	raw := rawClient(t, f.URL)
	k := f.Space(f.Caller.Organization)
	var made []tollgate.Instant
	for range 12 {
		made = append(made, f.Pay(t, eur(100), tollgate.CaptureManual).CreatedAt)
		f.Clock.Advance(time.Hour)
	}
	entries, err := raw.XRange(t.Context(), k.Events(), "-", "+").Result()
	must(t, err)
	// written is the log as it is when each event was made so long after, or before, the
	// moment that the clock of Redis has for it.
	written := func(apart time.Duration, from int) {
		t.Helper()
		for _, key := range scanKeys(t, raw, k.Events()+"*") { // and its segments
			must(t, raw.Del(t.Context(), key).Err())
		}
		for _, m := range entries[from:] {
			_, rest, _ := strings.Cut(rediskv.Text(m, "b"), `"created_at":"`)
			at, err := time.Parse(time.RFC3339, rest[:strings.IndexByte(rest, '"')])
			must(t, err)
			add := &redis.XAddArgs{Stream: k.Events(), ID: rediskv.Milli(tollgate.At(at.Add(-apart))) + "-*", Values: []any{}}
			for _, name := range []string{"i", "t", "a", "b", "e"} {
				add.Values = append(add.Values.([]any), name, rediskv.Text(m, name))
			}
			must(t, raw.XAdd(t.Context(), add).Err())
		}
	}
	for _, log := range []struct {
		name  string
		apart time.Duration
		from  int
		cut   bool
	}{
		{"its own", 0, 0, false},
		{"nearly", 4 * time.Minute, 0, false},
		{"trimmed", 0, 8, false},
		{"behind", 3 * time.Hour, 0, false},
		{"ahead", -3 * time.Hour, 0, false},
		{"in segments", 0, 0, true},
		{"nearly, in segments", 4 * time.Minute, 0, true},
		{"trimmed, in segments", 0, 4, true},
		{"ahead, in segments", -3 * time.Hour, 0, true},
	} {
		written(log.apart, log.from)
		if log.cut {
			f.cut(t)
		}
		for a := -1; a < len(made); a++ {
			for b := -1; b < len(made); b++ {
				for _, descending := range []bool{false, true} {
					q := ledger.TransactionQuery{Descending: descending, Limit: 100}
					want := 0
					for i := range made {
						if (a < 0 || i > a) && (b < 0 || i <= b) {
							want++
						}
					}
					if a >= 0 {
						q.CreatedAfter = made[a]
					}
					if b >= 0 {
						q.CreatedBefore = made[b] + 1
					}
					rows, _, more, err := f.Transactions(t.Context(), f.Caller, q)
					if err != nil || len(rows) != want || more {
						t.Fatalf("%s, after %d, before %d, descending %t: %d rows, want %d; %v", log.name, a, b, descending, len(rows), want, err)
					}
				}
			}
		}
	}
}
