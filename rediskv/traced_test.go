package rediskv_test

import (
	"testing"

	"tollgate"
	"tollgate/rediskv/testkit"
)

// The trace of a request lies in a field of its own of its event. Every attempt reads it
// there, in a segment too, and finds none where there is no such field: an earlier
// release wrote none, and neither does a request that nobody traces.
func TestTraceBesideItsEvent(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.Caller.Trace = trace
	traced := f.Pay(t, eur(200), tollgate.CaptureManual)
	f.Caller.Trace = ""

	raw, log := f.raw(t)
	entries, err := raw.XRange(t.Context(), log, "-", "+").Result()
	must(t, err)
	with := map[string]bool{} // ids of events
	for _, e := range entries {
		p, has := e.Values["p"]
		if has && p != trace {
			t.Errorf("%s has the trace %q", e.Values["i"], p)
		}
		if !has && len(e.Values) != 5 {
			t.Errorf("%s has more than it had: %v", e.Values["i"], e.Values)
		}
		with[e.Values["i"].(string)] = has
	}
	f.fanOut(t, "a")
	for range 30 { // more than stays in the log itself
		f.Pay(t, eur(100), tollgate.CaptureManual)
	}
	f.cut(t)
	found := 0
	for _, w := range f.take(t, 100) {
		switch {
		case w.Body == nil || w.Damaged:
			t.Errorf("%s cannot be read", w.EventID)
		case with[w.EventID] && w.Trace == trace:
			found++
		case with[w.EventID] || w.Trace != "":
			t.Errorf("%s has the trace %q", w.EventID, w.Trace)
		}
	}
	if found != 1 {
		t.Errorf("%d events have the trace of %s", found, traced.ID)
	}
	testkit.Consistent(t, f.Store)
}
