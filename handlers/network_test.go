package handlers_test

import (
	"testing"
)

// TestOthersAreNoticed: before an organization has another turn at what it
// computes, sends or reads, beside others, theirs are noticed.
func TestOthersAreNoticed(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"processors", "sending", "reads"} {
		q := w.server.Queue(name, w.vars["org"])
		for i, step := range []struct {
			org   string
			looks int64
		}{{"org_greedy", 0}, {"org_greedy", 0}, {"org_modest", 0}, {"org_greedy", 0}, {"org_greedy", 1}, {"org_greedy", 1}, {"org_modest", 0}, {"org_modest", 1}} {
			before := w.server.Looks()
			done, err := q.Turn(t.Context(), step.org, "cli_a")
			check(t, err)
			done()
			if n := w.server.Looks() - before; n != step.looks {
				t.Errorf("%s, turn %d: %d looks, not %d", name, i, n, step.looks)
			}
		}
	}
}
