package delivery

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate/handlers/worker/loop"
)

// attemptBuckets are in seconds, up to the longest that an attempt takes.
var attemptBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15}

type metrics struct {
	events   prometheus.Counter
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
	running  prometheus.Gauge
	disabled *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
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
	for _, outcome := range []string{"succeeded", "retrying", "failed"} {
		m.attempts.WithLabelValues(outcome) // present from the start
	}
	for _, reason := range []string{reasonGone, reasonFailing} {
		m.disabled.WithLabelValues(reason)
	}
	return m, loop.Register(r, m.events, m.attempts, m.took, m.running, m.disabled, m.waiting, m.oldest)
}

func (m *metrics) attempted(outcome string, took time.Duration) {
	m.attempts.WithLabelValues(outcome).Inc()
	m.took.WithLabelValues(outcome).Observe(took.Seconds())
}

// depthInterval is how often the gauges of what waits are set, in intervals.
const depthInterval = 15

// watchQueues keeps the gauges of what waits. They say nothing while Redis is
// away; the parts that work say that.
func (d *Dispatch) watchQueues(ctx context.Context) {
	for ctx.Err() == nil {
		if depths, err := d.Store.QueueDepths(ctx); err == nil {
			now := d.Clock()
			waiting, age := make([]float64, d.Store.Partitions()), make([]float64, d.Store.Partitions())
			for _, q := range depths {
				waiting[q.Partition] = float64(q.Waiting)
				if q.OldestDue != 0 {
					age[q.Partition] = max(now.Sub(q.OldestDue.Time()).Seconds(), 0)
				}
			}
			for p := range waiting {
				d.metrics.waiting.WithLabelValues(strconv.Itoa(p)).Set(waiting[p])
				d.metrics.oldest.WithLabelValues(strconv.Itoa(p)).Set(age[p])
			}
		}
		loop.Wait(ctx, depthInterval*d.Interval, nil)
	}
}
