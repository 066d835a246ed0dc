package tollgate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxActivated is how many accounts one activation moves at most: they all move
// in one script.
const MaxActivated = 200

// ActivationStatus is where an activation stands.
type ActivationStatus string

// A scheduled activation becomes active at its time; it fails when an account
// has been given other rules meanwhile. It is active while one of its accounts
// has its version, or one that was made from that. The last of them leaves by a
// rollback, or because provisioning gives it another rule set: superseded.
const (
	ActivationScheduled  ActivationStatus = "scheduled"
	ActivationActive     ActivationStatus = "active"
	ActivationCanceled   ActivationStatus = "canceled"
	ActivationRolledBack ActivationStatus = "rolled_back"
	ActivationSuperseded ActivationStatus = "superseded"
	ActivationFailed     ActivationStatus = "failed"
)

// Activation moves accounts from one version of a rule set to the next at a
// time.
type Activation struct {
	Object             string           `json:"object"` // "activation"
	ID                 string           `json:"id"`
	CreatedAt          Instant          `json:"created_at"`
	Kind               ActivationKind   `json:"kind"`
	RuleSetID          string           `json:"rule_set_id"`
	Rule               *Citation        `json:"rule"`     // null in a rollback
	Replaces           *Citation        `json:"replaces"` // null where the rule adds a line, and in a rollback
	FromVersion        int64            `json:"from_version"`
	ToVersion          int64            `json:"to_version"`
	Rules              []RuleRef        `json:"rules"` // of the version that it leads to
	MerchantAccountIDs []string         `json:"merchant_account_ids"`
	At                 Instant          `json:"at"`
	Status             ActivationStatus `json:"status"`
	ActivatedAt        Instant          `json:"activated_at"`
	EndedAt            Instant          `json:"ended_at"` // canceled, failed, rolled back or superseded
	FailureReason      *string          `json:"failure_reason"`
	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// ActivationAnswer is an activation as the service answers it.
type ActivationAnswer struct {
	Activation
	Instances  *InstancesReady `json:"instances"`           // null: it has taken effect, or never will
	Comparison *FeeComparison  `json:"comparison,omitzero"` // in the answer that makes it, and in its repeats
}

// InstancesReady says how far the instances of the service are with what an
// activation names.
type InstancesReady struct {
	Ready   int               `json:"ready"`
	Total   int               `json:"total"`
	Failing []FailingInstance `json:"failing"`
}

// FailingInstance is an instance that cannot load an activation's rules.
type FailingInstance struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// ActivationKind says which way an activation leads.
type ActivationKind string

// An activation goes to a new version, a rollback to one that was in force.
const (
	ActivationForward  ActivationKind = "activation"
	ActivationRollback ActivationKind = "rollback"
)

// InstanceGrace is how long an activation that is due waits for an instance
// that has not loaded its rules; then it goes on without that one.
const InstanceGrace = 30 * time.Second

// Stored is an object as it was read. A change that is decided from it is
// written only if it has that revision still.
type Stored[T any] struct {
	Value    T
	Revision int64 // 0: there is none
}

// RuleSetFacts are what a change of a rule set's versions is decided from.
type RuleSetFacts struct {
	ID       string
	Revision int64 // 0: nothing has ever changed it
	Last     int64 // the highest version that there has been
	Free     int64 // the first version behind all of them that does not exist

	// Accounts are those named in the request, in its order, or, when Named is
	// false, all of the organization's. Revision 0: there is no such account; its
	// ID is what was named.
	Accounts []Stored[MerchantAccount]
	Named    bool

	Pending   []string             // what is scheduled for the rule set
	Scheduled []Stored[Activation] // the same, read
	Pinned    map[Citation]RuleRef // the accounts' rules and the one that is asked for

	// For a rollback: how its accounts came to what they have, and the versions
	// of those that were ever moved and use the rule set. Not Named: Accounts are
	// all that were ever moved.
	History  History
	Versions map[string]int64

	// InUse are the rules of each account of the organization. Unknown says that
	// one of them cannot be read.
	InUse   map[string][]Citation
	Unknown bool
}

// ActivationRequest is what is to be activated, and for whom.
type ActivationRequest struct {
	RuleChange
	At    Instant // 0: now
	Grant *Grant  // that must cover all accounts; nil: the service's own
}

// ActivationPlan is an activation with what it is judged by: what its accounts
// are priced with when it takes effect, and their currencies.
type ActivationPlan struct {
	Activation // without id, as long as it is only a plan
	Before     []RuleRef
	Currencies []Currency // in their order, each once
}

// RuleSetChange is everything that a change of a rule set's versions writes, all
// or nothing, if nothing that it was decided from has changed.
type RuleSetChange struct {
	RuleSetID   string
	Revision    int64 // as it was read
	Last        int64 // the highest version now
	Pending     []string
	Version     *RuleSet             // a new one
	Listed      string               // the activation that joins the rule set's
	Activations []Stored[Activation] // as they become
	Schedule    *Activation          // the one to carry out at its time
	Unschedule  []string
	Accounts    []Stored[MerchantAccount] // as they become
	Events      []Event
	Audit       AuditEntry // type, outcome, reason and target
}

// Plan says what an activation would be, as things are at a time. No other is
// scheduled for its accounts, so what they have now is what they have until it
// takes effect.
func (f *RuleSetFacts) Plan(r ActivationRequest, now Instant) (*ActivationPlan, error) {
	targets, err := f.targets(r.Grant)
	if err != nil {
		return nil, err
	}
	from, err := oneVersion(targets)
	if err != nil {
		return nil, err
	}
	if busy := f.scheduledFor(accountIDs(targets)); len(busy) > 0 {
		return nil, activationState("Activation %s is scheduled for these accounts; cancel it or wait for it.", busy[0].Value.ID)
	}
	next, replaced, err := from.with(r.RuleChange)
	if err != nil {
		return nil, err
	}
	refs := f.pinned(next.Rules)
	if i := slices.Index(next.Rules, r.Rule); refs[i].SHA256 == "" {
		return nil, &Error{Code: CodeNotFound, Param: "rule", Message: "There is no " + r.Rule.String() + "."}
	}
	return &ActivationPlan{Before: f.pinned(from.Rules), Currencies: currenciesOf(targets), Activation: Activation{
		Object: "activation", CreatedAt: now, Kind: ActivationForward,
		RuleSetID: next.ID, Rule: &r.Rule, Replaces: replaced, FromVersion: from.Version, ToVersion: f.Free, Rules: refs,
		MerchantAccountIDs: accountIDs(targets), At: max(r.At, now), Status: ActivationScheduled,
	}}, nil
}

// Activate makes the next version of a rule set and schedules the accounts'
// change to it, as planned.
func (f *RuleSetFacts) Activate(newID NewIDFunc, p *ActivationPlan) *RuleSetChange {
	a := &p.Activation
	a.ID = newID(PrefixActivation)
	next := a.ruleSet()
	return &RuleSetChange{
		RuleSetID: f.ID, Revision: f.Revision, Last: max(f.Last, next.Version), Pending: append(slices.Clone(f.Pending), a.ID),
		Version: &next, Listed: a.ID, Activations: []Stored[Activation]{{Value: *a}}, Schedule: a,
		Audit: AuditEntry{Type: "rule.activate", Outcome: "succeeded", Reason: a.Rule.String(), Target: AuditTarget{Type: "activation", ID: a.ID}},
	}
}

// ruleSet is the version that an activation leads to.
func (a *Activation) ruleSet() RuleSet {
	set := RuleSet{ID: a.RuleSetID, Version: a.ToVersion, Rules: make([]Citation, len(a.Rules))}
	for i, ref := range a.Rules {
		set.Rules[i] = ref.Rule
	}
	return set
}

// Waits reports whether an activation whose time has come waits for instances
// that lack its rules.
func (a *Activation) Waits(lacking int, now Instant) bool {
	return lacking > 0 && now < a.At.Add(InstanceGrace)
}

// CarryOut moves the accounts of a scheduled activation, all at once. One whose
// accounts have been given other rules since it was made fails instead: what it
// was computed from is gone. It is nil when there is nothing to do: its time has
// not come, or somebody else was faster.
func (f *RuleSetFacts) CarryOut(newID NewIDFunc, o Origin, of Stored[Activation]) (*RuleSetChange, error) {
	a := of.Value
	if a.Status != ActivationScheduled || a.At > o.At {
		return nil, nil
	}
	a.Status, a.ActivatedAt = ActivationActive, o.At
	for _, t := range f.Accounts {
		if set := t.Value.RuleSet; set.ID != a.RuleSetID || set.Version != a.FromVersion {
			reason := fmt.Sprintf("%s was given other rules after this was scheduled.", t.Value.ID)
			a.Status, a.ActivatedAt, a.EndedAt, a.FailureReason = ActivationFailed, 0, o.At, &reason
			break
		}
	}
	c := f.without(a.ID)
	c.Activations = []Stored[Activation]{{a, of.Revision}}
	c.Audit = AuditEntry{Type: "rule.activated", Outcome: "succeeded", Reason: string(a.Status), Target: AuditTarget{Type: "activation", ID: a.ID}}
	if a.Status == ActivationFailed {
		c.Audit.Outcome, c.Audit.Reason = "refused", "rule_set_changed"
		return c, nil
	}
	return c, c.move(newID, o, f, &a, f.Accounts)
}

// Cancel ends a scheduled activation.
func (f *RuleSetFacts) Cancel(o Origin, of Stored[Activation], g *Grant) (*RuleSetChange, *Activation, error) {
	a := of.Value
	if i := slices.IndexFunc(a.MerchantAccountIDs, func(id string) bool { return !g.Covers(id) }); i >= 0 {
		return nil, nil, &Error{Code: CodeMerchantAccountForbidden, Message: "The grant does not reach " + a.MerchantAccountIDs[i] + "."}
	}
	if a.Status != ActivationScheduled {
		return nil, nil, activationState("The activation is %s.", strings.ReplaceAll(string(a.Status), "_", " "))
	}
	a.Status, a.EndedAt = ActivationCanceled, o.At
	c := f.without(a.ID)
	c.Activations = []Stored[Activation]{{a, of.Revision}}
	c.Audit = AuditEntry{Type: "rule.cancel", Outcome: "succeeded", Target: AuditTarget{Type: "activation", ID: a.ID}}
	return c, &a, nil
}

// without is a change of the rule set that takes activations from what is still
// to come.
func (f *RuleSetFacts) without(ids ...string) *RuleSetChange {
	return &RuleSetChange{
		RuleSetID: f.ID, Revision: f.Revision, Last: f.Last, Unschedule: ids,
		Pending: slices.DeleteFunc(slices.Clone(f.Pending), func(id string) bool { return slices.Contains(ids, id) }),
	}
}

// move gives accounts the version that an activation leads to, with an event for
// each, and tells which rules nobody uses any more.
func (c *RuleSetChange) move(newID NewIDFunc, o Origin, f *RuleSetFacts, a *Activation, targets []Stored[MerchantAccount]) error {
	to := a.ruleSet()
	var before []Citation
	for _, t := range targets {
		for _, rule := range t.Value.RuleSet.Rules {
			if !slices.Contains(before, rule) {
				before = append(before, rule)
			}
		}
		t.Value.RuleSet, t.Value.UpdatedAt = to, o.At
		c.Accounts = append(c.Accounts, t)
		text, err := json.Marshal(t.Value, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("account %s: %w", t.Value.ID, err)
		}
		changed := ResourceChange{Kind: "merchant_account", ID: t.Value.ID, Revision: t.Revision + 1, Changed: []string{"rule_set"}, Document: jsontext.Value(text)}
		e, err := changed.event(newID, Origin{Organization: o.Organization, At: o.At}, RuleActivated)
		if err != nil {
			return err
		}
		c.Events = append(c.Events, e)
	}
	if f.Unknown { // nobody knows which rules are still in use
		return nil
	}
	inUse := [][]Citation{to.Rules}
	for id, rules := range f.InUse {
		if !slices.Contains(a.MerchantAccountIDs, id) {
			inUse = append(inUse, rules)
		}
	}
	for _, rule := range retired(before, inUse) {
		e, err := NewEvent(newID(PrefixEvent), RuleRetired, o.At, o.Organization, "", o.RequestID, RuleRetiredData{RuleID(rule), a.ID, rule})
		if err != nil {
			return fmt.Errorf("event %s: %w", RuleRetired, err)
		}
		c.Events = append(c.Events, e)
	}
	return nil
}

// RuleRetiredData is the data of rule.retired: since an activation or rollback no
// account uses the rule.
type RuleRetiredData struct {
	RuleID       string   `json:"rule_id"`
	ActivationID string   `json:"activation_id"`
	Rule         Citation `json:"rule"`
}

// retired are the rules of before that none of the sets in use names any more.
func retired(before []Citation, inUse [][]Citation) (retired []Citation) {
	for _, c := range before {
		if !slices.ContainsFunc(inUse, func(set []Citation) bool { return slices.Contains(set, c) }) {
			retired = append(retired, c)
		}
	}
	return retired
}

// targets are the accounts to be moved: those named, or all that use the rule
// set.
func (f *RuleSetFacts) targets(g *Grant) (targets []Stored[MerchantAccount], err error) {
	for _, t := range f.Accounts {
		a, there := &t.Value, t.Revision > 0
		switch {
		case !there && f.Named:
			return nil, &Error{Code: CodeNotFound, Param: "merchant_account_ids", Message: "There is no merchant account " + a.ID + "."}
		case f.Named && a.RuleSet.ID != f.ID && f.Revision == 0:
			return nil, NotFound()
		case f.Named && a.RuleSet.ID != f.ID:
			return nil, Invalid("merchant_account_ids", "%s has another rule set, %s.", a.ID, a.RuleSet.ID)
		case !there || a.RuleSet.ID != f.ID:
		case g != nil && !g.Covers(a.ID):
			return nil, &Error{Code: CodeMerchantAccountForbidden, Param: "merchant_account_ids", Message: "The grant does not reach " + a.ID + ", which uses this rule set."}
		default:
			targets = append(targets, t)
		}
	}
	switch {
	case len(targets) == 0 && f.Revision == 0:
		return nil, NotFound()
	case len(targets) == 0:
		return nil, activationState("No merchant account uses this rule set.")
	case len(targets) > MaxActivated:
		return nil, Invalid("merchant_account_ids", "At most %d accounts change at once; name some of the %d.", MaxActivated, len(targets))
	}
	return targets, nil
}

// oneVersion is the version that all accounts have.
func oneVersion(targets []Stored[MerchantAccount]) (RuleSet, error) {
	set := targets[0].Value.RuleSet
	for _, t := range targets {
		if v := t.Value.RuleSet.Version; v != set.Version {
			return set, activationState("%s has version %d of the rule set, %s version %d; name accounts that have the same.",
				targets[0].Value.ID, set.Version, t.Value.ID, v)
		}
	}
	return set, nil
}

func accountIDs(targets []Stored[MerchantAccount]) []string {
	list := make([]string, len(targets))
	for i, t := range targets {
		list[i] = t.Value.ID
	}
	return list
}

func currenciesOf(targets []Stored[MerchantAccount]) (all []Currency) {
	for _, t := range targets {
		all = append(all, t.Value.Currencies...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// scheduledFor are the scheduled activations that move some of these accounts.
func (f *RuleSetFacts) scheduledFor(accounts []string) (busy []Stored[Activation]) {
	for _, a := range f.Scheduled {
		if a.Value.Status == ActivationScheduled && slices.ContainsFunc(a.Value.MerchantAccountIDs, func(id string) bool { return slices.Contains(accounts, id) }) {
			busy = append(busy, a)
		}
	}
	return busy
}

func (f *RuleSetFacts) pinned(rules []Citation) []RuleRef {
	refs := make([]RuleRef, len(rules))
	for i, c := range rules {
		refs[i] = RuleRef{Rule: c, SHA256: f.Pinned[c].SHA256}
	}
	return refs
}

func activationState(format string, args ...any) error {
	return &Error{Code: CodeActivationStateInvalid, Message: fmt.Sprintf(format, args...)}
}
