package handlers

import (
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
)

// perimeterAnswer is a perimeter as consoles and people look at it: one version
// of it, where it is in force, and what is left of its limits there.
type perimeterAnswer struct {
	Object      string           `json:"object"` // "perimeter"
	ID          string           `json:"id"`
	CreatedAt   tollgate.Instant `json:"created_at"` // null: it is not kept
	Version     int64            `json:"version"`
	Semantics   *int64           `json:"semantics"` // null of a version that an earlier release stored
	Constraints jsontext.Value   `json:"constraints"`
	Versions    []int64          `json:"versions"`
	Accounts    []perimeterUse   `json:"merchant_accounts"`
	Usage       []tollgate.Usage `json:"usage"`

	damaged bool // it is stored and cannot be read; only Object and ID count
}

// perimeterUse is an account and the version that decides there.
type perimeterUse struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
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

func readUsageQuery(q *queryReader) (u usageQuery) {
	u.account = q.id("merchant_account_id")
	if text := q.payee("payee"); text != "" {
		var err error
		if u.payee, err = tollgate.ParsePayee(text); err != nil {
			q.faults.add(tollgate.Invalid("payee", "%s", errorOf(err).Message))
		}
	}
	return u
}

// listPerimeters lists the perimeters that the grant reaches, by id.
func (s *Server) listPerimeters(c *call) (*answer, error) {
	var u usageQuery
	p, err := readPage[string](s, c, "asc", func(q *queryReader) { u = readUsageQuery(q) })
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
	more, next := len(ids) > p.limit, ""
	if more {
		ids = ids[:p.limit]
		next = ids[p.limit-1]
	}
	rows := []perimeterAnswer{}
	for _, id := range ids {
		row, err := s.perimeter(c, all, u, id, 0)
		if rediskv.IsDamage(err) {
			row, err = &perimeterAnswer{Object: "perimeter", ID: id, damaged: true}, nil
		}
		if err != nil {
			return nil, err
		}
		if row != nil {
			rows = append(rows, *row)
		}
	}
	if err := s.auditPerimeters(c, "list", tollgate.AuditTarget{Type: "organization", ID: c.org}); err != nil {
		return nil, err
	}
	return pageOf(s, c, p, rows, more, next)
}

// auditPerimeters records that perimeters were read.
func (s *Server) auditPerimeters(c *call, action string, target tollgate.AuditTarget) error {
	return s.store.Audit(c.ctx, c.caller(http.StatusOK), tollgate.AuditEntry{Type: "perimeter." + action, Outcome: "succeeded", Target: target})
}

// readPerimeter reads one version, without a word about it the highest.
func (s *Server) readPerimeter(c *call) (*answer, error) {
	q := &queryReader{values: maps.Clone(c.query)}
	u, version := readUsageQuery(q), q.number("version", 0, 1, maxVersion)
	if err := q.faults.err(); err != nil {
		return nil, err
	}
	all, err := s.perimeters(c, u)
	if err != nil {
		return nil, err
	}
	found, err := s.perimeter(c, all, u, c.pathID(), int64(version))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, notFound()
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

// perimeter describes a version, 0 for the highest; nil when there is none.
func (s *Server) perimeter(c *call, all rediskv.Perimeters, u usageQuery, id string, version int64) (*perimeterAnswer, error) {
	p := &perimeterAnswer{Object: "perimeter", ID: id, Version: version, Versions: []int64{}, Accounts: []perimeterUse{}}
	var refs []tollgate.PerimeterRef
	for _, ref := range all.Versions {
		if ref.ID == id {
			refs = append(refs, ref)
			p.Versions = append(p.Versions, ref.Version)
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	if p.Version == 0 {
		p.Version = refs[len(refs)-1].Version
	}
	shown := slices.Index(p.Versions, p.Version)
	if shown < 0 {
		return nil, nil
	}
	for _, account := range slices.Sorted(maps.Keys(all.InForce)) {
		if ref := all.InForce[account]; ref.ID == id {
			p.Accounts = append(p.Accounts, perimeterUse{account, ref.Version})
		}
	}
	refs = slices.DeleteFunc(refs, func(ref tollgate.PerimeterRef) bool {
		return ref.Version != p.Version && !slices.ContainsFunc(p.Accounts, func(a perimeterUse) bool { return a.Version == ref.Version })
	})
	documents, err := s.store.PerimeterDocuments(c.ctx, c.org, refs)
	if err != nil {
		return nil, err
	}
	compiled := map[int64]*tollgate.Perimeter{}
	for i, d := range documents {
		if d == nil {
			continue
		}
		if refs[i].Version == p.Version {
			p.Constraints = d.Constraints
			if d.Semantics != 0 {
				p.Semantics = &d.Semantics
			}
		}
		if compiled[refs[i].Version], err = d.Compile(); err != nil {
			return nil, s.store.DamagedPerimeter(c.ctx, c.org, refs[i], err)
		}
	}
	if p.Constraints == nil { // noted, and never written
		return nil, nil
	}
	p.Usage, err = s.usage(c, p.Accounts, compiled, u)
	return p, err
}

// usage reads what is left of the limits of the versions that are in force.
func (s *Server) usage(c *call, accounts []perimeterUse, compiled map[int64]*tollgate.Perimeter, u usageQuery) ([]tollgate.Usage, error) {
	if u.account != "" {
		accounts = slices.DeleteFunc(slices.Clone(accounts), func(a perimeterUse) bool { return a.ID != u.account })
	}
	var meters []tollgate.Meter
	seen := map[int64]bool{} // limits per payee are one for all accounts of a version
	for _, a := range accounts[:min(len(accounts), maxUsageAccounts)] {
		if p := compiled[a.Version]; p != nil {
			meters = append(meters, p.Meters(a.ID, u.payee, !seen[a.Version], s.clock())...)
			seen[a.Version] = true
		}
	}
	var names []string
	for _, m := range meters {
		names = append(names, m.Counters...)
	}
	values, err := s.store.Counters(c.ctx, c.org, names)
	if err != nil {
		return nil, err
	}
	rows := make([]tollgate.Usage, len(meters))
	for i, m := range meters {
		rows[i], values = m.Read(values[:len(m.Counters)]), values[len(m.Counters):]
	}
	return rows, nil
}
