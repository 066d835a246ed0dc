package dev

import (
	"testing"

	"tollgate"
)

// Every event type can be triggered, or it is said why not.
func TestEveryTypeIsTriggeredOrExcused(t *testing.T) {
	can := plays()
	for _, kind := range tollgate.EventTypes {
		why, excused := impossible[kind]
		if _, ok := can[kind]; ok == excused || excused && why == "" {
			t.Errorf("%s: triggered %t, excused %t (%q)", kind, ok, excused, why)
		}
	}
	if n := len(can) + len(impossible); n != len(tollgate.EventTypes) {
		t.Errorf("%d plays and excuses for %d types", n, len(tollgate.EventTypes))
	}
}
