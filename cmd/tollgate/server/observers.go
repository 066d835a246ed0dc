package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tollgate"
	"tollgate/handlers/rulesync"
	"tollgate/handlers/service"
	"tollgate/rediskv/health"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// Observers are the metrics of a process: a service.Observer, and what the Store
// tells. The outcome is ok or the error's code. A rule is named by its citation when
// the binary brings it along, and all that tenants publish are one: metrics must not
// grow with them.
type Observers struct {
	registry  *prometheus.Registry
	builtin   map[tollgate.RuleRef]string // citations
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	reads     *prometheus.CounterVec
	memory    prometheus.Gauge
	redisTime *prometheus.HistogramVec
	ruleTime  *prometheus.HistogramVec
	shadows   *prometheus.HistogramVec
	damage    *prometheus.CounterVec
	holds     prometheus.Counter
	losses    prometheus.Counter
}

// Buckets in seconds: a request is mostly one round trip to Redis, and a listing
// of events may wait; an operation is a round trip, a rule a few hundred
// nanoseconds of computing.
var (
	requestBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	redisBuckets   = []float64{.0001, .00025, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2}
	ruleBuckets    = []float64{1e-7, 2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 5e-5, 1e-4, 1e-3, 1e-2}
)

// NewObservers registers the metrics of a process.
func NewObservers() (*Observers, error) {
	builtin, err := wasm.BuiltinRefs()
	if err != nil {
		return nil, err
	}
	m := maker{prometheus.NewRegistry()}
	o := &Observers{
		registry: m.registry, builtin: make(map[tollgate.RuleRef]string, len(builtin)),
		requests:  m.counters("tollgate_http_requests_total", "Requests by route and HTTP status.", "route", "status"),
		latency:   m.histograms("tollgate_http_request_duration_seconds", "Time to answer, by route.", requestBuckets, "route"),
		reads:     m.counters("tollgate_reads_total", "Reads that a replica may answer, by who did: primary or replica.", "served_by"),
		memory:    m.gauge("tollgate_redis_memory_used_ratio", "Redis' used_memory by its maxmemory, of the fullest master; 0 without a limit. From 0.85 on what only adds is refused."),
		redisTime: m.histograms("tollgate_redis_duration_seconds", "Time of Redis operations, by operation and outcome.", redisBuckets, "operation", "outcome"),
		ruleTime:  m.histograms("tollgate_rule_duration_seconds", "Time of pricing rules, by rule and outcome.", ruleBuckets, "rule", "outcome"),
		shadows:   m.histograms("tollgate_shadow_rule_duration_seconds", "Time of pricing rules that run in shadows, which nobody waits for, by rule and outcome.", ruleBuckets, "rule", "outcome"),
		damage:    m.counters("tollgate_damaged_objects_total", "Stored objects that this process could not read, each once, by kind.", "object"),
		holds:     m.counter("tollgate_payouts_held_total", "Payouts that were held because their transactions do not add up to them."),
		losses:    m.counter("tollgate_history_losses_total", "Partitions in which this process found that Redis has lost data that it acknowledged."),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, ref := range builtin {
		o.builtin[ref] = ref.Rule.String()
	}
	return o, nil
}

// maker makes metrics and registers them; one that is there twice is a fault of the
// program.
type maker struct{ registry *prometheus.Registry }

func made[C prometheus.Collector](m maker, c C) C {
	m.registry.MustRegister(c)
	return c
}

func (m maker) counter(name, help string) prometheus.Counter {
	return made(m, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return made(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	return made(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (m maker) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return made(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

func (m maker) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return made(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}

// Traced has /metrics say what becomes of spans: how many ended, and how many of those a
// collector took.
func (o *Observers) Traced(spans func() (ended, sent int64)) {
	m := maker{o.registry}
	of := func(name, help string, count func() int64) {
		made(m, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(count()) }))
	}
	of("tollgate_trace_spans_ended_total", "Sampled spans that ended. Those that are not sent wait to be, or are lost.", func() int64 { ended, _ := spans(); return ended })
	of("tollgate_trace_spans_sent_total", "Spans that the collector has taken.", func() int64 { _, sent := spans(); return sent })
}

// Certificate has /metrics say when the certificate of the API expires.
func (o *Observers) Certificate(expires func() time.Time) {
	made(maker{o.registry}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tollgate_tls_certificate_expires_timestamp_seconds", Help: "When the certificate of the API, or one above it in its file, expires, in seconds since 1970.",
	}, func() float64 { return float64(expires().Unix()) }))
}

// Handler answers /metrics; it belongs on a port of its own, for what it says is not
// for clients.
func (o *Observers) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{}))
	return mux
}

// Request is a handlers.Observer's.
func (o *Observers) Request(route string, status int, took time.Duration) {
	o.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	o.latency.WithLabelValues(route).Observe(took.Seconds())
}

