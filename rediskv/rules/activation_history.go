package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// ScheduledActivation reads what canceling an activation of a rule set is
// decided from.
func (s *Store) ScheduledActivation(ctx context.Context, c rediskv.Caller, ruleSet, id string) (*tollgate.RuleSetFacts, tollgate.Stored[tollgate.Activation], error) {
	k := s.db.Space(c.Organization)
	a, err := s.activation(ctx, k, id)
	if err == nil && a.Value.RuleSetID != ruleSet {
		err = tollgate.NotFound()
	}
	if err != nil {
		return nil, a, err
	}
	f, _, err := s.ruleSetFacts(ctx, k, ruleSet)
	return f, a, err
}

// RollbackFacts reads what a rollback is decided from: of the accounts named, or
// of all that were ever moved.
func (s *Store) RollbackFacts(ctx context.Context, c rediskv.Caller, ruleSet string, accounts []string) (*tollgate.RuleSetFacts, error) {
	k := s.db.Space(c.Organization)
	f, all, err := s.ruleSetFacts(ctx, k, ruleSet)
	if err != nil {
		return nil, err
	}
	if f.History, err = s.History(ctx, k, ruleSet); err != nil {
		return nil, err
	}
	// Read after the rule set, whose revision every move changes.
	moved, err := s.moved(ctx, k, f.History)
	if err != nil {
		return nil, err
	}
	f.Versions = versionsOf(ruleSet, moved)
	if f.Accounts, f.Named = moved, len(accounts) > 0; f.Named {
		if f.Accounts, err = s.accounts(ctx, k, accounts); err != nil {
			return nil, err
		}
	}
	if err := s.scheduled(ctx, k, f); err != nil {
		return nil, err
	}
	return f, s.rulesInUse(ctx, k, f, all)
}

// RuleSetVersion reads a version of a rule set, its rules pinned.
func (s *Store) RuleSetVersion(ctx context.Context, org, id string, version int64) ([]tollgate.RuleRef, error) {
	k := s.db.Space(org)
	set, err := s.ruleSet(ctx, k, id, version)
	if err != nil {
		return nil, err
	}
	return s.Pinned(ctx, k, set.Rules)
}

// History reads the activations of a rule set that are in force, the newest first.
func (s *Store) History(ctx context.Context, k rediskv.Space, ruleSet string) (h tollgate.History, err error) {
	var list []string
	if err := s.db.Timed(ctx, "read_activations", func(ctx context.Context) (err error) {
		list, err = s.db.Redis.ZRevRange(ctx, k.Activations(ruleSet), 0, -1).Result()
		return err
	}); err != nil {
		return nil, err
	}
	keys := make([]string, len(list))
	for i, id := range list {
		keys[i] = k.Object(id)
	}
	found, err := s.db.ReadFields(ctx, "read_activations", keys, "v", "json")
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		a := tollgate.Stored[tollgate.Activation]{Revision: f.Int("v")}
		if err := f.Document(&a.Value); err != nil {
			return nil, s.db.Damaged(ctx, k, "activation", list[i], err)
		}
		if a.Value.Kind == tollgate.ActivationForward && a.Value.Status == tollgate.ActivationActive {
			h = append(h, a)
		}
	}
	return h, nil
}

// moved are all accounts that were ever moved.
func (s *Store) moved(ctx context.Context, k rediskv.Space, h tollgate.History) ([]tollgate.Stored[tollgate.MerchantAccount], error) {
	var ids []string
	for _, a := range h {
		ids = append(ids, a.Value.MerchantAccountIDs...)
	}
	slices.Sort(ids)
	return s.accounts(ctx, k, slices.Compact(ids))
}

// versionsOf are the versions of those accounts that use a rule set.
func versionsOf(ruleSet string, accounts []tollgate.Stored[tollgate.MerchantAccount]) map[string]int64 {
	versions := make(map[string]int64)
	for _, t := range accounts {
		if t.Value.RuleSet.ID == ruleSet {
			versions[t.Value.ID] = t.Value.RuleSet.Version
		}
	}
	return versions
}

func (s *Store) ruleSet(ctx context.Context, k rediskv.Space, id string, version int64) (set tollgate.RuleSet, err error) {
	var text string
	if err := s.db.Timed(ctx, "read_version", func(ctx context.Context) (err error) {
		text, err = s.db.Redis.Get(ctx, k.Version(id, version)).Result()
		if errors.Is(err, redis.Nil) {
			return tollgate.Invalid("", "there is no %s version %d", id, version)
		}
		return err
	}); err != nil {
		return set, err
	}
	if err := record.DecodeAt(k.Version(id, version), text, &set); err != nil {
		return set, fmt.Errorf("rule set %s version %d: %w", id, version, err)
	}
	return set, nil
}
