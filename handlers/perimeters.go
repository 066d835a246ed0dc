package handlers

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"tollgate"
	"tollgate/handlers/input"
	"tollgate/handlers/problem"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/payments"
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

func parseUsageQuery(q *input.Query) (u usageQuery) {
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
	p, err := readPage[string](s, c, "asc", func(q *input.Query) { u = parseUsageQuery(q) })
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
	ids, next := firstOf(ids, p.Limit)
	rows, err := s.perimeterAnswers(c, all, u, ids, 0)
	if err != nil {
		return nil, err
	}
	if err := s.auditPerimeters(c, "list", tollgate.AuditTarget{Type: "organization", ID: c.org}); err != nil {
		return nil, err
	}
	return pageOf(p, rows, next != "", next)
}

// auditPerimeters records that perimeters were read.
func (s *Server) auditPerimeters(c *call, action string, target tollgate.AuditTarget) error {
	return s.store.Audit(c.ctx, c.caller(http.StatusOK), tollgate.AuditEntry{Type: "perimeter." + action, Outcome: "succeeded", Target: target})
}

// getPerimeter reads one version, without a word about it the highest.
func (s *Server) getPerimeter(c *call) (*answer, error) {
	q := &input.Query{Values: maps.Clone(c.query)}
	u, version := parseUsageQuery(q), q.Number("version", 0, 1, maxVersion)
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
func (s *Server) perimeters(c *call, u usageQuery) (accounts.Perimeters, error) {
	if u.account != "" {
		if _, err := c.covered([]string{u.account}); err != nil {
			return accounts.Perimeters{}, err
		}
	}
	all, err := s.store.Perimeters(c.ctx, c.caller(http.StatusOK))
	if err != nil || len(c.grant.MerchantAccountIDs) == 0 {
		return all, err
	}
	maps.DeleteFunc(all.Active, func(id string, _ tollgate.PerimeterRef) bool { return !c.grant.Covers(id) })
	all.Versions = slices.DeleteFunc(all.Versions, func(ref tollgate.PerimeterRef) bool {
		return !slices.Contains(slices.Collect(maps.Values(all.Active)), ref)
	})
	return all, nil
}

// drafted is a perimeter on its way to an answer: what of it is to be read.
type drafted struct {
	perimeterRow
	refs     []tollgate.PerimeterRef // the version shown and those in force
	compiled map[int64]*tollgate.Perimeter
	meters   []tollgate.Meter
}

// perimeterAnswers describes a version of each, 0 for the highest; what there is
// none of is left out. However many they are, their documents are read together,
// and so are their counters.
func (s *Server) perimeterAnswers(c *call, all accounts.Perimeters, u usageQuery, ids []string, version int64) ([]perimeterRow, error) {
	drafts := draftPerimeters(all, ids, version)
	if err := s.readPerimeters(c, drafts); err != nil {
		return nil, err
	}
	// What is noted, and never written, is none.
	drafts = slices.DeleteFunc(drafts, func(d *drafted) bool { return d.damage == nil && d.Constraints == nil })
	if err := s.readUsage(c, drafts, u); err != nil {
		return nil, err
	}
	rows := make([]perimeterRow, len(drafts))
	for i, d := range drafts {
		rows[i] = d.perimeterRow
	}
	return rows, nil
}

// draftPerimeters finds what is to be read of each.
func draftPerimeters(all accounts.Perimeters, ids []string, version int64) (drafts []*drafted) {
	versions, uses := map[string][]tollgate.PerimeterRef{}, map[string][]tollgate.PerimeterUse{}
	for _, ref := range all.Versions {
		versions[ref.ID] = append(versions[ref.ID], ref)
	}
	for _, account := range slices.Sorted(maps.Keys(all.Active)) {
		ref := all.Active[account]
		uses[ref.ID] = append(uses[ref.ID], tollgate.PerimeterUse{ID: account, Version: ref.Version})
	}
	for _, id := range ids {
		d := &drafted{
			perimeterRow: perimeterRow{PerimeterAnswer: tollgate.PerimeterAnswer{Object: "perimeter", ID: id, Version: version}},
			compiled:     map[int64]*tollgate.Perimeter{},
		}
		d.Accounts = append(d.Accounts, uses[id]...)
		for _, ref := range versions[id] {
			d.Versions = append(d.Versions, ref.Version)
		}
		if d.Version == 0 && len(d.Versions) > 0 {
			d.Version = d.Versions[len(d.Versions)-1]
		}
		if !slices.Contains(d.Versions, d.Version) {
			continue
		}
		for _, ref := range versions[id] {
			if ref.Version == d.Version || slices.ContainsFunc(d.Accounts, func(a tollgate.PerimeterUse) bool { return a.Version == ref.Version }) {
				d.refs = append(d.refs, ref)
			}
		}
		drafts = append(drafts, d)
	}
	return drafts
}

// readPerimeters reads and compiles the versions. One that cannot be read
// damages its perimeter.
func (s *Server) readPerimeters(c *call, drafts []*drafted) error {
	var refs []tollgate.PerimeterRef
	for _, d := range drafts {
		refs = append(refs, d.refs...)
	}
	stored, err := s.store.PerimeterDocuments(c.ctx, c.org, refs)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		for i, ref := range d.refs {
			if d.damage == nil {
				d.damage = s.understand(c, d, ref, stored[i])
			}
		}
		stored = stored[len(d.refs):]
	}
	return nil
}