// Read is a handlers.Observer's.
func (o *Observers) Read(servedBy string) { o.reads.WithLabelValues(servedBy).Inc() }

// RedisMemory is a handlers.Observer's.
func (o *Observers) RedisMemory(used float64) { o.memory.Set(used) }

// Redis is a rediskv.Options.Observe.
func (o *Observers) Redis(operation string, took time.Duration, err error) {
	o.redisTime.WithLabelValues(operation, outcomeOf(err)).Observe(took.Seconds())
}

// Damaged is a rediskv.Options.Damaged.
func (o *Observers) Damaged(object string) { o.damage.WithLabelValues(object).Inc() }

// Lost is a rediskv.Options.Lost.
func (o *Observers) Lost() { o.losses.Inc() }

// Held is a rediskv.Options.Held.
func (o *Observers) Held() { o.holds.Inc() }

// Rule is a service.Observer's.
func (o *Observers) Rule(ref tollgate.RuleRef, took time.Duration, err error) {
	o.ruleTime.WithLabelValues(o.ruleName(ref), outcomeOf(err)).Observe(took.Seconds())
}

// ShadowRule is a service.Observer's.
func (o *Observers) ShadowRule(ref tollgate.RuleRef, took time.Duration, err error) {
	o.shadows.WithLabelValues(o.ruleName(ref), outcomeOf(err)).Observe(took.Seconds())
}

// ruleName is a rule's name in metrics.
func (o *Observers) ruleName(ref tollgate.RuleRef) string {
	if name, ok := o.builtin[ref]; ok {
		return name
	}
	return rulesync.PublishedRules
}

// Watch shows what a service knows of its rules (how much the published ones take
// up, and which fail) and of its replica, if there is one.
func (o *Observers) Watch(s *service.Service) {
	for name, c := range map[string]struct {
		help  string
		value func() float64
	}{
		"tollgate_published_rules_loaded": {"Published rules that are compiled.", func() float64 { n, _ := s.Rules.Held(); return float64(n) }},
		"tollgate_published_rules_bytes":  {"Memory that published rules take up, compiled and with their instances.", func() float64 { _, n := s.Rules.Held(); return float64(n) }},
	} {
		o.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: c.help}, c.value))
	}
	o.registry.MustRegister(failingRules(s.Server.FailingRules))
	o.WatchRedis(s.Store)
	if _, configured := s.Store.ReplicaLag(); configured {
		o.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tollgate_replica_lag_seconds", Help: "How far the replica is behind, at most. +Inf: it does not answer.",
		}, func() float64 { lag, _ := s.Store.ReplicaLag(); return lag }))
	}
}

// WatchRedis shows what a process knows of its Redis.
func (o *Observers) WatchRedis(s *store.Store) {
	o.registry.MustRegister(redisFindings{s}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tollgate_redis_clock_ahead_seconds", Help: "How far this machine's clock is ahead of that of Redis, of the master where it is furthest; behind is below zero.",
	}, s.ClockAhead), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tollgate_redis_writable", Help: "1 when Redis took the last heartbeat, which this process writes every second; else 0.",
	}, func() float64 {
		if writes, _ := s.Writes(); writes != health.Written {
			return 0
		}
		return 1
	}))
}

// redisFindings is a collector of what is wrong with Redis.
type redisFindings struct{ store *store.Store }

var redisFinding = prometheus.NewDesc("tollgate_redis_finding",
	"What the last look at Redis has shown, by check, of the server that is worst: 0 is well or unknown, 1 a warning, 2 a failure. tollgate doctor says what to do.", []string{"check"}, nil)

// Describe is prometheus.Collector.
func (redisFindings) Describe(to chan<- *prometheus.Desc) { to <- redisFinding }

// Collect is prometheus.Collector.
func (f redisFindings) Collect(to chan<- prometheus.Metric) {
	worst := map[string]float64{}
	for _, one := range f.store.Findings() {
		value := map[health.Level]float64{health.Warning: 1, health.Failure: 2}[one.Level]
		worst[one.Check] = max(worst[one.Check], value)
	}
	for check, value := range worst {
		to <- prometheus.MustNewConstMetric(redisFinding, prometheus.GaugeValue, value, check)
	}
}

// failingRules is a collector of rules that fail again and again.
type failingRules func() map[string]int

var failingRule = prometheus.NewDesc("tollgate_rule_failing",
	"How many rules have failed more often than not in the last minute, at least five times, or cannot be loaded by this instance.", []string{"rule"}, nil)

// Describe is prometheus.Collector.
func (f failingRules) Describe(to chan<- *prometheus.Desc) { to <- failingRule }

// Collect is prometheus.Collector.
func (f failingRules) Collect(to chan<- prometheus.Metric) {
	for name, n := range f() {
		to <- prometheus.MustNewConstMetric(failingRule, prometheus.GaugeValue, float64(n), name)
	}
}

func outcomeOf(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		return string(e.Code)
	}
	return "error"
}
