package provision

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tollgate"
)

// check turns the file into what the store applies and finds everything that
// is wrong with it, alone and taken together. Whether there is what it refers to
// is still to be asked.
func (p *provisioning) check(builtin []tollgate.RuleRef) ([]tollgate.Config, *references, fileProblems) {
	var problems fileProblems
	refers := new(references)
	if len(p.Organizations) == 0 {
		problems.addf("organizations", "the file describes none")
	}
	configs := make([]tollgate.Config, len(p.Organizations))
	seen := map[string]string{}
	p.later = map[string]perimeterFault{}
	for i := range p.Organizations {
		c := &organizationCheck{
			form: &p.Organizations[i], at: fmt.Sprintf("organizations[%d]", i), builtin: builtin, references: refers, problems: &problems, seen: seen, later: p.later,
		}
		configs[i] = c.run()
	}
	return configs, refers, problems
}

// warnings are what is allowed and probably not meant.
func (p *provisioning) warnings(now time.Time) []string {
	var found []string
	for _, o := range p.Organizations {
		for _, form := range o.Perimeters {
			constraints, _ := toJSON(form.Constraints)
			compiled, _, err := compilePerimeter(tollgate.PerimeterDocument{ID: form.ID, Version: form.Version, Constraints: constraints})
			if err == nil && compiled.Decide(tollgate.Money{}, tollgate.Payee{}, now).Reason == tollgate.ReasonUnknownConstraint {
				found = append(found, fmt.Sprintf("perimeter %s@%d has constraints that this release does not know: it denies every payment", form.ID, form.Version))
			}
		}
	}
	return found
}

// organizationCheck is the work on one organization.
type organizationCheck struct {
	form       *organizationForm
	at         string // its YAML path
	builtin    []tollgate.RuleRef
	references *references
	problems   *fileProblems
	seen       map[string]string // id (of versions: id@version) → where
	later      map[string]perimeterFault
	config     tollgate.Config
}

func (c *organizationCheck) run() tollgate.Config {
	f := c.form
	c.config.Organization = tollgate.Organization{
		Object: "organization", ID: f.ID, Name: f.Name, Status: active(f.Status), HomeRegion: f.HomeRegion, Metadata: f.Metadata,
	}
	c.config.Effective = map[string]tollgate.Date{}
	c.unique(c.at, f.ID)
	if f.Name == "" && f.HomeRegion == "" && f.Metadata == nil { // as it is stored, but for its status
		c.config.Organization.Status = f.Status
		if f.Status != "" {
			c.oneOf(c.at, "status", f.Status, tollgate.StatusActive, "suspended", "closed")
		}
		c.identifier(c.at, tollgate.PrefixOrganization, f.ID)
		c.refer(c.at, "", "", "there is no organization %s; a new one needs a name and a home_region", f.ID)
	} else {
		c.problems.add(c.at, checkOrganization(&c.config.Organization))
		c.problems.add(c.at+".metadata", f.Metadata.Check())
	}
	c.legalEntities()
	c.perimeters()
	c.ruleSets()
	c.merchantAccounts()
	c.clients()
	c.ruleSigners()
	c.grants()
	return c.config
}

// unique notes an id; ids are unique in the whole file.
func (c *organizationCheck) unique(at, id string) {
	if id == "" {
		return // the object's own check says so
	}
	if first, ok := c.seen[id]; ok {
		c.problems.addf(at, "%s is already at %s", id, first)
		return
	}
	c.seen[id] = at
}

