package rediskv_test

import (
	"testing"
	"time"

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
		t.Skip("payments that take so long stand far apart in the log")
	}
	t.Parallel()
	f := newFixtureAt(t, redistest.Single(t).URL)
	made := 0
	for ; made < 5_200; made++ {
		away := []time.Duration{-100 * time.Millisecond, 0, 100 * time.Millisecond}[made%3]
		f.Clock.Set(time.Now().Add(away))
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
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
