package handlers

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// requestBuckets are in seconds: a request is mostly one round trip to Redis;
// a listing of events may wait.
var requestBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

type metrics struct {
	gatherer prometheus.Gatherer
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	memory   prometheus.Gauge
}

func newMetrics(r *prometheus.Registry) (*metrics, error) {
	requests, failed := registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tollgate_http_requests_total", Help: "Requests by route and HTTP status.",
	}, []string{"route", "status"}))
	latency, err := registered(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tollgate_http_request_duration_seconds", Help: "Time to answer, by route.", Buckets: requestBuckets,
	}, []string{"route"}))
	failed = errors.Join(failed, err)
	memory, err := registered(r, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tollgate_redis_memory_used_ratio", Help: "Redis' used_memory by its maxmemory, of the fullest master; 0 without a limit. From 0.85 on what only adds is refused.",
	}))
	return &metrics{r, requests, latency, memory}, errors.Join(failed, err)
}

func (m *metrics) request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.gatherer, promhttp.HandlerOpts{}))
	return mux
}

// registered adds a collector, or finds the one that another Server in the
// process has added to the registry.
func registered[C prometheus.Collector](r *prometheus.Registry, c C) (C, error) {
	err := r.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := known.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, err
}