func (c *organizationCheck) legalEntities() {
	for i, f := range c.form.LegalEntities {
		at := fmt.Sprintf("%s.legal_entities[%d]", c.at, i)
		e := tollgate.LegalEntity{
			Object: "legal_entity", ID: f.ID, OrganizationID: c.form.ID, LegalName: f.LegalName, Country: f.Country,
			RegistrationNumber: f.RegistrationNumber, TaxID: f.TaxID,
			Type: cmp.Or(f.Type, "company"), Status: cmp.Or(f.Status, "unverified"), Metadata: f.Metadata,
		}
		c.unique(at, f.ID)
		c.problems.add(at, checkLegalEntity(&e))
		c.problems.add(at+".metadata", f.Metadata.Check())
		for name, text := range map[string]*string{"registration_number": f.RegistrationNumber, "tax_id": f.TaxID} {
			if text != nil {
				c.problems.add(at+"."+name, tollgate.CheckText(name, *text, 64))
			}
		}
		c.config.LegalEntities = append(c.config.LegalEntities, e)
	}
}

func (c *organizationCheck) perimeters() {
	for i, f := range c.form.Perimeters {
		at := fmt.Sprintf("%s.perimeters[%d]", c.at, i)
		c.versioned(at, tollgate.PrefixPerimeter, f.ID, f.Version)
		constraints, err := toJSON(f.Constraints)
		if f.Constraints == nil {
			constraints, err = []byte("{}"), nil
		}
		document := tollgate.PerimeterDocument{ID: f.ID, Version: f.Version, Constraints: constraints}
		if err == nil {
			var later error
			if _, later, err = compilePerimeter(document); later != nil {
				c.later[fmt.Sprintf("%s@%d", f.ID, f.Version)] = perimeterFault{at + ".constraints", later}
			}
		}
		c.problems.add(at+".constraints", err)
		c.config.Perimeters = append(c.config.Perimeters, document)
	}
}

func (c *organizationCheck) ruleSets() {
	for i, f := range c.form.RuleSets {
		at := fmt.Sprintf("%s.rule_sets[%d]", c.at, i)
		c.versioned(at, tollgate.PrefixRuleSet, f.ID, f.Version)
		set := tollgate.RuleSet{ID: f.ID, Version: f.Version, Rules: []tollgate.Citation{}}
		for j, text := range f.Rules {
			at := fmt.Sprintf("%s.rules[%d]", at, j)
			rule, err := tollgate.ParseCitation(text)
			if err != nil {
				c.problems.add(at, err)
			} else if !slices.ContainsFunc(c.builtin, func(ref tollgate.RuleRef) bool { return ref.Rule == rule }) {
				c.references.rules = append(c.references.rules, citedRule{c.form.ID, rule, at})
			} else if slices.Contains(set.Rules, rule) {
				c.problems.addf(at, "%s stands twice", rule)
			}
			set.Rules = append(set.Rules, rule)
		}
		c.config.RuleSets = append(c.config.RuleSets, set)
	}
}

// versioned checks what perimeters and rule sets have in common.
func (c *organizationCheck) versioned(at, prefix, id string, version int64) {
	c.identifier(at, prefix, id)
	if version < 1 {
		c.problems.addf(at, "version: %d is not 1 or more", version)
	}
	c.unique(at, fmt.Sprintf("%s@%d", id, version))
}

func (c *organizationCheck) identifier(at, prefix, id string) {
	if !tollgate.ValidID(id) || len(id) <= len(prefix) || id[:len(prefix)] != prefix {
		c.problems.addf(at, "id: %q is not an identifier of the form %s…", id, prefix)
	}
}

func (c *organizationCheck) text(at, name, value string) {
	if value == "" {
		c.problems.addf(at, "%s is missing", name)
	}
	c.problems.add(at, tollgate.CheckText(name, value, 255))
}

func (c *organizationCheck) oneOf(at, name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.problems.addf(at, "%s: %q is not one of %v", name, value, allowed)
	}
}

func (c *organizationCheck) instant(at, text string) tollgate.Instant {
	if text == "" {
		return 0
	}
	i, err := tollgate.ParseInstant(text)
	c.problems.add(at, err)
	return i
}

func active(status string) string { return cmp.Or(status, tollgate.StatusActive) }
