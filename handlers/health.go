package handlers

import (
	"context"
	"net/http"
	"time"
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
	Rules  int             `json:"failing_rules"` // how many; the log names them: anybody reads this
}

type readinessChecks struct {
	Redis    string `json:"redis"`    // ok or unreachable
	Rules    string `json:"rules"`    // ok, loading or missing
	Memory   string `json:"memory"`   // of Redis: ok; filling: what only adds is refused, and the instance is ready
	Draining bool   `json:"draining"` // stopping; send nothing more
}

// ready says whether requests should be sent here: Redis answers, the rules
// in force are compiled, and the instance is not about to stop.
func (s *Server) ready(c *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
	defer cancel()
	r := readiness{"ready", readinessChecks{Redis: "ok", Rules: s.sync.Check(), Memory: s.capacity.checked(), Draining: s.draining.Err() != nil}, s.sync.Failing()}
	if err := s.store.Ping(ctx); err != nil {
		r.Checks.Redis = "unreachable"
	}
	status := http.StatusOK
	if r.Checks != (readinessChecks{Redis: "ok", Rules: "ok", Memory: r.Checks.Memory}) {
		r.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	return created(status, "", r)
}
