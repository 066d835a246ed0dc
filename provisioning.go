package tollgate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Config is an organization's configuration as it should be. Objects that
// exist and are not named stay as they are, and what is named may refer to them.
// An organization without name and region, a client without name and keys and a
// grant without a client stay as they are but for their status.
// created_at, updated_at, a cutoff's version and an account's rules are filled
// in.
type Config struct {
	Organization     Organization
	LegalEntities    []LegalEntity
	MerchantAccounts []MerchantAccount
	Clients          []Client
	Grants           []Grant
	Perimeters       []PerimeterDocument
	RuleSets         []RuleSet
	// Effective says by account from which sales day on a changed cutoff is
	// wanted; without it, and at the earliest, from the day after the open one.
	Effective   map[string]Date
	RuleSigners []RuleSigner
}

// ConfigChange is one object that is created or changed.
type ConfigChange struct {
	Kind   string // organization, legal_entity, merchant_account, client, rule_signer, grant, perimeter or rule_set
	ID     string // with @version for perimeters and rule sets
	Action string // created or changed
	Fields []string
	From   Date // the first sales day of a changed cutoff
	Ends   int  // how many grants there are whose tokens it ends
}

// Provisioning is everything that one file changes of an organization, all of it
// or nothing, if nothing that it was decided from has changed.
type Provisioning struct {
	Organization string
	Changes      []ConfigChange // to be shown; without one there is nothing to write
	NewlyPriced  []NewlyPriced  // to be judged before anything is written

	Objects    []ConfigObject    // as they become
	Compared   map[string]int64  // by id: the revision of what is referred to and stays as it is
	Versions   map[string]string // new documents of perimeters and rule sets, by id@version
	RuleSets   []RuleSetState    // as they become; their revision is the one that was read
	Quotas     *Quotas           // as they become, likewise; nil where they stay
	Grants     *GrantList        // what is added to the list of all, at the revision that was read; nil where nobody is given one and no tokens end
	Ending     []Ending          // whose tokens end
	Raised     []string          // the grants of these that do not change themselves
	Perimeters []string          // all that the file describes, by id@version
	Clients    []string          // all that the file describes
	// ClientsRead is how many the set of all had, where a client is added that was
	// counted; else 0.
	ClientsRead int
	Events      []Event
	Audit       []AuditEntry // with type, outcome, reason and target
}

// ConfigObject is an object as it becomes, at the revision that was read.
type ConfigObject struct {
	Kind, ID string
	StoredObject
}

// NewlyPriced is a rule with currencies that it does not price for an account
// yet. Who provisions looks whether it says something about them.
type NewlyPriced struct {
	MerchantAccountID string
	Rule              RuleRef
	Currencies        []Currency
}

// provisioner makes a Provisioning, step by step.
type provisioner struct {
	*Provisioning
	newID  NewIDFunc
	origin Origin
	facts  *ConfigFacts
	lacks  *ConfigFacts // what has been looked for and not been read
	want   Config
	err    error  // the first fault of the file
	within string // what a fault is of

	described map[string]string // by id@version: the file's documents
	effective map[string]Date   // by account: of a cutoff that changes
	moved     []movedAccount
	holders   map[string]string // by grant: its client, where that is new
}

// Provision decides what makes an organization's configuration what a file says,
// from facts that lack nothing (see ConfigFacts.Lacks). Its errors say why the
// file cannot be carried out.
func Provision(newID NewIDFunc, o Origin, facts *ConfigFacts, want Config) (*Provisioning, error) {
	p := facts.compare(newID, o, want)
	if !p.lacks.None() {
		return nil, fmt.Errorf("provisioning: not read: %+v", p.lacks)
	}
	return p.Provisioning, p.err
}

// compare decides all of a file, whatever is wrong with a part of it or has not
// been read: so one look says everything that is lacking.
func (f *ConfigFacts) compare(newID NewIDFunc, o Origin, want Config) *provisioner {
	p := &provisioner{
		Provisioning: &Provisioning{Organization: o.Organization, Compared: map[string]int64{}, Versions: map[string]string{}},
		newID:        newID, origin: o, facts: f, lacks: NewConfigFacts(), want: want,
		described: map[string]string{}, effective: map[string]Date{}, holders: map[string]string{},
	}
	for _, d := range want.Perimeters {
		p.perimeter(d)
	}
	p.countPerimeters()
	for _, r := range want.RuleSets {
		p.ruleSetVersion(r)
	}
	p.organization()
	for _, l := range want.LegalEntities {
		old, found := stored[LegalEntity](p, "legal_entity", l.ID)
		l.Object, l.OrganizationID, l.CreatedAt = "legal_entity", p.Organization, cmp.Or(old.CreatedAt, o.At)
		p.object("legal_entity", l.ID, found, &l, old.UpdatedAt, &l.UpdatedAt, LegalEntityUpdated)
	}
	for _, a := range want.MerchantAccounts {
		p.merchantAccount(a)
	}
	p.supersede()
	for _, r := range want.RuleSigners {
		_, found := stored[RuleSigner](p, "rule_signer", r.ID)
		r.OrganizationID = p.Organization
		p.object("rule_signer", r.ID, found, &r, 0, nil)
	}
	p.completeGrants()
	p.clients()
	for _, g := range p.want.Grants {
		p.grant(g)
	}
	p.endTokens()
	for _, object := range p.Objects {
		delete(p.Compared, object.ID)
	}
	for _, c := range p.Changes {
		p.audit(c.Kind+".provision", c.Action, c.Kind, c.ID)
	}
	return p
}

