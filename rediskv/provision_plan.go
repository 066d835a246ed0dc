package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// version plans an immutable document and refuses to change one.
func (p *plan) version(ctx context.Context, kind, id string, version int64, doc any) (string, error) {
	text, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", kind, id, err)
	}
	there, err := p.store.version(ctx, p.space, id, version)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s@%d", id, version)
	switch there {
	case string(text):
	case "":
		p.commit.version(p.space.version(id, version), string(text))
		p.changes = append(p.changes, ConfigChange{Kind: kind, ID: name, Action: "created"})
	default:
		return "", &tollgate.Error{
			Code:    tollgate.CodeParameterInvalid,
			Message: fmt.Sprintf("%s %s exists with other content; versions are immutable, give the change a new version", kind, name),
		}
	}
	return string(text), nil
}

// version reads an immutable document; "" when there is none.
func (s *Store) version(ctx context.Context, k space, id string, version int64) (text string, err error) {
	err = s.timed(ctx, "read_version", func(ctx context.Context) (err error) {
		text, err = s.client.Get(ctx, k.version(id, version)).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	object, of := opened(text)
	return object, cmp.Or(err, checkEnvelope(of))
}

// perimeter plans a version with today's meaning. One that an earlier release
// stored with the same constraints stays as it is, and keeps its meaning.
func (p *plan) perimeter(ctx context.Context, d tollgate.PerimeterDocument) error {
	if len(d.Constraints) == 0 {
		d.Constraints = jsontext.Value("{}")
	}
	if err := d.Constraints.Canonicalize(); err != nil { // the same data is the same version
		return fmt.Errorf("perimeter %s: %w", d.ID, err)
	}
	d.Semantics = 0
	earlier, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("perimeter %s: %w", d.ID, err)
	}
	there, err := p.store.version(ctx, p.space, d.ID, d.Version)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s@%d", d.ID, d.Version)
	if there == string(earlier) {
		p.perimeters[name] = there
		return nil
	}
	d.Semantics = tollgate.PerimeterSemantics
	if _, err := d.Compile(); err != nil {
		return &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: err.Error()}
	}
	p.perimeters[name], err = p.version(ctx, "perimeter", d.ID, d.Version, d)
	return err
}

func (p *plan) ruleSet(ctx context.Context, r tollgate.RuleSet) error {
	if len(r.Rules) > tollgate.MaxRules {
		return tollgate.Invalid("rules", "rule set %s has more than %d rules", r.ID, tollgate.MaxRules)
	}
	refs, err := p.store.resolve(ctx, p.space, r.Rules)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if ref.SHA256 == "" {
			return &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: fmt.Sprintf("rule set %s: there is no %s", r.ID, ref.Rule)}
		}
	}
	before := len(p.strings)
	_, err = p.version(ctx, "rule_set", r.ID, r.Version, r)
	p.ruleSets[fmt.Sprintf("%s@%d", r.ID, r.Version)] = r.Rules
	if err != nil || len(p.strings) == before {
		return err
	}
	return p.highestVersion(ctx, r)
}

// ruleSetState is a rule set's hash, changed, whose highest version is at least
// this one.
func ruleSetState(found fields, last int64) (f pairs) {
	f.set(envelopeField, envelope)
	f.int("v", found.int("v")+1)
	f.int("last", max(last, found.int("last")))
	f.set("pending", found["pending"])
	return f
}

// highestVersion notes it: activations put theirs behind.
func (p *plan) highestVersion(ctx context.Context, r tollgate.RuleSet) error {
	key := p.space.object(r.ID)
	found, err := p.current(ctx, key)
	if err != nil {
		return err
	}
	h := hashWrite{key, found["v"], ruleSetState(found, r.Version)}
	if i := slices.IndexFunc(p.hashes, func(h hashWrite) bool { return h.key == key }); i >= 0 {
		// An earlier version of the same file; the higher one counts.
		if last := fieldsOf([]any(p.hashes[i].fields)).int("last"); last < r.Version {
			p.hashes[i] = h
		}
		return nil
	}
	p.hashes = append(p.hashes, h)
	return nil
}

