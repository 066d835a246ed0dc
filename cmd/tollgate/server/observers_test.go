package server

import (
	"errors"
	"net/http/httptest"
	"strings"
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
		families, err := o.registry.Gather()
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
		o.Rule(ref, time.Microsecond, nil)
	}
	if got := series(); got != len(builtin) {
		t.Errorf("%d series of %d built-in rules", got, len(builtin))
	}
	for n := range 2000 {
		ref := tollgate.RuleRef{Rule: tollgate.Citation{Name: "fee", Version: n + 1}, SHA256: "x"}
		o.Rule(ref, time.Microsecond, nil)
		o.ShadowRule(ref, time.Microsecond, nil)
	}
	if got := series(); got != len(builtin)+2 {
		t.Errorf("%d series of %d built-in rules and 2000 published ones", got, len(builtin))
	}
}

// Every metric by its name, with what was told: operators have them in their rules.
func TestMetrics(t *testing.T) {
	o, err := NewObservers()
	if err != nil {
		t.Fatal(err)
	}
	w := o.Worker()
	o.Request("GET /healthz", 200, time.Second)
	o.Read("replica")
	o.RedisMemory(0.5)
	o.Redis("create_payment", time.Second, &tollgate.Error{Code: tollgate.CodeStoreUnavailable})
	o.Rule(tollgate.RuleRef{}, time.Second, errors.New("any"))
	o.ShadowRule(tollgate.RuleRef{}, time.Second, nil)
	o.Damaged("payment")
	o.Held()
	o.Lost()
	w.Round("clock", time.Second, true)
	w.FannedOut(3)
	w.Attempting(1)
	w.Attempted("late", time.Second)
	w.EndpointDisabled("gone")
	w.Queue(7, 4, 9*time.Second)
	w.Expired()
	w.Payouts("paid", 2)
	w.Exporting(1)
	w.ExportRows(5)
	w.ExportEnded("done")
	w.Checked(8)
	w.CheckFound("index")
	w.AuditBehind(7, 61*time.Second)
	w.Witnessed(true)
	page := httptest.NewRecorder()
	o.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`tollgate_http_requests_total{route="GET /healthz",status="200"} 1`,
		`tollgate_http_request_duration_seconds_sum{route="GET /healthz"} 1`,
		`tollgate_reads_total{served_by="replica"} 1`,
		`tollgate_redis_memory_used_ratio 0.5`,
		`tollgate_redis_duration_seconds_sum{operation="create_payment",outcome="store_unavailable"} 1`,
		`tollgate_rule_duration_seconds_sum{outcome="error",rule="published"} 1`,
		`tollgate_shadow_rule_duration_seconds_sum{outcome="ok",rule="published"} 1`,
		`tollgate_damaged_objects_total{object="payment"} 1`,
		`tollgate_payouts_held_total 1`,
		`tollgate_history_losses_total 1`,
		`tollgate_worker_rounds_failed_total{work="clock"} 1`,
		`tollgate_worker_rounds_failed_total{work="trim"} 0`,
		`tollgate_worker_round_seconds_sum{work="clock"} 1`,
		`tollgate_worker_events_fanned_out_total 3`,
		`tollgate_worker_attempts_running 1`,
		`tollgate_worker_deliveries_total{outcome="late"} 1`,
		`tollgate_worker_deliveries_total{outcome="succeeded"} 0`,
		`tollgate_worker_attempt_seconds_sum{outcome="late"} 1`,
		`tollgate_worker_endpoints_disabled_total{reason="gone"} 1`,
		`tollgate_worker_endpoints_disabled_total{reason="failing"} 0`,
		`tollgate_worker_queue_depth{partition="7"} 4`,
		`tollgate_worker_queue_oldest_due_seconds{partition="7"} 9`,
		`tollgate_worker_payments_expired_total 1`,
		`tollgate_worker_payouts_total{status="paid"} 2`,
		`tollgate_worker_payouts_total{status="later"} 0`,
		`tollgate_worker_exports_running 1`,
		`tollgate_worker_export_rows_total 5`,
		`tollgate_worker_exports_total{outcome="done"} 1`,
		`tollgate_worker_exports_total{outcome="left"} 0`,
		`tollgate_audit_unsealed_seconds{partition="7"} 61`,
		`tollgate_audit_witness_total{outcome="failed"} 1`,
		`tollgate_audit_witness_total{outcome="succeeded"} 0`,
		`tollgate_check_objects_total 8`,
		`tollgate_check_findings_total{kind="index"} 1`,
		`tollgate_check_findings_total{kind="payable"} 0`,
	} {
		if !strings.Contains(page.Body.String(), "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// What a service knows of its rules is shown beside it.
func TestMetricsOfRules(t *testing.T) {
	o, err := NewObservers()
	if err != nil {
		t.Fatal(err)
	}
	o.registry.MustRegister(failingRules(func() map[string]int { return map[string]int{"published": 2, "rule:card_fee@v1": 1} }))
	page := httptest.NewRecorder()
	o.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`tollgate_rule_failing{rule="published"} 2`, `tollgate_rule_failing{rule="rule:card_fee@v1"} 1`} {
		if !strings.Contains(page.Body.String(), line) {
			t.Errorf("no line %s", line)
		}
	}
}
