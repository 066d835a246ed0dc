package handlers_test

import (
	"sync/atomic"
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/health"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// An instance whose clock is more than a minute from Redis' issues no tokens, and goes
// on with everything else.
func TestWrongClockIssuesNoTokens(t *testing.T) {
	var off atomic.Int64
	i := startWith(t, rediskv.Options{URL: redistest.URL(t), Clock: time.Now, Wall: func() time.Time { return time.Now().Add(time.Duration(off.Load())) }})
	i.authenticate() // before the clocks are compared nothing is known to be wrong
	beat := func(what string, right bool) {
		t.Helper()
		testkit.Eventually(t, what, func() bool { i.store.Beat(t.Context()); return (i.store.CheckClock(health.ClockLimit) == nil) == right })
	}
	for _, by := range []time.Duration{90 * time.Second, -90 * time.Second} {
		off.Store(int64(by))
		beat("the clock is wrong", false)
		i.want(i.askToken(tokenForm(i.assertion())), 503, "store_unavailable")
		i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
		i.want(i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", by.String()), 201, "")
		off.Store(0)
		beat("the clock is right", true)
		i.want(i.askToken(tokenForm(i.assertion())), 200, "")
	}
	off.Store(int64(30 * time.Second))
	beat("half a minute", true)
	i.want(i.askToken(tokenForm(i.assertion())), 200, "")
}
