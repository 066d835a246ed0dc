package rulesync

import (
	"testing"
	"time"

	"tollgate"
)

// TestFailingRulesAreBounded: what is kept of failing rules, and told of them,
// does not grow with what tenants publish.
func TestFailingRulesAreBounded(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	s := &Sync{outcomes: newOutcomes(func() time.Time { return now })}
	o := s.outcomes
	for n := range 5000 {
		ref := tollgate.RuleRef{Rule: tollgate.Citation{Name: "fee", Version: n + 1}}
		for range failingLeast {
			o.note([]tollgate.RuleRef{ref}, &tollgate.Error{Code: tollgate.CodeRuleFailed, Rule: &ref.Rule})
		}
	}
	if series := s.FailingByName(); len(o.windows) > 1024 || len(series) != 1 {
		t.Errorf("%d rules are watched, %v tells of them", len(o.windows), series)
	}
}
