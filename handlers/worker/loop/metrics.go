package loop

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of all loops.
type Metrics struct {
	failed *prometheus.CounterVec
	took   *prometheus.HistogramVec
}

// NewMetrics registers them; nil: nowhere.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_rounds_failed_total", Help: "Looks at a partition that ended in an error, by kind of work.",
		}, []string{"work"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_worker_round_seconds", Help: "Time that a look at a partition took, by kind of work.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"work"}),
	}
	return m, Register(r, m.failed, m.took)
}
