package handlers

import (
	"net/http"
	"strconv"

	"tollgate"
	"tollgate/handlers/problem"
	"tollgate/rediskv/store"
)

// Headers of interface §4.
const (
	headerRevision    = "Tollgate-Revision"
	headerMinRevision = "Tollgate-Min-Revision"
	headerServedBy    = "Tollgate-Served-By"
)

// Who has answered a read.
const (
	servedByPrimary = "primary"
	servedByReplica = "replica"
)

// carryOut does what a route does. Reads are carried out on the replica nearby, where
// there is one that has what the client has seen. What it refuses or cannot read it
// may only not know yet, so the primary is asked.
func (s *Server) carryOut(c *call) (*answer, error) {
	if !c.row.near {
		return c.row.do(s, c)
	}
	least, err := minRevision(c.request.Header[headerMinRevision])
	if err != nil {
		return nil, err
	}
	c.servedBy = servedByPrimary
	near := s.near(c, least)
	if near == nil {
		return c.row.do(s, c)
	}
	if err := s.countedHere(c); err != nil {
		return nil, err
	}
	c.store, c.servedBy = near, servedByReplica
	a, err := c.row.do(s, c)
	if err == nil || !doubtful(err) {
		return a, err
	}
	c.store, c.servedBy = s.store, servedByPrimary
	return c.row.do(s, c)
}

// near is the replica, if it has what it must, or nil.
func (s *Server) near(c *call, least int64) *store.Store { return s.store.Near(c.ctx, c.org, least) }

// placed says in the headers of an answer where in the organization's log it is.
func (c *call) placed(h http.Header) {
	if c.revision > 0 {
		h.Set(headerRevision, strconv.FormatInt(c.revision, 10))
	}
	if c.servedBy != "" {
		h.Set(headerServedBy, c.servedBy)
	}
}

// doubtful says that the primary may answer otherwise.
func doubtful(err error) bool {
	switch problem.StatusOf(problem.From(err).Code) {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
		return false
	default:
		return true
	}
}

// minRevision reads the header by which a client asks for what it has seen.
func minRevision(headers []string) (int64, error) {
	if len(headers) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(headers[0], 10, 64)
	if err != nil || n < 0 || len(headers) > 1 || strconv.FormatInt(n, 10) != headers[0] {
		return 0, tollgate.Invalid(headerMinRevision, headerMinRevision+" is the number of a "+headerRevision+" header.")
	}
	return n, nil
}
