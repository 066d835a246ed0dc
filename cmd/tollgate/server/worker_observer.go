package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate/rediskv/consistency"
)

// attemptBuckets are in seconds, up to the longest that an attempt takes.
var attemptBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15}

// workerObserver is the metrics of a worker: a worker.Observer.
type workerObserver struct {
	failed, skipped, attempts, disabled, payouts, exports, findings *prometheus.CounterVec
	rounds, attemptTime                                             *prometheus.HistogramVec
	events, expired, rows, checked                                  prometheus.Counter
	attempting, exporting                                           prometheus.Gauge
	waiting, oldest, unsealed                                       *prometheus.GaugeVec
	witnessed                                                       *prometheus.CounterVec
}

// Worker registers the metrics of the process's worker.
func (o *Observers) Worker() *workerObserver {
	m := maker{o.registry}
	w := &workerObserver{
		failed:   m.counters("tollgate_worker_rounds_failed_total", "Looks at a partition that ended in an error, by kind of work.", "work"),
		skipped:  m.counters("tollgate_worker_rounds_skipped_total", "Looks at a partition that were not made because this machine's clock is too far from that of Redis, by kind of work.", "work"),
		rounds:   m.histograms("tollgate_worker_round_seconds", "Time that a look at a partition took, by kind of work.", prometheus.ExponentialBuckets(0.001, 4, 8), "work"),
		events:   m.counter("tollgate_worker_events_fanned_out_total", "Events whose deliveries were made."),
		attempts: m.counters("tollgate_worker_deliveries_total", "Deliveries by the outcome of an attempt: succeeded, retrying, failed, late (the lease had run out) or unrecorded.", "outcome"),

		attemptTime: m.histograms("tollgate_worker_attempt_seconds", "Time that an attempt took, by outcome.", attemptBuckets, "outcome"),
		attempting:  m.gauge("tollgate_worker_attempts_running", "Attempts that are being made."),
		disabled:    m.counters("tollgate_worker_endpoints_disabled_total", "Endpoints that the worker disabled, by reason.", "reason"),
		waiting:     m.gauges("tollgate_worker_queue_depth", "Deliveries that wait or are being sent, by partition.", "partition"),
		oldest:      m.gauges("tollgate_worker_queue_oldest_due_seconds", "How long the oldest due delivery that nobody is sending has waited, by partition; 0 when nothing is due.", "partition"),

		expired:   m.counter("tollgate_worker_payments_expired_total", "Payments that the clock ended."),
		payouts:   m.counters("tollgate_worker_payouts_total", "Payouts that were created, paid or failed, and how often the payout step had no answer yet (later).", "status"),
		exporting: m.gauge("tollgate_worker_exports_running", "Exports that are being made."),
		rows:      m.counter("tollgate_worker_export_rows_total", "Rows that exports have looked at."),
		exports:   m.counters("tollgate_worker_exports_total", "Exports by how work on them ended: done, or left (canceled, or for another worker).", "outcome"),

		checked:   m.counter("tollgate_check_objects_total", "Objects that were read back and compared."),
		unsealed:  m.gauges("tollgate_audit_unsealed_seconds", "How long the oldest entry of an audit record that could not be sealed has waited, by partition; 0 when all are sealed.", "partition"),
		witnessed: m.counters("tollgate_audit_witness_total", "Attempts to post a checkpoint of an audit record to the witness, by outcome: succeeded or failed.", "outcome"),

		findings: m.counters("tollgate_check_findings_total", "What was found that does not agree with the rest, by kind; each walk counts it again.", "kind"),
	}
	for _, kind := range consistency.FindingKinds {
		w.findings.WithLabelValues(string(kind))
	}
	for vec, values := range map[*prometheus.CounterVec][]string{ // present from the start
		w.failed: {"audit", "clock", "jobs", "payouts", "postings", "rules", "segments", "trim"}, w.skipped: {"audit", "clock", "payouts", "rules", "trim", "deliveries"}, w.attempts: {"succeeded", "retrying", "failed"}, w.disabled: {"gone", "failing"},
		w.payouts: {"created", "paid", "failed", "later"}, w.exports: {"done", "left"}, w.witnessed: {"succeeded", "failed"},
	} {
		for _, value := range values {
			vec.WithLabelValues(value)
		}
	}
	for _, outcome := range []string{"succeeded", "retrying", "failed"} {
		w.attemptTime.WithLabelValues(outcome)
	}
	return w
}

func (w *workerObserver) Round(work string, took time.Duration, failed bool) {
	w.rounds.WithLabelValues(work).Observe(took.Seconds())
	if failed {
		w.failed.WithLabelValues(work).Inc()
	}
}

func (w *workerObserver) Skipped(work string)   { w.skipped.WithLabelValues(work).Inc() }
func (w *workerObserver) FannedOut(events int)  { w.events.Add(float64(events)) }
func (w *workerObserver) Attempting(change int) { w.attempting.Add(float64(change)) }

func (w *workerObserver) Attempted(outcome string, took time.Duration) {
	w.attempts.WithLabelValues(outcome).Inc()
	w.attemptTime.WithLabelValues(outcome).Observe(took.Seconds())
}

func (w *workerObserver) EndpointDisabled(reason string) { w.disabled.WithLabelValues(reason).Inc() }

func (w *workerObserver) Queue(partition, waiting int, oldest time.Duration) {
	p := strconv.Itoa(partition)
	w.waiting.WithLabelValues(p).Set(float64(waiting))
	w.oldest.WithLabelValues(p).Set(oldest.Seconds())
}

func (w *workerObserver) Expired() { w.expired.Inc() }

func (w *workerObserver) Payouts(status string, count int) {
	w.payouts.WithLabelValues(status).Add(float64(count))
}

func (w *workerObserver) Checked(objects int)    { w.checked.Add(float64(objects)) }
func (w *workerObserver) CheckFound(kind string) { w.findings.WithLabelValues(kind).Inc() }

func (w *workerObserver) Exporting(change int)       { w.exporting.Add(float64(change)) }
func (w *workerObserver) ExportRows(count int)       { w.rows.Add(float64(count)) }
func (w *workerObserver) ExportEnded(outcome string) { w.exports.WithLabelValues(outcome).Inc() }

func (w *workerObserver) AuditBehind(partition int, oldest time.Duration) {
	w.unsealed.WithLabelValues(strconv.Itoa(partition)).Set(oldest.Seconds())
}

func (w *workerObserver) Witnessed(failed bool) {
	outcome := "succeeded"
	if failed {
		outcome = "failed"
	}
	w.witnessed.WithLabelValues(outcome).Inc()
}