// understand takes one version.
func (s *Server) understand(c *call, d *drafted, ref tollgate.PerimeterRef, stored accounts.StoredPerimeter) (err error) {
	if stored.Damage != nil || stored.PerimeterDocument == nil {
		return stored.Damage
	}
	if d.compiled[ref.Version], err = stored.Compile(); err != nil {
		return s.store.DamagedPerimeter(c.ctx, c.org, ref, err)
	}
	if ref.Version == d.Version {
		d.Constraints = stored.Constraints
		if stored.Semantics != 0 {
			d.Semantics = &stored.Semantics
		}
	}
	return nil
}

// readUsage reads what is left of the limits of the versions that are in force.
// A counter that cannot be read is damage of its row alone.
func (s *Server) readUsage(c *call, drafts []*drafted, u usageQuery) error {
	var names []string
	for _, d := range drafts {
		if d.damage != nil {
			continue
		}
		d.meter(u, s.clock())
		for _, m := range d.meters {
			names = append(names, m.Counters...)
		}
	}
	used, err := s.store.Counters(c.ctx, c.org, names)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		for _, m := range d.meters {
			d.Usage = append(d.Usage, usageRow(m, used[:len(m.Counters)]))
			used = used[len(m.Counters):]
		}
	}
	return nil
}

// meter finds the limits whose usage is asked for.
func (d *drafted) meter(u usageQuery, now time.Time) {
	accounts := d.Accounts
	if u.account != "" {
		accounts = slices.DeleteFunc(slices.Clone(accounts), func(a tollgate.PerimeterUse) bool { return a.ID != u.account })
	}
	seen := map[int64]bool{} // limits per payee are one for all accounts of a version
	for _, a := range accounts[:min(len(accounts), maxUsageAccounts)] {
		if p := d.compiled[a.Version]; p != nil {
			d.meters = append(d.meters, p.Meters(a.ID, u.payee, !seen[a.Version], now)...)
			seen[a.Version] = true
		}
	}
}

// usageRow is what a meter says, or what stands in the place of it.
func usageRow(m tollgate.Meter, used []payments.Used) tollgate.Listed[tollgate.Usage] {
	values := make([]int64, len(used))
	for i, u := range used {
		if d := tollgate.DamageOf(u.Damage); d != nil {
			return tollgate.Listed[tollgate.Usage]{Damage: d}
		}
		values[i] = u.Count
	}
	return tollgate.Listed[tollgate.Usage]{Value: m.Read(values)}
}
