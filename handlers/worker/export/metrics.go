package export

import (
	"github.com/prometheus/client_golang/prometheus"

	"tollgate/handlers/worker/loop"
)

type metrics struct {
	running prometheus.Gauge
	rows    prometheus.Counter
	ended   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tollgate_worker_exports_running", Help: "Exports that are being made.",
		}),
		rows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_worker_export_rows_total", Help: "Rows that exports have looked at.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_exports_total", Help: "Exports by how work on them ended: done, or left (canceled, or for another worker).",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{"done", "left"} {
		m.ended.WithLabelValues(outcome) // present from the start
	}
	return m, loop.Register(r, m.running, m.rows, m.ended)
}
