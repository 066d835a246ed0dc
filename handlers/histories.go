package handlers

import (
	"cmp"
	"net/http"
	"slices"

	"tollgate/handlers/auth"
	"tollgate/rediskv/history"
)

// history is that of the caller's organization, within which something may be written.
func (s *Server) history(c *call) (history.Record, error) {
	r, err := s.store.HistoryFor(c.ctx, c.org)
	if err == nil && !r.Open {
		err = history.Lost()
	}
	return r, err
}

// writes says whether a route changes anything: a POST may only compute.
func (r *row) writes() bool {
	return r.Method != http.MethodGet && !slices.Contains([]auth.Scope{auth.ScopeQuotesRead, auth.ScopePayoutsRead}, r.Scope)
}

// checkHistory has what the request writes written within the history of its token.
// Who has a token of an earlier one may not know what was lost.
func (s *Server) checkHistory(c *call) error {
	if !c.row.writes() {
		return nil
	}
	r, err := s.history(c)
	if err != nil {
		return err
	}
	if cmp.Or(c.token.History, r.First) != r.ID { // this instance may not know the token's yet
		return s.checkHistoryAgain(c)
	}
	return isWithin(c, r)
}

// checkHistoryAgain is checkHistory by what Redis has now.
func (s *Server) checkHistoryAgain(c *call) error {
	r, err := s.store.RereadHistory(c.ctx, c.org)
	if err != nil {
		return err
	}
	return isWithin(c, r)
}

func isWithin(c *call, r history.Record) error {
	switch named := cmp.Or(c.token.History, r.First); {
	case !r.Open:
		return history.Lost()
	case named != r.ID:
		return history.Changed(r.MissingFrom(named))
	default:
		c.ctx = history.Within(c.ctx, named)
		return nil
	}
}

// checkCursor says whether a cursor, made within a history, still means anything; it
// returns the history that the next one is made within.
func (s *Server) checkCursor(c *call, named string, given bool) (string, error) {
	r, err := s.store.HistoryFor(c.ctx, c.org)
	if err != nil || !given {
		return r.ID, err
	}
	named = cmp.Or(named, r.First)
	if named != r.ID {
		if r, err = s.store.RereadHistory(c.ctx, c.org); err != nil {
			return "", err
		}
	}
	switch {
	case !r.Open:
		return "", history.Lost()
	case named != r.ID:
		return "", history.Changed(r.MissingFrom(named))
	}
	return r.ID, nil
}