// existingVersion reads a version that the file does not repeat.
func (s *Store) existingVersion(ctx context.Context, k space, id string, version int64) (string, error) {
	text, err := s.version(ctx, k, id, version)
	if err == nil && text == "" {
		err = &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: fmt.Sprintf("there is no %s version %d", id, version)}
	}
	return text, err
}

func (p *plan) organization(ctx context.Context, want Config) error {
	o := want.Organization
	found, err := p.current(ctx, p.space.organization())
	if err != nil {
		return err
	}
	p.exists = len(found) > 0
	var old tollgate.Organization
	if p.exists {
		if err := decode(found["json"], &old); err != nil {
			return fmt.Errorf("organization %s: %w", o.ID, err)
		}
	}
	if o.Name == "" && o.HomeRegion == "" { // the file only refers to it
		if !p.exists {
			return &tollgate.Error{Code: tollgate.CodeParameterInvalid, Message: fmt.Sprintf("there is no organization %s", o.ID)}
		}
		o = old
		o.Status = cmp.Or(want.Organization.Status, old.Status)
	}
	o.Object = "organization"
	if p.exists && o.Status != old.Status {
		p.ending = append(p.ending, ending{kind: "organization", id: o.ID})
	}
	accounts := strings.Fields(found["accounts"])
	for _, a := range want.MerchantAccounts {
		if !slices.Contains(accounts, a.ID) {
			accounts = append(accounts, a.ID)
		}
	}
	list := strings.Join(accounts, " ")
	return p.object(ctx, "organization", o.ID, &o, &o.CreatedAt, &o.UpdatedAt, always(tollgate.OrganizationUpdated), pairs{"accounts", list})
}

func (p *plan) account(ctx context.Context, want Config, a tollgate.MerchantAccount) error {
	a.Object, a.OrganizationID = "merchant_account", p.space.org
	wanted := want.Effective[a.ID]
	if !slices.ContainsFunc(want.LegalEntities, func(l tollgate.LegalEntity) bool { return l.ID == a.LegalEntityID }) {
		if _, err := p.refer(ctx, "legal entity", a.LegalEntityID); err != nil {
			return fmt.Errorf("merchant account %s: %w", a.ID, err)
		}
	}
	limits, known := p.perimeters[fmt.Sprintf("%s@%d", a.Perimeter.ID, a.Perimeter.Version)]
	if !known {
		var err error
		if limits, err = p.store.existingVersion(ctx, p.space, a.Perimeter.ID, a.Perimeter.Version); err != nil {
			return fmt.Errorf("merchant account %s: %w", a.ID, err)
		}
	}
	rules, known := p.ruleSets[fmt.Sprintf("%s@%d", a.RuleSet.ID, a.RuleSet.Version)]
	if !known {
		text, err := p.store.existingVersion(ctx, p.space, a.RuleSet.ID, a.RuleSet.Version)
		if err != nil {
			return fmt.Errorf("merchant account %s: %w", a.ID, err)
		}
		var set tollgate.RuleSet
		if err := decode(text, &set); err != nil {
			return fmt.Errorf("rule set %s: %w", a.RuleSet.ID, err)
		}
		rules = set.Rules
	}
	a.RuleSet.Rules = rules
	found, err := p.current(ctx, p.space.object(a.ID))
	if err != nil {
		return err
	}
	cutoffs, err := p.cutoff(found, &a, wanted)
	if err != nil {
		return fmt.Errorf("merchant account %s: %w", a.ID, err)
	}
	given := fmt.Sprintf("%s@%d", a.RuleSet.ID, a.RuleSet.Version)
	before, err := p.keepActivated(ctx, found, &a, given)
	if err != nil {
		return fmt.Errorf("merchant account %s: %w", a.ID, err)
	}
	if err := p.judged(ctx, found, &a); err != nil {
		return fmt.Errorf("merchant account %s: %w", a.ID, err)
	}
	planned := len(p.hashes)
	err = p.object(ctx, "merchant_account", a.ID, &a, &a.CreatedAt, &a.UpdatedAt, accountEvents, pairs{"limits", limits, "cutoffs", cutoffs, "given", given})
	if err == nil && len(p.hashes) == planned && before != given {
		// What is in force already is now also what the file gives; no event,
		// for nothing is priced in another way.
		h := hashWrite{key: p.space.object(a.ID), expected: found["v"]}
		h.fields.set(envelopeField, envelope)
		h.fields.int("v", found.int("v")+1)
		h.fields.set("given", given)
		p.hashes = append(p.hashes, h)
		p.changes = append(p.changes, ConfigChange{Kind: "merchant_account", ID: a.ID, Action: "changed", Fields: []string{"rule_set"}})
	}
	return err
}

