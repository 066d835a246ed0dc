package handlers_test

import (
	"testing"
	"time"

	"tollgate/handlers"
)

// TestFailingRulesAreBounded: what is kept of failing rules, and told of them,
// does not grow with what tenants publish.
func TestFailingRulesAreBounded(t *testing.T) {
	watched, series, err := handlers.ManyFailing(5000, time.Unix(1_790_000_000, 0))
	if err != nil || watched > 1024 || series != 1 {
		t.Errorf("%d rules are watched, %d series tell of them, %v", watched, series, err)
	}
}
