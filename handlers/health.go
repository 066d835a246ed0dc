package handlers

import (
	"context"
	"net/http"
	"time"

	"tollgate/handlers/input"
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

// What an instance can be asked to be ready for (interface §1).
const (
	readyForPayments = "payments"
	readyForQuotes   = "quotes"
)

// ready says whether requests should be sent here: the rules in force are compiled,
// the instance is not about to stop, and Redis answers. Quotes go on without Redis,
// so for them it only says that it does not.
func (s *Server) ready(c *call) (*answer, error) {
	q := input.Query{Values: c.query}
	purpose := q.Choice("for", readyForPayments, readyForPayments, readyForQuotes)
	if err := q.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
	defer cancel()
	r := readiness{"ready", readinessChecks{Redis: "ok", Rules: s.sync.Check(), Memory: s.capacity.checked(), Draining: s.draining.Err() != nil}, s.sync.Failing()}
	if err := s.store.Ping(ctx); err != nil {
		r.Checks.Redis = "unreachable"
	}
	status := http.StatusOK
	if (r.Checks.Redis != "ok" && purpose != readyForQuotes) || r.Checks.Rules != "ok" || r.Checks.Draining {
		r.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	return created(status, "", r)
}