// keepActivated leaves an account the rules that it has been given by
// activations, unless the file names another rule set than the one that
// provisioning gave it before, which is returned. Accounts that do not note that
// yet had before their activations what they were given.
func (p *plan) keepActivated(ctx context.Context, found fields, a *tollgate.MerchantAccount, given string) (before string, err error) {
	if len(found) == 0 {
		return "", nil
	}
	var old tollgate.MerchantAccount
	if err := decode(found["json"], &old); err != nil {
		return "", err
	}
	if before = found["given"]; before == "" {
		h, err := p.store.history(ctx, p.space, old.RuleSet.ID)
		if err != nil {
			return "", err
		}
		before = fmt.Sprintf("%s@%d", old.RuleSet.ID, h.Before(old.RuleSet.Version, a.ID))
	}
	switch {
	case before == given:
		a.RuleSet = old.RuleSet
	case old.RuleSet.ID != a.RuleSet.ID || old.RuleSet.Version != a.RuleSet.Version:
		p.moved = append(p.moved, moved{a.ID, old.RuleSet.ID, a.RuleSet})
	}
	return before, nil
}

// moved is an account that is given another rule set than it has.
type moved struct {
	account, from string // from is the rule set's id
	to            tollgate.RuleSet
}

// supersede ends the activations of which nothing is left once the accounts
// have what the file gives them.
func (p *plan) supersede(ctx context.Context) error {
	var done []string
	for _, m := range p.moved {
		if slices.Contains(done, m.from) {
			continue
		}
		done = append(done, m.from)
		key := p.space.object(m.from)
		found, err := p.current(ctx, key) // before what it orders: see below
		if err != nil {
			return err
		}
		h, err := p.store.history(ctx, p.space, m.from)
		if err != nil {
			return err
		}
		if len(h) == 0 {
			continue
		}
		accounts, err := p.store.moved(ctx, p.space, h)
		if err != nil {
			return err
		}
		versions := versionsOf(m.from, accounts)
		for _, other := range p.moved {
			delete(versions, other.account)
			if other.to.ID == m.from {
				versions[other.account] = other.to.Version
			}
		}
		for _, over := range h.Over(versions) {
			if err := p.end(&over); err != nil {
				return err
			}
		}
		// A rollback at the same time looks at the same accounts. Both change
		// the rule set's revision, so the second of them looks again.
		if !slices.ContainsFunc(p.hashes, func(h hashWrite) bool { return h.key == key }) {
			p.hashes = append(p.hashes, hashWrite{key, found["v"], ruleSetState(found, 0)})
		}
	}
	return nil
}

func (p *plan) end(a *tollgate.Stored[tollgate.Activation]) error {
	a.Value.Status, a.Value.EndedAt = tollgate.ActivationSuperseded, p.now
	if err := p.activation(a); err != nil {
		return err
	}
	return p.audit("rule.superseded", "", "activation", a.Value.ID)
}

// eventTypes says which events a change of the named members makes; none are
// named where the object is new.
type eventTypes func(changed []string) []tollgate.EventType

func always(t tollgate.EventType) eventTypes {
	return func([]string) []tollgate.EventType { return []tollgate.EventType{t} }
}

