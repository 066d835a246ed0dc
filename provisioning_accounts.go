package tollgate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// version adds an immutable document and refuses to change one.
func (p *provisioner) version(kind, name string, doc any) {
	text := string(p.document(kind, name, doc))
	switch look(p.facts.Versions, p.lacks.Versions, name) {
	case text:
	case "":
		p.Versions[name] = text
		p.Changes = append(p.Changes, ConfigChange{Kind: kind, ID: name, Action: "created"})
	default:
		p.refuse("%s %s exists with other content; versions are immutable, give the change a new version", kind, name)
	}
	p.described[name] = text
}

// versionOf is the document of a version that the file describes or refers to.
func (p *provisioner) versionOf(id string, version int64) string {
	name := versionName(id, version)
	text := cmp.Or(p.described[name], look(p.facts.Versions, p.lacks.Versions, name))
	if text == "" {
		p.refuse("there is no %s version %d", id, version)
	}
	return text
}

// perimeter is a version with today's meaning. One that an earlier release stored
// with the same constraints stays as it is, and keeps its meaning.
func (p *provisioner) perimeter(d PerimeterDocument) {
	name := versionName(d.ID, d.Version)
	p.Perimeters = append(p.Perimeters, name)
	if d.Constraints = slices.Clone(d.Constraints); len(d.Constraints) == 0 {
		d.Constraints = jsontext.Value("{}")
	}
	if err := d.Constraints.Canonicalize(); err != nil { // the same data is the same version
		p.check(fmt.Errorf("perimeter %s: %w", d.ID, err))
		return
	}
	d.Semantics = 0
	if look(p.facts.Versions, p.lacks.Versions, name) == string(p.document("perimeter", d.ID, d)) {
		return
	}
	d.Semantics = PerimeterSemantics
	if _, err := d.Compile(); err != nil {
		p.refuse("%v", err)
	}
	p.version("perimeter", name, d)
}

// countPerimeters counts the versions that are written.
func (p *provisioner) countPerimeters() {
	switch q := p.facts.Quotas; {
	case len(p.Versions) == 0 || !p.lacks.None(): // nobody knows yet which are new
	case q == nil:
		p.lacks.Quotas = new(Quotas)
	case q.Perimeters+int64(len(p.Versions)) > MaxPerimeterVersions:
		p.check(quotaExceeded("perimeters", "An organization has at most %d versions of perimeters.", MaxPerimeterVersions))
	default:
		p.Quotas = &Quotas{Rules: q.Rules, Perimeters: q.Perimeters + int64(len(p.Versions)), Revision: q.Revision}
	}
}

func (p *provisioner) ruleSetVersion(r RuleSet) {
	if len(r.Rules) > MaxRules {
		p.check(Invalid("rules", "rule set %s has more than %d rules", r.ID, MaxRules))
	}
	for _, rule := range r.Rules {
		if look(p.facts.Rules, p.lacks.Rules, rule) == "" {
			p.refuse("rule set %s: there is no %s", r.ID, rule)
		}
	}
	name := versionName(r.ID, r.Version)
	p.version("rule_set", name, r)
	if p.Versions[name] != "" { // activations put their versions behind the highest
		state := p.ruleSet(r.ID)
		state.Last = max(state.Last, r.Version)
	}
}

// ruleSet is a rule set that changes.
func (p *provisioner) ruleSet(id string) *RuleSetState {
	i := slices.IndexFunc(p.RuleSets, func(r RuleSetState) bool { return r.ID == id })
	if i < 0 {
		i = len(p.RuleSets)
		p.RuleSets = append(p.RuleSets, look(p.facts.RuleSets, p.lacks.RuleSets, id))
		p.RuleSets[i].ID = id
	}
	return &p.RuleSets[i]
}

// history is what led accounts to a rule set's versions.
func (p *provisioner) history(ruleSet string) History {
	look(p.facts.RuleSets, p.lacks.RuleSets, ruleSet)
	return look(p.facts.Histories, p.lacks.Histories, ruleSet)
}

func (p *provisioner) merchantAccount(a MerchantAccount) {
	p.within = "merchant account " + a.ID
	defer func() { p.within = "" }()
	a.Object, a.OrganizationID = "merchant_account", p.Organization
	if !slices.ContainsFunc(p.want.LegalEntities, func(l LegalEntity) bool { return l.ID == a.LegalEntityID }) {
		p.refer("legal entity", a.LegalEntityID)
	}
	old, found := stored[MerchantAccount](p, "merchant_account", a.ID)
	next, same := found, found
	next.Given = versionName(a.RuleSet.ID, a.RuleSet.Version)
	same.Given = next.Given
	next.Perimeter = p.versionOf(a.Perimeter.ID, a.Perimeter.Version)
	var set RuleSet
	if err := json.Unmarshal([]byte(p.versionOf(a.RuleSet.ID, a.RuleSet.Version)), &set); err != nil {
		p.check(fmt.Errorf("rule set %s: %w", a.RuleSet.ID, err))
	}
	a.RuleSet.Rules = set.Rules
	next.Cutoffs = p.cutoff(&a, old, found)
	before := next.Given
	if found.Revision > 0 {
		before = p.keepActivated(&a, old, found.Given, next.Given)
	}
	p.price(&a, old)
	a.CreatedAt = cmp.Or(old.CreatedAt, p.origin.At)
	if !p.object("merchant_account", a.ID, next, &a, old.UpdatedAt, &a.UpdatedAt, MerchantAccountUpdated) && before != next.Given {
		// What is in force already is now also what the file gives; no event,
		// for nothing is priced in another way.
		p.Objects = append(p.Objects, ConfigObject{"merchant_account", a.ID, same})
		p.Changes = append(p.Changes, ConfigChange{Kind: "merchant_account", ID: a.ID, Action: "changed", Fields: []string{"rule_set"}})
	}
}

