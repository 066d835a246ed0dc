package rediskv

import (
	"context"
	"slices"
	"strings"

	"tollgate"
)

// history is what led accounts to the versions of a rule set that they have: its
// activations in force, the newest first, without rollbacks.
type history []activation

func (s *Store) history(ctx context.Context, k space, ruleSet string) (h history, err error) {
	var list []string
	if err := s.timed(ctx, "read_activations", func(ctx context.Context) (err error) {
		list, err = s.client.ZRevRange(ctx, k.activations(ruleSet), 0, -1).Result()
		return err
	}); err != nil {
		return nil, err
	}
	keys := make([]string, len(list))
	for i, id := range list {
		keys[i] = k.object(id)
	}
	found, err := s.readFields(ctx, "read_activations", keys, "v", "json")
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		a := activation{revision: f[0]}
		if err := decode(f[1], &a.Activation); err != nil {
			return nil, s.damaged(ctx, k, "activation", list[i], err)
		}
		if a.Kind == tollgate.ActivationForward && a.Status == tollgate.ActivationActive {
			h = append(h, a)
		}
	}
	return h, nil
}

// ledTo is the activation that gave all these accounts a version, nil if none
// did. A version is made by one activation at most.
func (h history) ledTo(version int64, accounts ...string) *activation {
	i := slices.IndexFunc(h, func(a activation) bool { return a.ToVersion == version })
	if i < 0 {
		return nil
	}
	for _, id := range accounts {
		if !slices.Contains(h[i].MerchantAccountIDs, id) {
			return nil
		}
	}
	return &h[i]
}

// before is the version that an account had before the first of the activations
// that, one after the other, led to the one that it has.
func (h history) before(version int64, account string) int64 {
	for a := h.ledTo(version, account); a != nil; a = h.ledTo(version, account) {
		version = a.FromVersion
	}
	return version
}

// over are the activations of which nothing is left: no account has their
// version, or one that was made from it. versions are those of the accounts that
// use the rule set.
func (h history) over(versions map[string]int64) (over []*activation) {
	left := make(map[int64]bool)
	for account, version := range versions {
		for a := h.ledTo(version, account); a != nil; a = h.ledTo(version, account) {
			left[version] = true
			version = a.FromVersion
		}
	}
	for i := range h {
		if !left[h[i].ToVersion] {
			over = append(over, &h[i])
		}
	}
	return over
}

// versions are those of all accounts that were ever moved, by account; one that
// uses another rule set is not there.
func (s *Store) versions(ctx context.Context, k space, ruleSet string, h history) (map[string]int64, error) {
	var moved []string
	for _, a := range h {
		moved = append(moved, a.MerchantAccountIDs...)
	}
	slices.Sort(moved)
	all, err := s.accounts(ctx, k, slices.Compact(moved))
	versions := make(map[string]int64)
	for _, t := range all {
		if t.account.RuleSet.ID == ruleSet {
			versions[t.account.ID] = t.account.RuleSet.Version
		}
	}
	return versions, err
}

// lastMoved are the accounts that have what the latest activation gave them of
// those of which some account still has it.
func (s *Store) lastMoved(ctx context.Context, k space, ruleSet string) (accounts []string, err error) {
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return nil, notFound()
	}
	if _, err := s.readHashes(ctx, "read_rule_set", k.object(ruleSet)); err != nil {
		return nil, err
	}
	h, err := s.history(ctx, k, ruleSet)
	if err != nil {
		return nil, err
	}
	versions, err := s.versions(ctx, k, ruleSet, h)
	if err != nil {
		return nil, err
	}
	for _, a := range h {
		for _, id := range a.MerchantAccountIDs {
			if versions[id] == a.ToVersion {
				accounts = append(accounts, id)
			}
		}
		if len(accounts) > 0 {
			return accounts, nil
		}
	}
	return nil, stateInvalid("No activation of this rule set is in force; there is nothing to go back to.")
}
