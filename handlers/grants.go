package handlers

import (
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/access"
	"tollgate/handlers/auth"
	"tollgate/handlers/input"
	"tollgate/rediskv"
)

// listGrants lists the grants that the grant reaches, by id.
func (s *Server) listGrants(c *call) (*answer, error) {
	var client, status string
	p, err := readPage[string](s, c, "asc", func(q *input.Query) {
		client = q.ID("client_id")
		status = q.Choice("status", "", tollgate.StatusActive, tollgate.GrantRevokedStatus, "expired")
	})
	if err != nil {
		return nil, err
	}
	all, _, err := s.store.AccessIDs(c.ctx, c.caller(http.StatusOK))
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(_, holder string) bool { return client != "" && holder != client })
	now := tollgate.At(s.clock())
	return accessPage(s, c, p, slices.Sorted(maps.Keys(all)), "grant.list", func(ids []string, add func(string, tollgate.Grant)) error {
		return s.store.EachGrant(c.ctx, c.caller(http.StatusOK), ids, func(g tollgate.Grant, damage error) {
			if d := tollgate.DamageOf(damage); d != nil {
				add(d.ID, tollgate.Grant{Object: d.Object, ID: d.ID, Damaged: true})
				return
			}
			if g.Status = g.At(now); c.reaches(g.MerchantAccountIDs) && (status == "" || g.Status == status) {
				add(g.ID, g)
			}
		})
	})
}

// accessPage is a page of what is found behind its position, in the order of ids. find
// is given some of them at a time, and adds those that are to be listed.
func accessPage[T any](s *Server, c *call, p input.Page[string], ids []string, entry string, find func(ids []string, add func(string, T)) error) (*answer, error) {
	var rows []T
	var found []string
	add := func(id string, row T) { rows, found = append(rows, row), append(found, id) }
	ids = slices.DeleteFunc(ids, func(id string) bool { return id <= p.Position })
	for some := range slices.Chunk(ids, 2*(p.Limit+1)) {
		if err := find(some, add); err != nil {
			return nil, err
		}
		if len(rows) > p.Limit {
			break
		}
	}
	if err := s.store.Audit(c.ctx, c.caller(http.StatusOK), tollgate.AuditEntry{
		Type: entry, Outcome: "succeeded", Target: tollgate.AuditTarget{Type: "organization", ID: c.org},
	}); err != nil {
		return nil, err
	}
	found, next := firstOf(found, p.Limit)
	return pageOf(p, rows[:len(found)], next != "", next)
}

// getGrant shows a client the grant it asks under; others only with the scope
// access:read and of accounts that it covers, for they tell what the organization's
// other clients may do. It has no ETag: a grant's status changes with the clock.
func (s *Server) getGrant(c *call) (*answer, error) {
	own := c.pathID() == c.token.GrantID
	if !own && !c.token.Scopes.Has(auth.ScopeAccessRead) {
		return nil, tollgate.NotFound()
	}
	if !own && len(c.grant.MerchantAccountIDs) > 0 { // before it is read, which is recorded
		g, err := s.store.Grant(c.ctx, c.org, c.pathID())
		if err != nil || !c.reaches(g.MerchantAccountIDs) {
			return nil, orForbidden(err, "The grant does not cover all merchant accounts of this one.")
		}
	}
	a, err := s.getResource(c, "grant")
	if err != nil {
		return nil, err
	}
	a.etag = ""
	return a, nil
}

func (s *Server) createGrant(c *call, r access.GrantRequest) (*answer, error) {
	if len(r.Scopes) == 0 {
		return nil, tollgate.Invalid("scopes", "scopes has at least one scope.")
	}
	g := r.Of(s.store.NewID(tollgate.PrefixGrant))
	g.RateLimits = c.grant.Limits.String() // nobody gets more by it
	accounts := r.Accounts
	if r.Default != nil {
		accounts = append(slices.Clone(accounts), *r.Default)
	}
	return s.changeGrants(c, "grants.create", r, accounts, http.StatusCreated, "/v1/grants/"+g.ID, g.ID, func(a *tollgate.Access) (*tollgate.Provisioning, error) {
		return a.CreateGrant(g)
	})
}

func (s *Server) revokeGrant(c *call) (*answer, error) {
	return s.changeGrants(c, "grants.revoke", nil, nil, http.StatusOK, "", c.pathID(), func(a *tollgate.Access) (*tollgate.Provisioning, error) {
		return a.RevokeGrant(c.pathID())
	})
}

func (s *Server) changeGrants(c *call, operation string, request any, accounts []string, status int, location, id string, decide func(*tollgate.Access) (*tollgate.Provisioning, error)) (*answer, error) {
	return s.changeAccess(c, operation, request, accounts, decide, func(a *tollgate.Access, p *tollgate.Provisioning) (rediskv.Answer, error) {
		var g tollgate.Grant
		if err := json.Unmarshal(asItBecomes(a, p, id), &g); err != nil {
			return rediskv.Answer{}, err
		}
		g.Status = g.At(a.Origin.At)
		return reply(status, location, g, g.MerchantAccountIDs)
	})
}

// changeAccess decides on all clients and grants as they are read, and again when
// another change came first. A change that changes nothing is answered and not
// committed.
func (s *Server) changeAccess(c *call, operation string, request any, accounts []string,
	decide func(*tollgate.Access) (*tollgate.Provisioning, error), show func(*tollgate.Access, *tollgate.Provisioning) (rediskv.Answer, error),
) (*answer, error) {
	return s.command(c, operation, request, func(idem *rediskv.Idempotency) (rediskv.Result, error) {
		caller := c.caller(http.StatusOK)
		facts, err := s.store.AccessFacts(c.ctx, caller, accounts)
		if err != nil {
			return rediskv.Result{}, err
		}
		a := &tollgate.Access{NewID: s.store.NewID, Origin: s.store.Origin(caller), By: c.grant.Grant, Facts: facts}
		change, err := decide(a)
		if err != nil {
			return rediskv.Result{}, err
		}
		ans, err := show(a, change)
		if err == nil && len(change.Changes) == 0 && idem != nil { // it may be so by an earlier request of the same key
			if earlier, found, err := s.store.FindRepeated(c.ctx, c.caller(ans.Status), *idem); err != nil || found {
				return earlier, err
			}
		}
		if err != nil || len(change.Changes) == 0 {
			return rediskv.Result{Answer: ans}, err
		}
		return s.store.CommitAccess(c.ctx, c.caller(ans.Status), idem, change, ans)
	})
}

// asItBecomes is a client's or grant's document after a change.
func asItBecomes(a *tollgate.Access, p *tollgate.Provisioning, id string) jsontext.Value {
	for i := range p.Objects {
		if p.Objects[i].ID == id {
			return p.Objects[i].Document
		}
	}
	return a.Facts.Objects[id].Document
}
