package rules

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// Activated is an activation that was carried out, and the instances of the API
// that did not have its rules then.
type Activated struct {
	ID      string
	Lacking []string
}

// ActivateDue carries out the activations of a partition whose time has come.
// One waits until every instance of the API has its rules, but for an instance
// that is slow or cannot load them only for tollgate.InstanceGrace: it must not
// keep the others from what was decided.
func (s *Store) ActivateDue(ctx context.Context, partition, limit int) (done []Activated, err error) {
	var members []string
	err = s.db.Timed(ctx, "due_activations", func(ctx context.Context) (err error) {
		members, err = s.db.Redis.ZRangeByScore(ctx, rediskv.ScheduleKey(partition), &redis.ZRangeBy{Min: "-inf", Max: rediskv.Milli(s.db.Now()), Count: int64(limit)}).Result()
		return err
	})
	if err != nil || len(members) == 0 {
		return nil, err
	}
	due, err := s.instances.UpcomingOf(ctx, members)
	if err != nil {
		return nil, err
	}
	instances, err := s.instances.Instances(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range due {
		one := Activated{ID: a.ID}
		for _, i := range instances {
			if lacks, _ := i.Lacks(a.Rules); lacks {
				one.Lacking = append(one.Lacking, i.ID)
			}
		}
		if a.Waits(len(one.Lacking), s.db.Now()) {
			continue
		}
		if failed := s.activate(ctx, rediskv.Caller{Organization: a.Organization}, a.ID); failed != nil {
			err = errors.Join(err, fmt.Errorf("activation %s: %w", a.ID, failed)) // the others do not wait for it
			continue
		}
		done = append(done, one)
	}
	return done, err
}

// activate carries out a scheduled activation, on the service's own account.
func (s *Store) activate(ctx context.Context, clock rediskv.Caller, id string) error {
	k := s.db.Space(clock.Organization)
	_, err := rediskv.Retried(func() (r rediskv.Result, err error) {
		a, err := s.activation(ctx, k, id)
		if err != nil || a.Value.Status != tollgate.ActivationScheduled {
			return r, err
		}
		f, all, err := s.ruleSetFacts(ctx, k, a.Value.RuleSetID)
		if err != nil {
			return r, err
		}
		if f.Accounts, err = s.accounts(ctx, k, a.Value.MerchantAccountIDs); err != nil {
			return r, err
		}
		if err := s.rulesInUse(ctx, k, f, all); err != nil {
			return r, err
		}
		ch, err := f.CarryOut(s.db.NewID, s.db.Origin(clock), a)
		if err != nil || ch == nil {
			return r, err
		}
		return s.CommitRuleSet(ctx, clock, nil, ch, rediskv.Answer{})
	})
	return err
}

// rulesInUse adds the rules of the organization's accounts.
func (s *Store) rulesInUse(ctx context.Context, k rediskv.Space, f *tollgate.RuleSetFacts, accounts []string) error {
	all, err := s.accounts(ctx, k, accounts)
	if rediskv.IsDamage(err) { // nobody knows what that account has
		f.Unknown, err = true, nil
	}
	f.InUse = make(map[string][]tollgate.Citation, len(all))
	for _, t := range all {
		f.InUse[t.Value.ID] = t.Value.RuleSet.Rules
	}
	return err
}
