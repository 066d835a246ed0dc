package handlers

import (
	"context"
	"net/http"
	"strings"
	"time"

	"tollgate"
)

// pingTimeout bounds what readiness waits for Redis.
const pingTimeout = time.Second

// health says that the process answers; it asks nobody.
func (s *Server) health(*call) (*answer, error) {
	return object(struct {
		Status string `json:"status"`
	}{"ok"})
}

// readiness is the body of /readyz.
type readiness struct {
	Status string          `json:"status"` // ready or unavailable
	Checks readinessChecks `json:"checks"`
	Rules  int             `json:"failing_rules"` // the log names them: anybody reads this
}

type readinessChecks struct {
	Redis    string `json:"redis"`    // ok or unreachable
	Rules    string `json:"rules"`    // ok; loading: what is in force is not here yet; missing: it, or what soon will be, cannot be loaded
	Memory   string `json:"memory"`   // of Redis: ok; filling: what only adds is refused, and the instance is ready
	Draining bool   `json:"draining"` // stopping; send nothing more
}

// failingRules are counted beside the checks: a rule that fails everywhere is the
// rule's fault. Sending requests elsewhere would help nobody.
type failingRules []tollgate.Citation

func (f failingRules) String() string {
	names := make([]string, len(f))
	for i, rule := range f {
		names[i] = rule.String()
	}
	return strings.Join(names, " ")
}

// ready says whether requests should be sent here: Redis answers, the rules
// in force are compiled, and the instance is not about to stop.
func (s *Server) ready(c *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
	defer cancel()
	failing := s.outcomes.failing(s.clock())
	if s.outcomes.changed(failing) {
		s.log.Warn("failing rules", "rules", failing.String())
	}
	r := readiness{"ready", readinessChecks{Redis: "ok", Rules: s.following.rulesCheck(), Memory: s.capacity.checked(), Draining: s.draining.Err() != nil}, len(failing)}
	if err := s.store.Ping(ctx); err != nil {
		r.Checks.Redis = "unreachable"
	}
	for _, rule := range s.shipped {
		if !s.rules.Has(rule) {
			r.Checks.Rules = "missing"
		}
	}
	status := http.StatusOK
	if r.Checks != (readinessChecks{Redis: "ok", Rules: "ok", Memory: r.Checks.Memory}) {
		r.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	return created(status, "", r)
}
