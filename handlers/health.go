package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"tollgate"
	"tollgate/wasm"
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
}

type readinessChecks struct {
	Redis    string `json:"redis"`    // ok or unreachable
	Rules    string `json:"rules"`    // ok or missing
	Draining bool   `json:"draining"` // stopping; send nothing more
}

// ready says whether requests should be sent here: Redis answers, the rules
// are compiled, and the instance is not about to stop.
func (s *Server) ready(c *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, pingTimeout)
	defer cancel()
	r := readiness{"ready", readinessChecks{Redis: "ok", Rules: "ok", Draining: s.draining.Err() != nil}}
	if err := s.store.Ping(ctx); err != nil {
		r.Checks.Redis = "unreachable"
	}
	for _, rule := range s.shipped {
		if _, ok := s.rules.Ref(rule); !ok {
			r.Checks.Rules = "missing"
		}
	}
	status := http.StatusOK
	if r.Checks != (readinessChecks{Redis: "ok", Rules: "ok"}) {
		r.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	return created(status, "", r)
}

// shippedCitations are the rules that an instance must have before it is sent
// anything: a pinned payment may need any of them.
func shippedCitations() ([]tollgate.Citation, error) {
	all, err := wasm.Shipped()
	if err != nil {
		return nil, fmt.Errorf("shipped rules: %w", err)
	}
	citations := make([]tollgate.Citation, len(all))
	for i, r := range all {
		citations[i] = r.Citation
	}
	return citations, nil
}
