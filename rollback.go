package tollgate

import (
	"fmt"
	"maps"
	"slices"
)

// History is what led accounts to the versions of a rule set that they have: its
// activations in force, the newest first, without rollbacks.
type History []Stored[Activation]

// ledTo is the activation that gave all these accounts a version, nil if none
// did. A version is made by one activation at most.
func (h History) ledTo(version int64, accounts ...string) *Activation {
	i := slices.IndexFunc(h, func(a Stored[Activation]) bool { return a.Value.ToVersion == version })
	if i < 0 {
		return nil
	}
	for _, id := range accounts {
		if !slices.Contains(h[i].Value.MerchantAccountIDs, id) {
			return nil
		}
	}
	return &h[i].Value
}

// Before is the version that an account had before the first of the activations
// that, one after the other, led to the one that it has.
func (h History) Before(version int64, account string) int64 {
	for a := h.ledTo(version, account); a != nil; a = h.ledTo(version, account) {
		version = a.FromVersion
	}
	return version
}

// over are the activations of which nothing is left: no account has their
// version, or one that was made from it. versions are those of the accounts that
// use the rule set.
func (h History) over(versions map[string]int64) (over []Stored[Activation]) {
	left := make(map[int64]bool)
	for account, version := range versions {
		for a := h.ledTo(version, account); a != nil; a = h.ledTo(version, account) {
			left[version] = true
			version = a.FromVersion
		}
	}
	for _, a := range h {
		if !left[a.Value.ToVersion] {
			over = append(over, a)
		}
	}
	return over
}

// lastMoved are the accounts that have what the latest activation gave them of
// those of which some account still has it.
func (h History) lastMoved(versions map[string]int64) (accounts []string, err error) {
	for _, a := range h {
		for _, id := range a.Value.MerchantAccountIDs {
			if versions[id] == a.Value.ToVersion {
				accounts = append(accounts, id)
			}
		}
		if len(accounts) > 0 {
			return accounts, nil
		}
	}
	return nil, activationState("No activation of this rule set is in force; there is nothing to go back to.")
}

// Previous is the version that a rollback of the accounts leads to: the one that
// they had before the activation that led to the present one.
func (f *RuleSetFacts) Previous(g *Grant) (int64, error) {
	targets, now, err := f.toRollBack(g)
	if err != nil {
		return 0, err
	}
	led := f.History.ledTo(now.Version, accountIDs(targets)...)
	if led == nil {
		return 0, activationState("No activation led to version %d of the rule set for these accounts; there is nothing to go back to.", now.Version)
	}
	return led.FromVersion, nil
}

// toRollBack are the accounts named, or all that have what the latest activation
// in force gave them, and the rule set that they have.
func (f *RuleSetFacts) toRollBack(g *Grant) ([]Stored[MerchantAccount], RuleSet, error) {
	named := *f
	if !f.Named {
		if f.Revision == 0 {
			return nil, RuleSet{}, NotFound()
		}
		last, err := f.History.lastMoved(f.Versions)
		if err != nil {
			return nil, RuleSet{}, err
		}
		named.Named, named.Accounts = true, nil
		for _, id := range last {
			i := slices.IndexFunc(f.Accounts, func(a Stored[MerchantAccount]) bool { return a.Value.ID == id })
			named.Accounts = append(named.Accounts, f.Accounts[i])
		}
	}
	targets, err := named.targets(g)
	if err != nil {
		return nil, RuleSet{}, err
	}
	now, err := oneVersion(targets)
	return targets, now, err
}

// RollBack gives the accounts a version back that they had, with its rules
// pinned, at once. What is scheduled for them is canceled.
func (f *RuleSetFacts) RollBack(newID NewIDFunc, o Origin, g *Grant, back int64, rules []RuleRef) (*RuleSetChange, *Activation, error) {
	targets, now, err := f.toRollBack(g)
	if err != nil {
		return nil, nil, err
	}
	a := &Activation{
		Object: "activation", ID: newID(PrefixActivation), CreatedAt: o.At, Kind: ActivationRollback,
		RuleSetID: f.ID, FromVersion: now.Version, ToVersion: back, Rules: rules,
		MerchantAccountIDs: accountIDs(targets), At: o.At, Status: ActivationActive, ActivatedAt: o.At,
	}
	after := maps.Clone(f.Versions)
	for _, id := range a.MerchantAccountIDs {
		after[id] = back
	}
	var ended []Stored[Activation]
	for _, over := range f.History.over(after) {
		over.Value.Status, over.Value.EndedAt = ActivationRolledBack, o.At
		ended = append(ended, over)
	}
	var canceled []string
	for _, busy := range f.scheduledFor(a.MerchantAccountIDs) {
		busy.Value.Status, busy.Value.EndedAt = ActivationCanceled, o.At
		ended, canceled = append(ended, busy), append(canceled, busy.Value.ID)
	}
	c := f.without(canceled...)
	c.Listed, c.Activations = a.ID, append([]Stored[Activation]{{Value: *a}}, ended...)
	c.Audit = AuditEntry{
		Type: "rule.rollback", Outcome: "succeeded", Reason: fmt.Sprintf("%d to %d", now.Version, back), Target: AuditTarget{Type: "activation", ID: a.ID},
	}
	return c, a, c.move(newID, o, f, a, targets)
}
