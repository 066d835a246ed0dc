package rulesync

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate"
)

// TestFailingRulesAreBounded: what is kept of failing rules, and told of them,
// does not grow with what tenants publish.
func TestFailingRulesAreBounded(t *testing.T) {
	registry, now := prometheus.NewRegistry(), time.Unix(1_790_000_000, 0)
	o, err := newOutcomes(registry, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5000 {
		ref := tollgate.RuleRef{Rule: tollgate.Citation{Name: "fee", Version: n + 1}}
		for range failingLeast {
			o.note([]tollgate.RuleRef{ref}, &tollgate.Error{Code: tollgate.CodeRuleFailed, Rule: &ref.Rule})
		}
	}
	series := 0
	families, err := registry.Gather()
	for _, f := range families {
		series += len(f.GetMetric())
	}
	if err != nil || len(o.windows) > 1024 || series != 1 {
		t.Errorf("%d rules are watched, %d series tell of them, %v", len(o.windows), series, err)
	}
}
