package rediskv_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// TestCheckOfALongLog: a payment's event is made by the clock of an instance, and stands
// in the log where Redis put it, among those of everybody who wrote at once. A check reads
// such a part of the log once for many payments.
func TestCheckOfALongLog(t *testing.T) {
	if redistest.RaceDetector {
		t.Skip("so many payments take minutes")
	}
	t.Parallel()
	f := newFixtureAt(t, redistest.Single(t).URL)
	const made, apart = 5_200, 2 * time.Millisecond
	begun := time.Now()
	for n := range made {
		away := []time.Duration{-100 * time.Millisecond, 0, 100 * time.Millisecond}[n%3]
		f.Clock.Set(begun.Add(time.Duration(n)*apart + away))
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	writtenApart(t, f, begun, apart)
	wire := redistest.Proxy(t, f.URL)
	through := f.with(t, rediskv.Options{URL: wire.URL})
	wire.Reset()
	testkit.Consistent(t, through.Store)
	reads := 0
	for _, c := range wire.Sent() {
		if c.Name == "EVALSHA" || c.Name == "XRANGE" {
			reads++
		}
	}
	if reads > made/5 {
		t.Errorf("%d reads of the log for %d payments: %v", reads, made, wire.Counts())
	}
}

// writtenApart has the log as a Redis would that was given the events one after the
// other, so far apart. How fast this machine is with them is not what a test is about.
func writtenApart(t *testing.T, f *fixture, begun time.Time, apart time.Duration) {
	t.Helper()
	raw, log := rawClient(t, f.URL), f.Space(f.Caller.Organization).Events()
	entries, err := raw.XRange(t.Context(), log, "-", "+").Result()
	must(t, err)
	must(t, raw.Del(t.Context(), log).Err())
	pipe := raw.Pipeline()
	for n, m := range entries {
		at := tollgate.At(begun.Add(time.Duration(n) * apart))
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: log, ID: rediskv.Milli(at) + "-*", Values: m.Values})
	}
	_, err = pipe.Exec(t.Context())
	must(t, err)
}