// accountEvents: what a receiver acts on has a type of its own.
func accountEvents(changed []string) (types []tollgate.EventType) {
	if len(changed) == 0 {
		return []tollgate.EventType{tollgate.MerchantAccountUpdated}
	}
	own := map[string]tollgate.EventType{
		"cutoff": tollgate.CutoffUpdated, "perimeter": tollgate.PerimeterActivated, "rule_set": tollgate.RuleActivated,
	}
	for _, name := range changed {
		t, ok := own[name]
		if !ok {
			t = tollgate.MerchantAccountUpdated
		}
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// current reads a hash as it is; nothing where there is none. It is read once:
// all that is computed from it is written only if it has that revision still.
func (p *plan) current(ctx context.Context, key string) (fields, error) {
	if found, ok := p.read[key]; ok {
		return found, nil
	}
	found, err := p.store.readHashes(ctx, "read_config", key)
	switch {
	case gone(err):
		found = []fields{nil}
	case err != nil:
		return nil, err
	}
	p.read[key] = found[0]
	return found[0], nil
}

// object plans a hash. created keeps its first value, and updated moves only
// with a change, so that the same file changes nothing.
func (p *plan) object(ctx context.Context, kind, id string, doc any, created, updated *tollgate.Instant, events eventTypes, extra pairs) error {
	key := p.space.object(id)
	if kind == "organization" {
		key = p.space.organization()
	}
	found, err := p.current(ctx, key)
	if err != nil {
		return err
	}
	var old map[string]jsontext.Value
	if len(found) > 0 {
		if err := decode(found["json"], &old); err != nil {
			return fmt.Errorf("%s %s: %w", kind, id, err)
		}
	}
	for name, at := range map[string]*tollgate.Instant{"created_at": created, "updated_at": updated} {
		if at == nil {
			continue
		}
		*at = p.now
		if value, ok := old[name]; ok {
			if err := at.UnmarshalJSON(value); err != nil {
				return fmt.Errorf("%s %s: %s: %w", kind, id, name, err)
			}
		}
	}
	changed, err := differences(old, doc)
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, id, err)
	}
	for i := 0; i+1 < len(extra); i += 2 {
		// The versions of a cutoff change with the cutoff, and what was given
		// with the rule set.
		if name, _ := extra[i].(string); len(found) > 0 && found[name] != extra[i+1] && name != "cutoffs" && name != "given" && !slices.Contains(changed, "perimeter") {
			changed = append(changed, name)
		}
	}
	change := ConfigChange{Kind: kind, ID: id, Action: "changed", Fields: changed, From: p.effective[id]}
	if len(found) == 0 {
		change.Action, change.Fields = "created", nil
	} else if len(changed) == 0 {
		return nil
	}
	if updated != nil {
		*updated = p.now
	}
	text, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, id, err)
	}
	h := hashWrite{key: key, expected: found["v"]}
	h.fields.set(envelopeField, envelope)
	h.fields.int("v", found.int("v")+1)
	h.fields.set("json", string(text))
	h.fields = append(h.fields, extra...)
	p.hashes = append(p.hashes, h)
	p.changes = append(p.changes, change)
	if events == nil {
		return nil
	}
	for _, t := range events(change.Fields) {
		if err := p.event(kind, id, t, found.int("v")+1, change.Fields, text); err != nil {
			return err
		}
	}
	return nil
}

// event makes an event of a resource.
func (p *plan) event(kind, id string, t tollgate.EventType, revision int64, changed []string, doc jsontext.Value) error {
	r := tollgate.ResourceChange{Kind: kind, ID: id, Revision: revision, Changed: changed, Document: doc, Effective: p.effective[id]}
	e, err := r.Event(p.store.Mint, tollgate.Origin{Organization: p.space.org, At: p.now}, t)
	p.events = append(p.events, e)
	return err
}

// differences names the members in which two objects differ.
func differences(old map[string]jsontext.Value, doc any) (names []string, err error) {
	text, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	var now map[string]jsontext.Value
	if err := json.Unmarshal(text, &now); err != nil {
		return nil, err
	}
	for name, value := range now {
		if string(old[name]) != string(value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