// check keeps the first fault.
func (p *provisioner) check(err error) {
	if err != nil && p.within != "" {
		err = fmt.Errorf("%s: %w", p.within, err)
	}
	p.err = cmp.Or(p.err, err)
}

func (p *provisioner) refuse(format string, args ...any) { p.check(Invalid("", format, args...)) }

func (p *provisioner) audit(kind, reason, target, id string) {
	p.Audit = append(p.Audit, AuditEntry{Type: kind, Outcome: "succeeded", Reason: reason, Target: AuditTarget{target, id}})
}

// stored reads an object.
func stored[T any](p *provisioner, kind, id string) (doc T, found StoredObject) {
	if found = look(p.facts.Objects, p.lacks.Objects, id); found.Revision > 0 {
		if err := json.Unmarshal(found.Document, &doc); err != nil {
			p.check(fmt.Errorf("%s %s: %w", kind, id, err))
		}
	}
	return doc, found
}

// refer makes the change hold only while an object that the file names and does
// not describe is as it was found.
func (p *provisioner) refer(kind, id string) {
	p.Compared[id] = look(p.facts.Objects, p.lacks.Objects, id).Revision
	if p.Compared[id] == 0 {
		p.refuse("%q is not a %s of this organization", id, kind)
	}
}

func (p *provisioner) organization() {
	o := p.want.Organization
	old, next := stored[Organization](p, "organization", p.Organization)
	if o.Name == "" && o.HomeRegion == "" { // the file only refers to it
		if next.Revision == 0 {
			p.refuse("there is no organization %s", p.Organization)
		}
		o = old
		o.Status = cmp.Or(p.want.Organization.Status, old.Status)
	}
	if next.Revision > 0 && o.Status != old.Status {
		p.Ending = append(p.Ending, Ending{Kind: "organization", ID: o.ID})
	}
	next.AccountIDs = slices.Clone(next.AccountIDs)
	for _, a := range p.want.MerchantAccounts {
		if !slices.Contains(next.AccountIDs, a.ID) {
			next.AccountIDs = append(next.AccountIDs, a.ID)
		}
	}
	o.Object, o.CreatedAt = "organization", cmp.Or(old.CreatedAt, p.origin.At)
	p.object("organization", o.ID, next, &o, old.UpdatedAt, &o.UpdatedAt, OrganizationUpdated)
}

// object makes an object what it should be, with events of the types, and reports
// whether that changes it. updated moves from before only with a change, so that
// the same file changes nothing.
func (p *provisioner) object(kind, id string, next StoredObject, doc any, before Instant, updated *Instant, types ...EventType) bool {
	if updated != nil {
		*updated = cmp.Or(before, p.origin.At)
	}
	change := ConfigChange{Kind: kind, ID: id, Action: "created", From: p.effective[id]}
	if old, found := stored[map[string]jsontext.Value](p, kind, id); found.Revision > 0 {
		change.Action, change.Fields = "changed", differences(old, p.document(kind, id, doc))
		if !slices.Equal(found.AccountIDs, next.AccountIDs) {
			change.Fields = append(change.Fields, "accounts")
		}
		if found.Perimeter != next.Perimeter && !slices.Contains(change.Fields, "perimeter") {
			change.Fields = append(change.Fields, "limits")
		}
		if len(change.Fields) == 0 {
			return false
		}
	}
	if updated != nil {
		*updated = p.origin.At
	}
	next.Document = p.document(kind, id, doc)
	p.Objects = append(p.Objects, ConfigObject{kind, id, next})
	p.Changes = append(p.Changes, change)
	told := ResourceChange{Kind: kind, ID: id, Revision: next.Revision + 1, Changed: change.Fields, Document: next.Document, Effective: change.From}
	if kind == "merchant_account" && len(change.Fields) > 0 {
		types = accountEvents(change.Fields)
	}
	for _, t := range types {
		e, err := told.event(p.newID, p.origin, t)
		p.check(err)
		p.Events = append(p.Events, e)
	}
	return true
}

