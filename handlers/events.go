package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/input"
	"tollgate/handlers/share"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/eventlog"
)

var eventParameters = []string{"types", "merchant_account_id", "object_id", "order", "limit", "cursor", "after", "wait"}

// maxWait is how long a listing waits for something new, in seconds.
const maxWait = 20

// listEvents lists what happened, the oldest first (spec §6). next_cursor is
// always there, so that a client can follow the log; wait holds an empty
// answer back until there is something, for at most that many seconds.
// after=latest begins at the end of the log as it is during the request:
// whatever is committed later stands behind that cursor, so that a client that
// has it misses nothing.
func (s *Server) listEvents(c *call) (*answer, error) {
	var q eventlog.EventQuery
	var wait time.Duration
	latest := false
	p, err := readPage[eventlog.Position](s, c, "asc", func(r *input.Query) {
		q = parseEventQuery(r)
		latest = parseLatest(r) || latest
		seconds := r.Number("wait", 0, 0, maxWait)
		if c.request.Method == http.MethodHead {
			return // there is nothing to wait for: what would come is not sent
		}
		wait = max(wait, time.Duration(seconds)*time.Second) // a cursor carries none
	})
	if err != nil {
		return nil, err
	}
	if q.Accounts, err = c.covered(q.Accounts); err != nil {
		return nil, err
	}
	leave, err := s.follows(c, wait)
	if err != nil {
		return nil, err
	}
	defer leave()
	q.Descending, q.After, q.Limit = p.Order == "desc", p.Position, p.Limit
	var events []jsontext.Value
	var more bool
	if latest {
		q.After, err = c.store.LastEvent(c.request.Context(), c.caller(http.StatusOK))
	}
	next := q.After
	if err == nil && (!latest || wait > 0) {
		events, next, more, err = s.awaitEvents(c, q, wait)
	}
	if err != nil {
		return nil, err
	}
	cursor, err := p.Next(next)
	if err != nil {
		return nil, err
	}
	return object(tollgate.List[jsontext.Value]{Object: "list", Data: events, HasMore: more, NextCursor: &cursor})
}

// auditOutcomes are what may have come of what an entry tells.
var auditOutcomes = []string{"succeeded", "refused", "denied"}

var auditParameters = []string{"type", "actor", "target", "outcome", "created_after", "created_before", "limit", "cursor"}

var treeParameters = []string{"history_id", "limit", "cursor"}

// listAudit lists the organization's audit record, the newest entry first. It writes
// none itself: who follows the record would otherwise follow himself.
func (s *Server) listAudit(c *call) (*answer, error) {
	var q eventlog.AuditQuery
	read := func(r *input.Query) {
		q = eventlog.AuditQuery{
			Types: r.TypePatterns("type"), Actor: r.ID("actor"), Target: r.ID("target"), Outcome: r.Choice("outcome", "", auditOutcomes...),
			CreatedAfter: r.Instant("created_after"), CreatedBefore: r.Instant("created_before"),
		}
	}
	return listBy(s, c, "desc", read, func(after string, limit int) ([]audit.Object, string, error) {
		if err := c.coversAudit(); err != nil {
			return nil, "", err
		}
		q.After, q.Limit = after, limit
		found, next, err := c.store.AuditEntries(c.ctx, c.caller(http.StatusOK), q)
		return audit.Objects(found), next, err
	})
}

// listCheckpoints lists the signed checkpoints, the newest first; of a history that is
// named the last one alone.
func (s *Server) listCheckpoints(c *call) (*answer, error) {
	history := ""
	return listBy(s, c, "desc", func(q *input.Query) { history = q.ID("history_id") }, func(after string, limit int) ([]audittree.Checkpoint, string, error) {
		if err := c.coversAudit(); err != nil {
			return nil, "", err
		}
		if history != "" {
			rows, err := c.store.LastCheckpoint(c.ctx, c.caller(http.StatusOK), history)
			return rows, "", err
		}
		return c.store.AuditCheckpoints(c.ctx, c.caller(http.StatusOK), after, limit)
	})
}

