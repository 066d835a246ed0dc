package server

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tollgate"
	"tollgate/handlers/rulesync"
	"tollgate/wasm"
)

// observers are the metrics of what stands below the HTTP layer: Redis by
// operation, rules, the process itself. The outcome is ok or the error's code.
// A rule is named by its citation when the binary brings it along, and all that
// tenants publish are one: metrics must not grow with them.
type observers struct {
	Registry  *prometheus.Registry
	builtin   map[tollgate.RuleRef]string // citations
	redisTime *prometheus.HistogramVec
	ruleTime  *prometheus.HistogramVec
	shadows   *prometheus.HistogramVec
	damage    *prometheus.CounterVec
	holds     prometheus.Counter
}

// Buckets in seconds: an operation is a round trip, a rule a few hundred
// nanoseconds of computing.
var (
	redisBuckets = []float64{.0001, .00025, .0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2}
	ruleBuckets  = []float64{1e-7, 2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6, 1e-5, 5e-5, 1e-4, 1e-3, 1e-2}
)

// NewObservers registers the metrics of a process.
func NewObservers() (*observers, error) {
	builtin, err := wasm.BuiltinRefs()
	if err != nil {
		return nil, err
	}
	o := &observers{
		Registry: prometheus.NewRegistry(), builtin: make(map[tollgate.RuleRef]string, len(builtin)),
		redisTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_redis_duration_seconds", Help: "Time of Redis operations, by operation and outcome.", Buckets: redisBuckets,
		}, []string{"operation", "outcome"}),
		ruleTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_rule_duration_seconds", Help: "Time of pricing rules, by rule and outcome.", Buckets: ruleBuckets,
		}, []string{"rule", "outcome"}),
		shadows: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_shadow_rule_duration_seconds", Help: "Time of pricing rules that run in shadows, which nobody waits for, by rule and outcome.", Buckets: ruleBuckets,
		}, []string{"rule", "outcome"}),
		damage: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_damaged_objects_total", Help: "Stored objects that this process could not read, each once, by kind.",
		}, []string{"object"}),
		holds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tollgate_payouts_held_total", Help: "Payouts that were held because their transactions do not add up to them.",
		}),
	}
	for _, ref := range builtin {
		o.builtin[ref] = ref.Rule.String()
	}
	for _, c := range []prometheus.Collector{
		o.redisTime, o.ruleTime, o.shadows, o.damage, o.holds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := o.Registry.Register(c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// Redis is a rediskv.Options.Observe.
func (o *observers) Redis(operation string, took time.Duration, err error) {
	o.redisTime.WithLabelValues(operation, outcomeOf(err)).Observe(took.Seconds())
}

// Damaged is a rediskv.Options.Damaged.
func (o *observers) Damaged(object string) { o.damage.WithLabelValues(object).Inc() }

// Held is a rediskv.Options.Held.
func (o *observers) Held() { o.holds.Inc() }

// rule is a wasm.Engine's Observe.
func (o *observers) rule(ref tollgate.RuleRef, took time.Duration, err error) {
	o.ruleTime.WithLabelValues(o.ruleName(ref), outcomeOf(err)).Observe(took.Seconds())
}

// shadow is a wasm.Engine's ObserveShadow.
func (o *observers) shadow(ref tollgate.RuleRef, took time.Duration, err error) {
	o.shadows.WithLabelValues(o.ruleName(ref), outcomeOf(err)).Observe(took.Seconds())
}

// ruleName is a rule's name in metrics.
func (o *observers) ruleName(ref tollgate.RuleRef) string {
	if name, ok := o.builtin[ref]; ok {
		return name
	}
	return rulesync.PublishedRules
}

// engine tells how much the published rules take up.
func (o *observers) engine(e *wasm.Engine) error {
	for name, c := range map[string]struct {
		help  string
		value func() float64
	}{
		"tollgate_published_rules_loaded": {"Published rules that are compiled.", func() float64 { n, _ := e.Held(); return float64(n) }},
		"tollgate_published_rules_bytes":  {"Memory that published rules take up, compiled and with their instances.", func() float64 { _, n := e.Held(); return float64(n) }},
	} {
		if err := o.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: c.help}, c.value)); err != nil {
			return err
		}
	}
	return nil
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
