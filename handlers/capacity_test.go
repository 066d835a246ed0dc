package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// TestCapacity: from 85 % of Redis' memory on what only adds is refused and
// readiness says why, still ready; payments go on. Where there is room again, so
// does everything else.
func TestCapacity(t *testing.T) {
	if redistest.Kind(t) != redistest.Real {
		t.Skip("only a redis-server has a maxmemory")
	}
	server := redistest.Fresh(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	limit := func(bytes int) {
		t.Helper()
		check(t, server.Command("CONFIG", "SET", "maxmemory", bytes))
	}
	ready := func(memory string) func() bool {
		return func() bool {
			r := w.call("GET", "/readyz", "", "Authorization", "")
			checks, _ := r.body["checks"].(map[string]any)
			return r.StatusCode == 200 && checks["memory"] == memory
		}
	}
	export := func() reply { return w.call("POST", "/v1/exports/preview", `{"dataset":"events"}`) }
	stop := w.following()
	defer stop()
	testkit.Eventually(t, "all is well", ready("ok"))
	w.want(export(), 202, "")

	// What Redis uses changes with its connections, so its limit follows until the
	// instance, which looks every second, has seen it.
	bytes := 1 << 30
	limit(bytes)
	testkit.Eventually(t, "Redis is said to fill up", func() bool {
		share, err := w.store.Memory(t.Context())
		check(t, err)
		if share < .88 || share > .96 {
			bytes = int(share * float64(bytes) / .92)
			limit(bytes)
		}
		return ready("filling")()
	})
	if r := w.want(export(), 503, "capacity_reached"); r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.want(w.hook(""), 503, "capacity_reached")
	p := w.newPublication("rule:late_fee@v1", "1", "team")
	w.want(w.call("POST", "/v1/rules", p.body(t)), 503, "capacity_reached")
	w.want(w.pay("late", fmt.Sprintf(payWide, w.vars["eur"])), 201, "")
	if !strings.Contains(w.log.String(), "Redis fills up") {
		t.Error("the log does not say it")
	}
	limit(0)
	testkit.Eventually(t, "there is room again", ready("ok"))
	w.want(export(), 202, "")
}
