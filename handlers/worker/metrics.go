package worker

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// attemptBuckets are in seconds, up to the longest that an attempt takes.
var attemptBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15}

type metrics struct {
	expired  prometheus.Counter
	payouts  *prometheus.CounterVec
	failed   *prometheus.CounterVec
	rounds   *prometheus.HistogramVec
	events   prometheus.Counter
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
	running  prometheus.Gauge
	disabled *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec

	exporting prometheus.Gauge
	exported  prometheus.Counter
	exports   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_worker_payments_expired_total", Help: "Payments that the clock ended.",
		}),
		payouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_payouts_total", Help: "Payouts that were created, paid or failed, and how often the payout step had no answer yet (later).",
		}, []string{"status"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_rounds_failed_total", Help: "Looks at a partition that ended in an error, by kind of work.",
		}, []string{"work"}),
		rounds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_worker_round_seconds", Help: "Time that a look at a partition took, by kind of work.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"work"}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_worker_events_fanned_out_total", Help: "Events whose deliveries were made.",
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_deliveries_total",
			Help: "Deliveries by the outcome of an attempt: succeeded, retrying, failed, late (the lease had run out) or unrecorded.",
		}, []string{"outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_worker_attempt_seconds", Help: "Time that an attempt took, by outcome.", Buckets: attemptBuckets,
		}, []string{"outcome"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tollgate_worker_attempts_running", Help: "Attempts that are being made.",
		}),
		disabled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_endpoints_disabled_total", Help: "Endpoints that the worker disabled, by reason.",
		}, []string{"reason"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_worker_queue_depth", Help: "Deliveries that wait or are being sent, by partition.",
		}, []string{"partition"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_worker_queue_oldest_due_seconds", Help: "How long the oldest due delivery that nobody is sending has waited, by partition; 0 when nothing is due.",
		}, []string{"partition"}),
	}
	m.exporting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tollgate_worker_exports_running", Help: "Exports that are being made.",
	})
	m.exported = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tollgate_worker_export_rows_total", Help: "Rows that exports have looked at.",
	})
	m.exports = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tollgate_worker_exports_total", Help: "Exports by how work on them ended: done, or left (canceled, or for another worker).",
	}, []string{"outcome"})
	for _, outcome := range []string{"done", "left"} {
		m.exports.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"succeeded", "retrying", "failed"} {
		m.attempts.WithLabelValues(outcome) // present from the start
	}
	for _, status := range []string{"created", "paid", "failed", "later"} {
		m.payouts.WithLabelValues(status)
	}
	for _, reason := range []string{reasonGone, reasonFailing} {
		m.disabled.WithLabelValues(reason)
	}
	if r == nil {
		return m, nil
	}
	var err error
	for _, c := range []prometheus.Collector{
		m.expired, m.payouts, m.failed, m.rounds, m.events, m.attempts, m.took, m.running, m.disabled, m.waiting, m.oldest,
		m.exporting, m.exported, m.exports,
	} {
		err = errors.Join(err, r.Register(c))
	}
	return m, err
}

func (m *metrics) attempted(outcome string, took time.Duration) {
	m.attempts.WithLabelValues(outcome).Inc()
	m.took.WithLabelValues(outcome).Observe(took.Seconds())
}
