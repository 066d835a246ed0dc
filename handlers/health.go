package handlers

import (
	"net/http"

	"tollgate/handlers/input"
	"tollgate/rediskv/health"
)

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

// readinessChecks are what the instance knows of itself and of Redis. Of the latter
// writes alone make it unavailable; the others are for whoever watches.
type readinessChecks struct {
	Redis       health.Write `json:"redis"`       // what became of the last heartbeat
	Rules       string       `json:"rules"`       // ok, loading or missing
	Memory      string       `json:"memory"`      // of Redis: ok; filling: what only adds is refused, and the instance is ready
	Role        health.Level `json:"role"`        // of Redis: ok; fail: a replica
	Policy      health.Level `json:"policy"`      // of Redis: ok; fail: it evicts
	Persistence health.Level `json:"persistence"` // of Redis: ok; warn: a crash loses what was acknowledged; fail: it cannot write its file
	Clock       health.Level `json:"clock"`       // of this machine and Redis: ok; warn or fail: too far apart
	Draining    bool         `json:"draining"`    // stopping; send nothing more
}

// What an instance can be asked to be ready for (interface §1).
const (
	readyForPayments = "payments"
	readyForQuotes   = "quotes"
)

// ready says whether requests should be sent here: the rules in force are compiled,
// the instance is not about to stop, and Redis took the last heartbeat. Quotes go on
// without Redis, so for them it only says that it does not.
func (s *Server) ready(c *call) (*answer, error) {
	q := input.Query{Values: c.query}
	purpose := q.Choice("for", readyForPayments, readyForPayments, readyForQuotes)
	if err := q.Err(); err != nil {
		return nil, err
	}
	r := s.readiness()
	status := http.StatusOK
	if !r.takes(purpose) {
		r.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	return created(status, "", r)
}

// readiness is what the instance knows; it asks nobody.
func (s *Server) readiness() readiness {
	writes, _ := s.store.Writes() // the log has the reason
	return readiness{"ready", readinessChecks{
		Redis: writes, Rules: s.sync.Check(), Memory: s.capacity.checked(),
		Role: s.store.Worst(health.CheckRole), Policy: s.store.Worst(health.CheckPolicy), Persistence: s.store.Worst(health.CheckPersistence),
		Clock: s.store.Worst(health.CheckClock), Draining: s.draining.Err() != nil,
	}, s.sync.Failing()}
}

// takes is whether requests should be sent here.
func (r *readiness) takes(purpose string) bool {
	return (r.Checks.Redis == health.Written || purpose == readyForQuotes) && r.Checks.Rules == "ok" && !r.Checks.Draining
}

// Ready says whether the instance is ready for payments, and for quotes at least, as
// /readyz does: from what it knows, and without asking Redis.
func (s *Server) Ready() (payments, quotes bool) {
	r := s.readiness()
	return r.takes(readyForPayments), r.takes(readyForQuotes)
}
