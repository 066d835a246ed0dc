package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"tollgate/handlers/worker/loop"
)

type metrics struct {
	expired prometheus.Counter
	payouts *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_worker_payments_expired_total", Help: "Payments that the clock ended.",
		}),
		payouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_worker_payouts_total", Help: "Payouts that were created, paid or failed, and how often the payout step had no answer yet (later).",
		}, []string{"status"}),
	}
	for _, status := range []string{"created", "paid", "failed", "later"} {
		m.payouts.WithLabelValues(status) // present from the start
	}
	return m, loop.Register(r, m.expired, m.payouts)
}