// document is the JSON of an object as it is stored.
func (p *provisioner) document(kind, id string, doc any) jsontext.Value {
	text, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		p.check(fmt.Errorf("%s %s: %w", kind, id, err))
	}
	return text
}

// differences names the members in which an object differs from the one before.
func differences(old map[string]jsontext.Value, doc jsontext.Value) (names []string) {
	var now map[string]jsontext.Value
	_ = json.Unmarshal(doc, &now) // it has just been written
	for name, value := range now {
		if string(old[name]) != string(value) {
			names = append(names, name)
		}
	}
	for name := range old {
		if now[name] == nil && (strings.HasSuffix(name, "rate_limits") || name == "dpop_bound_access_tokens") { // which are left out where there are none
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ConfigFacts are what a file is compared with: all that it names and refers to,
// as it was read. What has been read and is not there has its zero value.
type ConfigFacts struct {
	Objects   map[string]StoredObject // by id
	Versions  map[string]string       // documents of perimeters and rule sets, by id@version
	RuleSets  map[string]RuleSetState // by id
	Rules     map[Citation]string     // by rule: its SHA-256
	Owners    map[string]string       // by client: the organization that its id belongs to
	Histories map[string]History      // by rule set; read after its state, whose revision says that it is the latest
	Grants    *GrantList
	Quotas    *Quotas
	Clients   []string // as the set of all has them, for those who count them
}

// StoredObject is an object of an organization as it is stored.
type StoredObject struct {
	Revision   int64 // changes with every change of it; 0: there is none yet
	Document   jsontext.Value
	AccountIDs []string        // of an organization
	Perimeter  string          // of a merchant account: its perimeter's document
	Cutoffs    []CutoffVersion // of a merchant account; nil where the release that stored it kept none
	Closed     Date            // the last closed sales day of a merchant account
	Given      string          // the rule set that a merchant account was last given by provisioning, as id@version; empty as Cutoffs
}

// RuleSetState is what a rule set has beside its versions.
type RuleSetState struct {
	ID             string
	Revision, Last int64    // Last is the highest version
	Pending        []string // scheduled activations
}

// GrantList is all of an organization's grants, each with its client.
type GrantList struct {
	Clients  map[string]string // by grant
	Revision int64             // of the list; 0: there is none yet, and they were searched
}

// NewConfigFacts are facts of which nothing has been read.
func NewConfigFacts() *ConfigFacts {
	return &ConfigFacts{
		Objects: map[string]StoredObject{}, Versions: map[string]string{}, RuleSets: map[string]RuleSetState{},
		Rules: map[Citation]string{}, Owners: map[string]string{}, Histories: map[string]History{},
	}
}

// None reports whether there is nothing in them.
func (f *ConfigFacts) None() bool {
	return len(f.Objects)+len(f.Versions)+len(f.RuleSets)+len(f.Rules)+len(f.Owners)+len(f.Histories) == 0 && f.Grants == nil && f.Quotas == nil
}

// Lacks names, by zero values, what a file is to be compared with and has not
// been read. That follows from the file and from what has been read, so it is
// asked again until nothing is lacking.
func (f *ConfigFacts) Lacks(want Config) *ConfigFacts {
	nothing := func(string) string { return "" }
	return f.compare(nothing, Origin{Organization: want.Organization.ID}, want).lacks
}

// look is a fact; one that has not been read is noted and has its zero value.
func look[K comparable, V any](read, lacks map[K]V, name K) V {
	v, ok := read[name]
	if !ok {
		lacks[name] = v
	}
	return v
}

// versionName is what a version of a perimeter or rule set is called by.
func versionName(id string, version int64) string { return fmt.Sprintf("%s@%d", id, version) }

// What an organization may keep (interface §11). Redis is finite, and what one
// organization fills it with is missing for the payments of all. What is stored
// already stays usable, whatever its number.
const (
	MaxRuleNames         = 200
	MaxRuleVersions      = 100 // of one name
	MaxWebhooks          = 50
	MaxPerimeterVersions = 1000
	MaxExports           = 10 // that are not finished
	MaxShadows           = 5  // at once
	maxMetadata          = 8 << 10
)

// quotaExceeded is a CodeQuotaExceeded error; param is the parameter at fault or,
// where none is, what there would be too many of.
func quotaExceeded(param, format string, args ...any) *Error {
	return &Error{Code: CodeQuotaExceeded, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Quotas are an organization's counts of what nothing else counts.
type Quotas struct {
	Rules      int64 // names of rules
	Perimeters int64 // versions of perimeters
	Revision   int64 // 0: they are not kept yet, and were counted
}
