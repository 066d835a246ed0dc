package server

import (
	"testing"
	"time"

	"tollgate"
	"tollgate/wasm"
)

// TestMetricsDoNotGrow: however many rules tenants publish, there are as many
// series; those that come with the binary are told apart.
func TestMetricsDoNotGrow(t *testing.T) {
	o, err := NewObservers()
	if err != nil {
		t.Fatal(err)
	}
	builtin, err := wasm.BuiltinRefs()
	if err != nil {
		t.Fatal(err)
	}
	series := func() (n int) {
		families, err := o.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if name := f.GetName(); name == "tollgate_rule_duration_seconds" || name == "tollgate_shadow_rule_duration_seconds" {
				n += len(f.GetMetric())
			}
		}
		return n
	}
	for _, ref := range builtin {
		o.rule(ref, time.Microsecond, nil)
	}
	if got := series(); got != len(builtin) {
		t.Errorf("%d series of %d built-in rules", got, len(builtin))
	}
	for n := range 2000 {
		ref := tollgate.RuleRef{Rule: tollgate.Citation{Name: "fee", Version: n + 1}, SHA256: "x"}
		o.rule(ref, time.Microsecond, nil)
		o.shadow(ref, time.Microsecond, nil)
	}
	if got := series(); got != len(builtin)+2 {
		t.Errorf("%d series of %d built-in rules and 2000 published ones", got, len(builtin))
	}
}