// cutoff gives an account's cutoff its version and returns all versions.
func (p *provisioner) cutoff(a *MerchantAccount, old MerchantAccount, found StoredObject) []CutoffVersion {
	if found.Revision == 0 {
		a.Cutoff.Version = 1
		return []CutoffVersion{{Cutoff: a.Cutoff}}
	}
	versions := found.Cutoffs
	if versions == nil {
		versions = []CutoffVersion{{Cutoff: old.Cutoff}}
	}
	t, err := NewTimeline(versions)
	if err == nil {
		a.Cutoff.Version = old.Cutoff.Version
		versions, err = t.Change(a.Cutoff, p.want.Effective[a.ID], p.origin.At, found.Closed)
	}
	if err != nil {
		p.check(err)
		return nil
	}
	if last := versions[len(versions)-1]; last.Version != old.Cutoff.Version {
		a.Cutoff.Version, p.effective[a.ID] = last.Version, last.EffectiveDate
	}
	return versions
}

// keepActivated leaves an account the rules that it has been given by
// activations, unless the file names another rule set than the one that
// provisioning gave it before, which is returned. Accounts that do not note that
// yet had before their activations what they were given.
func (p *provisioner) keepActivated(a *MerchantAccount, old MerchantAccount, before, given string) string {
	if before == "" {
		before = versionName(old.RuleSet.ID, p.history(old.RuleSet.ID).Before(old.RuleSet.Version, a.ID))
	}
	switch {
	case before == given:
		a.RuleSet = old.RuleSet
	case old.RuleSet.ID != a.RuleSet.ID || old.RuleSet.Version != a.RuleSet.Version:
		p.moved = append(p.moved, movedAccount{a.ID, old.RuleSet.ID, a.RuleSet})
	}
	return before
}

// price notes the rules and currencies that an account would have together and
// does not have together yet. What is in force stays.
func (p *provisioner) price(a *MerchantAccount, old MerchantAccount) {
	for _, rule := range a.RuleSet.Rules {
		currencies := slices.Clone(a.Currencies)
		if slices.Contains(old.RuleSet.Rules, rule) {
			currencies = slices.DeleteFunc(currencies, func(c Currency) bool { return slices.Contains(old.Currencies, c) })
		}
		if sum := look(p.facts.Rules, p.lacks.Rules, rule); len(currencies) > 0 && sum != "" {
			p.NewlyPriced = append(p.NewlyPriced, NewlyPriced{a.ID, RuleRef{Rule: rule, SHA256: sum}, currencies})
		}
	}
}

// movedAccount is an account that is given another rule set than it has.
type movedAccount struct {
	id, from string // from is the rule set's id
	to       RuleSet
}

// supersede ends the activations of which nothing is left once the accounts have
// what the file gives them. A rollback at the same time looks at the same
// accounts: both change the rule set's revision, so the second of them looks
// again.
func (p *provisioner) supersede() {
	var done []string
	for _, m := range p.moved {
		h := p.history(m.from)
		if len(h) == 0 || slices.Contains(done, m.from) {
			continue
		}
		done = append(done, m.from)
		versions := map[string]int64{} // of the rule set, by account
		for _, activation := range h {
			for _, id := range activation.Value.MerchantAccountIDs {
				a, found := stored[MerchantAccount](p, "merchant_account", id)
				if found.Revision > 0 {
					p.Compared[id] = found.Revision
				}
				if a.RuleSet.ID == m.from {
					versions[id] = a.RuleSet.Version
				}
			}
		}
		for _, other := range p.moved {
			delete(versions, other.id)
			if other.to.ID == m.from {
				versions[other.id] = other.to.Version
			}
		}
		for _, over := range h.over(versions) {
			a := over.Value
			a.Status, a.EndedAt = ActivationSuperseded, p.origin.At
			next := StoredObject{Revision: over.Revision, Document: p.document("activation", a.ID, a)}
			p.Objects = append(p.Objects, ConfigObject{"activation", a.ID, next})
			p.audit("rule.superseded", "", "activation", a.ID)
		}
		p.ruleSet(m.from)
	}
}

// accountEvents: what a receiver acts on has a type of its own.
func accountEvents(changed []string) (types []EventType) {
	own := map[string]EventType{"cutoff": CutoffUpdated, "perimeter": PerimeterActivated, "rule_set": RuleActivated}
	for _, name := range changed {
		if t := cmp.Or(own[name], MerchantAccountUpdated); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}