// listLeaves lists the tree of a history from leaf 0 on, with the entries beside it.
func (s *Server) listLeaves(c *call) (*answer, error) {
	history := ""
	return listBy(s, c, "asc", func(q *input.Query) { history = q.ID("history_id") }, func(after string, limit int) ([]audittree.Leaf, string, error) {
		if err := c.coversAudit(); err != nil {
			return nil, "", err
		}
		return c.store.AuditLeaves(c.ctx, c.caller(http.StatusOK), history, after, limit)
	})
}

func (s *Server) getAuditProof(c *call) (*answer, error) {
	if err := c.coversAudit(); err != nil {
		return nil, err
	}
	proof, err := audit.Prove(c.ctx, c.store, c.caller(http.StatusOK), c.pathID())
	if err != nil {
		return nil, err
	}
	return object(proof)
}

// getEvent reads one event of those that are kept, as it was frozen.
func (s *Server) getEvent(c *call) (*answer, error) {
	event, err := c.store.Event(c.ctx, c.caller(http.StatusOK), c.pathID(), c.grant.MerchantAccountIDs)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, body: event}, nil
}

// follows enters the listing: one that waits has a share of its own, because it
// takes long and reads little.
func (s *Server) follows(c *call, wait time.Duration) (leave func(), err error) {
	queue := s.shares.Entered[share.Searches]
	if wait > 0 {
		queue = s.shares.Polls
	}
	c.turn = s.reading(c)
	leave, err = queue.Enter(c.org, c.client)
	return leave, share.Refusal(err)
}

// parseLatest reads after, which has one value: a listing that begins at the end
// of the log has no cursor yet and goes forwards.
func parseLatest(r *input.Query) bool {
	if r.Choice("after", "", "latest") == "" {
		return false
	}
	if _, ok := r.Values["cursor"]; ok {
		r.Refuse(tollgate.Invalid("after", "after begins a listing; a cursor goes on with one. Send one of them."))
	}
	if r.Values["order"] == "desc" {
		r.Refuse(tollgate.Invalid("after", "after=latest goes forwards: leave order=desc out."))
	}
	return true
}

// parseEventQuery reads the filters.
func parseEventQuery(r *input.Query) eventlog.EventQuery {
	q := eventlog.EventQuery{ObjectID: r.ID("object_id")}
	if account := r.ID("merchant_account_id"); account != "" {
		q.MerchantAccountID, q.Accounts = account, []string{account}
	}
	q.Types = r.EventTypes()
	return q
}

// awaitEvents lists, and while there is nothing waits and lists again from
// where it stopped. A drain, the client's departure and the time end it early;
// that there is nothing new is an answer, not an error.
func (s *Server) awaitEvents(c *call, q eventlog.EventQuery, wait time.Duration) (events []jsontext.Value, next eventlog.Position, more bool, err error) {
	// The wait comes on top of what a request may take otherwise. The
	// connection's own deadlines were set for a request without one; they are
	// real time, not the service's clock.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.request.Context()), wait+requestTimeout)
	defer cancel()
	waiting, stop := context.WithTimeout(c.request.Context(), wait)
	defer stop()
	defer context.AfterFunc(s.draining, stop)()
	if wait > 0 {
		end, _ := ctx.Deadline()
		control := http.NewResponseController(c)
		// Not every ResponseWriter of a test has deadlines.
		_ = control.SetReadDeadline(end)
		_ = control.SetWriteDeadline(end)
	}
	for {
		// One event wakes all who wait for it, and theirs are not the only requests.
		var turn *share.Held
		if turn, err = s.carried(ctx, c); err != nil {
			return nil, next, false, err
		}
		events, next, more, err = c.store.Events(ctx, c.caller(http.StatusOK), q)
		turn.End()
		if err != nil || len(events) > 0 || more || q.Descending || waiting.Err() != nil {
			return events, next, more, err
		}
		if err = s.store.WaitEvents(waiting, c.org, next); err != nil {
			if waiting.Err() != nil {
				err = nil
			}
			return events, next, more, err
		}
		q.After = next
		c.store, c.servedBy = s.store, servedByPrimary // it has what was waited for
	}
}
