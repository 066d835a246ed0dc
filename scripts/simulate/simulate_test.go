package simulate

import (
	"testing"
	"testing/synctest"
	"time"
)

func tell(t *testing.T, plan Plan, alter func(string) string, keep bool) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = play(plan, alter, keep) })
	return r
}

func TestOne(t *testing.T) {
	begun := time.Now()
	r := tell(t, PlanOf(1), nil, true)
	for _, l := range r.Story {
		t.Log(l)
	}
	t.Log(r.Commands, r.Time, time.Since(begun), r.Faults)
}
