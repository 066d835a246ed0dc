package main

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tollgate"
)

// observers are the metrics of what stands below the HTTP layer: Redis by
// operation, rules by citation, the process itself. The outcome is ok or the
// error's code.
type observers struct {
	registry  *prometheus.Registry
	redisTime *prometheus.HistogramVec
	ruleTime  *prometheus.HistogramVec
	shadows   *prometheus.HistogramVec
	damage    *prometheus.CounterVec
}

// Buckets in seconds: an operation is a round trip, a rule a few hundred
// nanoseconds of computing.
var (
	redisBuckets = []float64{.0001, .00025, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2}
	ruleBuckets  = []float64{1e-7, 2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 5e-5, 1e-4, 1e-3, 1e-2}
)

func newObservers() (*observers, error) {
	o := &observers{
		registry: prometheus.NewRegistry(),
		redisTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_redis_duration_seconds", Help: "Time of Redis operations, by operation and outcome.", Buckets: redisBuckets,
		}, []string{"operation", "outcome"}),
		ruleTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_rule_duration_seconds", Help: "Time of pricing rules, by citation and outcome.", Buckets: ruleBuckets,
		}, []string{"rule", "outcome"}),
		shadows: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_shadow_rule_duration_seconds", Help: "Time of pricing rules that run in shadows, which nobody waits for, by citation and outcome.", Buckets: ruleBuckets,
		}, []string{"rule", "outcome"}),
		damage: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_damaged_objects_total", Help: "Stored objects that this process could not read, each once, by kind.",
		}, []string{"object"}),
	}
	for _, c := range []prometheus.Collector{
		o.redisTime, o.ruleTime, o.shadows, o.damage, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := o.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// redis is a rediskv.Options.Observe.
func (o *observers) redis(operation string, took time.Duration, err error) {
	o.redisTime.WithLabelValues(operation, outcomeOf(err)).Observe(took.Seconds())
}

// damaged is a rediskv.Options.Damaged.
func (o *observers) damaged(object string) { o.damage.WithLabelValues(object).Inc() }

// rule is a wasm.Engine's Observe.
func (o *observers) rule(ref tollgate.RuleRef, took time.Duration, err error) {
	o.ruleTime.WithLabelValues(ref.Rule.String(), outcomeOf(err)).Observe(took.Seconds())
}

// shadow is a wasm.Engine's ObserveShadow.
func (o *observers) shadow(ref tollgate.RuleRef, took time.Duration, err error) {
	o.shadows.WithLabelValues(ref.Rule.String(), outcomeOf(err)).Observe(took.Seconds())
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
