package handlers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"tollgate"
	"tollgate/handlers/input"
)

// maxAdvance is how far one request moves the sandbox's clock.
const maxAdvance = 400 * 24 * time.Hour

// sandboxEnd is what the sandbox's clock never says: not far from it durations
// and nanoseconds overflow.
var sandboxEnd = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// CheckSandboxClock refuses to move the sandbox's clock to the year 2200 or
// later. param is what the request says it by.
func CheckSandboxClock(param string, to time.Time) error {
	if to.Before(sandboxEnd) {
		return nil
	}
	return tollgate.Invalid(param, "The sandbox's clock stays before the year 2200; start another sandbox, on an empty Redis.")
}

// advanceFunc moves the sandbox's clock forwards and returns what it says then;
// CheckSandboxClock's error when that is too far.
type advanceFunc func(ctx context.Context, by time.Duration) (time.Time, error)

// clockAnswer is the sandbox's clock. RealTime is what tokens, assertions and
// the timestamps of webhooks go by.
type clockAnswer struct {
	Object   string           `json:"object"` // "sandbox_clock"
	Now      tollgate.Instant `json:"now"`
	RealTime tollgate.Instant `json:"real_time"`
}

// clockRequest is how far to move the clock, or to where.
type clockRequest struct {
	advance time.Duration
	to      tollgate.Instant
}

func parseClockRequest(f *input.Fields) clockRequest {
	var r clockRequest
	text, ok := f.Text("advance", false)
	r.to = f.Instant("to", false)
	switch {
	case f.Has("advance") && f.Has("to"):
		f.Refuse(tollgate.Invalid("to", "The clock is moved either by advance or to an instant."))
	case ok:
		var err error
		if r.advance, err = time.ParseDuration(text); err != nil || r.advance < time.Millisecond || r.advance > maxAdvance {
			f.Refuse(tollgate.Invalid("advance", "advance is a duration such as 26h or 90m, from a millisecond to 400 days; the clock goes forwards only."))
		}
	case !f.Has("advance") && !f.Has("to"):
		f.Refuse(&tollgate.Error{Code: tollgate.CodeParameterMissing, Param: "advance", Message: "advance is needed, or to."})
	}
	return r
}

func (s *Server) getClock(*call) (*answer, error) {
	return object(clockAnswer{"sandbox_clock", tollgate.At(s.clock()), tollgate.At(s.wall())})
}

// moveClock lets time pass in the sandbox: what is due by then is done by the
// worker, as always.
func (s *Server) moveClock(c *call, r clockRequest) (*answer, error) {
	by, param := r.advance, "advance"
	if r.to != 0 {
		by, param = r.to.Time().Sub(s.clock()), "to"
		if by <= 0 || by > maxAdvance {
			return nil, tollgate.Invalid("to", "to is later than the clock, which says %s, by at most 400 days.", tollgate.At(s.clock()))
		}
	}
	if err := CheckSandboxClock(param, s.clock().Add(by)); err != nil {
		return nil, err
	}
	err := s.store.Audit(c.ctx, c.caller(http.StatusOK), tollgate.AuditEntry{
		Type: "sandbox.advance", Outcome: "succeeded", Reason: by.String(), Target: tollgate.AuditTarget{Type: "organization", ID: c.org},
	})
	if err != nil {
		return nil, err
	}
	now, err := s.advance(c.ctx, by)
	if err != nil {
		return nil, fmt.Errorf("sandbox clock: %w", err)
	}
	return object(clockAnswer{"sandbox_clock", tollgate.At(now), tollgate.At(s.wall())})
}
