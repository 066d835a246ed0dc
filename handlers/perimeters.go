package handlers

import (
	"maps"
	"net/http"
	"slices"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
)

// perimeterRow is a perimeter in an answer.
type perimeterRow struct {
	tollgate.PerimeterAnswer

	damage error // it is stored and cannot be read; only Object and ID count
}

var perimeterParameters = []string{"merchant_account_id", "payee", "limit", "cursor"}

// maxUsageAccounts bounds for how many accounts of a perimeter usage is read;
// merchant_account_id asks for another.
const maxUsageAccounts = 100

// usageQuery says whose usage is asked for.
type usageQuery struct {
	account string
	payee   tollgate.Payee
}

func readUsageQuery(q *input.Query) (u usageQuery) {
	u.account = q.ID("merchant_account_id")
	if text := q.Payee("payee"); text != "" {
		var err error
		if u.payee, err = tollgate.ParsePayee(text); err != nil {
			q.Refuse(tollgate.Invalid("payee", "%s", problem.From(err).Message))
		}
	}
	return u
}

// listPerimeters lists the perimeters that the grant reaches, by id.
func (s *Server) listPerimeters(c *call) (*answer, error) {
	var u usageQuery
	p, err := readPage[string](s, c, "asc", func(q *input.Query) { u = readUsageQuery(q) })
	if err != nil {
		return nil, err
	}
	all, err := s.perimeters(c, u)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, ref := range all.Versions {
		if ref.ID > p.Position && (len(ids) == 0 || ids[len(ids)-1] != ref.ID) {
			ids = append(ids, ref.ID)
		}
	}
	more, next := len(ids) > p.Limit, ""
	if more {
		ids = ids[:p.Limit]
		next = ids[p.Limit-1]
	}
	rows, err := s.perimeterAnswers(c, all, u, ids, 0)
	if err != nil {
		return nil, err
	}
	if err := s.auditPerimeters(c, "list", tollgate.AuditTarget{Type: "organization", ID: c.org}); err != nil {
		return nil, err
	}
	return pageOf(p, rows, more, next)
}

// auditPerimeters records that perimeters were read.
func (s *Server) auditPerimeters(c *call, action string, target tollgate.AuditTarget) error {
	return s.store.Audit(c.ctx, c.caller(http.StatusOK), tollgate.AuditEntry{Type: "perimeter." + action, Outcome: "succeeded", Target: target})
}

// readPerimeter reads one version, without a word about it the highest.
func (s *Server) readPerimeter(c *call) (*answer, error) {
	q := &input.Query{Values: maps.Clone(c.query)}
	u, version := readUsageQuery(q), q.Number("version", 0, 1, maxVersion)
	if err := q.Err(); err != nil {
		return nil, err
	}
	all, err := s.perimeters(c, u)
	if err != nil {
		return nil, err
	}
	rows, err := s.perimeterAnswers(c, all, u, []string{c.pathID()}, int64(version))
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, tollgate.NotFound()
	}
	found := rows[0]
	if found.damage != nil {
		return nil, found.damage
	}
	if err := s.auditPerimeters(c, "read", tollgate.AuditTarget{Type: "perimeter", ID: found.ID}); err != nil {
		return nil, err
	}
	return object(found)
}

const maxVersion = 1_000_000_000

// perimeters are those that the grant reaches: all of the organization, or those
// that are in force on its accounts.
func (s *Server) perimeters(c *call, u usageQuery) (rediskv.Perimeters, error) {
	if u.account != "" {
		if _, err := c.covered([]string{u.account}); err != nil {
			return rediskv.Perimeters{}, err
		}
	}
	all, err := s.store.Perimeters(c.ctx, c.caller(http.StatusOK))
	if err != nil || len(c.grant.MerchantAccountIDs) == 0 {
		return all, err
	}
	maps.DeleteFunc(all.InForce, func(id string, _ tollgate.PerimeterRef) bool { return !c.grant.Covers(id) })
	all.Versions = slices.DeleteFunc(all.Versions, func(ref tollgate.PerimeterRef) bool {
		return !slices.Contains(slices.Collect(maps.Values(all.InForce)), ref)
	})
	return all, nil
}
