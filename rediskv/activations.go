package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// RuleSetFacts reads what a change of a rule set is decided from: for the
// accounts named, or for all of the organization; rule is the one that is asked
// for, if any.
func (s *Store) RuleSetFacts(ctx context.Context, c Caller, ruleSet string, accounts []string, rule *tollgate.Citation) (*tollgate.RuleSetFacts, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	f, all, err := s.ruleSetFacts(ctx, k, ruleSet)
	if err != nil {
		return nil, err
	}
	if f.Named = len(accounts) > 0; !f.Named {
		accounts = all
	}
	if f.Accounts, err = s.accounts(ctx, k, accounts); err != nil {
		return nil, err
	}
	if err := s.scheduled(ctx, k, f); err != nil {
		return nil, err
	}
	var cited []tollgate.Citation
	if rule != nil {
		cited = append(cited, *rule)
	}
	f.Free = f.Last + 1
	for _, t := range f.Accounts {
		if t.Value.RuleSet.ID == ruleSet {
			cited, f.Free = append(cited, t.Value.RuleSet.Rules...), max(f.Free, t.Value.RuleSet.Version+1)
		}
	}
	slices.SortFunc(cited, func(a, b tollgate.Citation) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	refs, err := s.resolve(ctx, k, slices.Compact(cited))
	if err != nil {
		return nil, err
	}
	f.Pinned = make(map[tollgate.Citation]tollgate.RuleRef, len(refs))
	for _, ref := range refs {
		f.Pinned[ref.Rule] = ref
	}
	f.Free, err = s.freeVersion(ctx, k, ruleSet, f.Free)
	return f, err
}

// ruleSetFacts are those of the rule set alone. all are the organization's
// accounts.
func (s *Store) ruleSetFacts(ctx context.Context, k space, ruleSet string) (f *tollgate.RuleSetFacts, all []string, err error) {
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return nil, nil, tollgate.NotFound()
	}
	found, err := s.readHashes(ctx, "read_organization", k.organization(), k.object(ruleSet))
	if err != nil {
		return nil, nil, err
	}
	return &tollgate.RuleSetFacts{
		ID: ruleSet, Revision: found[1].int("v"), Last: found[1].int("last"), Pending: strings.Fields(found[1]["pending"]),
	}, strings.Fields(found[0]["accounts"]), nil
}

var accountFields = []string{"v", "json", envelopeField}

// accounts reads accounts as they are; one that is not there has only its id.
// With the damage of one the others are as they were read.
func (s *Store) accounts(ctx context.Context, k space, ids []string) ([]tollgate.Stored[tollgate.MerchantAccount], error) {
	all := make([]tollgate.Stored[tollgate.MerchantAccount], len(ids))
	var damage error
	err := s.timed(ctx, "read_accounts", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.SliceCmd, len(ids))
		for i, id := range ids {
			replies[i] = pipe.HMGet(ctx, k.object(id), accountFields...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, r := range replies {
			f := fieldsIn(r.Val(), accountFields...)
			all[i].Value.ID = ids[i]
			if f["v"] == "" && f["json"] == "" || !strings.HasPrefix(ids[i], tollgate.PrefixMerchantAccount) {
				continue
			}
			all[i].Revision = f.int("v")
			err := cmp.Or(counters(f), f.document(&all[i].Value))
			damage = cmp.Or(damage, s.damagedAt(ctx, k.object(ids[i]), err))
		}
		return nil
	})
	return all, cmp.Or(err, damage)
}

// scheduled adds what is scheduled for a rule set.
func (s *Store) scheduled(ctx context.Context, k space, f *tollgate.RuleSetFacts) error {
	for _, id := range f.Pending {
		a, err := s.activation(ctx, k, id)
		if err != nil {
			return err
		}
		f.Scheduled = append(f.Scheduled, a)
	}
	return nil
}

// freeVersion is the first version from n on that does not exist: an operator
// may have provisioned some.
func (s *Store) freeVersion(ctx context.Context, k space, ruleSet string, n int64) (int64, error) {
	for ; ; n++ {
		taken := false
		if err := s.timed(ctx, "read_version", func(ctx context.Context) error {
			there, err := s.client.Exists(ctx, k.version(ruleSet, n)).Result()
			taken = there > 0
			return err
		}); err != nil || !taken {
			return n, err
		}
	}
}

// CommitRuleSet writes a change of a rule set's versions.
func (s *Store) CommitRuleSet(ctx context.Context, c Caller, idem *Idempotency, ch *tollgate.RuleSetChange, ans Answer) (Result, error) {
	b := s.commit(c, idem)
	b.notify, b.answer = true, ans
	k := b.space
	for _, a := range ch.Activations {
		if err := b.document(a.Value.ID, a.Revision, a.Value); err != nil {
			return Result{}, err
		}
	}
	b.ruleSet(tollgate.RuleSetState{ID: ch.RuleSetID, Revision: ch.Revision, Last: ch.Last, Pending: ch.Pending})
	if ch.Version != nil {
		text, err := json.Marshal(ch.Version, json.Deterministic(true))
		if err != nil {
			return Result{}, fmt.Errorf("rule set %s: %w", ch.RuleSetID, err)
		}
		b.version(k.version(ch.RuleSetID, ch.Version.Version), string(text))
	}
	if ch.Listed != "" { // two changes may have the same time, and never the same revision
		b.member(k.activations(ch.RuleSetID), strconv.FormatInt(ch.Revision+1, 10), ch.Listed)
	}
	if ch.Schedule != nil {
		b.member(scheduleKey(k.partition), milli(ch.Schedule.At), k.org+"/"+ch.Schedule.ID)
	}
	for _, id := range ch.Unschedule {
		b.member(scheduleKey(k.partition), removed, k.org+"/"+id)
	}
	for _, a := range ch.Accounts {
		if err := b.document(a.Value.ID, a.Revision, a.Value); err != nil {
			return Result{}, err
		}
	}
	b.events = ch.Events
	if err := b.noted(ch.Audit); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// ruleSet writes what a rule set has beside its versions.
func (b *commit) ruleSet(r tollgate.RuleSetState) {
	var f pairs
	f.set(envelopeField, envelope)
	f.int("v", r.Revision+1)
	f.int("last", r.Last)
	f.set("pending", strings.Join(r.Pending, " "))
	b.hash(b.space.object(r.ID), revision(r.Revision), f)
}

// activation reads an activation with its revision.
func (s *Store) activation(ctx context.Context, k space, id string) (a tollgate.Stored[tollgate.Activation], err error) {
	if !strings.HasPrefix(id, tollgate.PrefixActivation) {
		return a, tollgate.NotFound()
	}
	found, err := s.readHashes(ctx, "read_activation", k.object(id))
	if err != nil {
		return a, err
	}
	a.Revision = found[0].int("v")
	if err = found[0].document(&a.Value); err == nil && (a.Revision == 0 || a.Value.Object != "activation" || a.Value.ID != id || a.Value.Status == "" || a.Value.CreatedAt == 0) {
		err = fmt.Errorf("activation %s: it is another one", id)
	}
	return a, s.damaged(ctx, k, "activation", id, err)
}

// Activation reads an activation of a rule set.
func (s *Store) Activation(ctx context.Context, c Caller, ruleSet, id string) (*tollgate.Activation, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	a, err := s.activation(ctx, k, id)
	if err == nil && a.Value.RuleSetID != ruleSet {
		return nil, tollgate.NotFound()
	}
	if err != nil {
		return nil, err
	}
	return &a.Value, nil
}

// Activations lists a rule set's activations, the newest first, those before
// one; next is the place behind the last.
func (s *Store) Activations(ctx context.Context, c Caller, ruleSet, before string, limit int) (rows []tollgate.Activation, next string, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, "", err
	}
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return nil, "", tollgate.NotFound()
	}
	if _, err := s.readHashes(ctx, "read_rule_set", k.object(ruleSet)); err != nil {
		return nil, "", err
	}
	var list []string
	err = s.timed(ctx, "read_activations", func(ctx context.Context) error {
		start := int64(0)
		if before != "" {
			rank, err := s.client.ZRevRank(ctx, k.activations(ruleSet), before).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			start = rank + 1
		}
		var err error
		list, err = s.client.ZRevRange(ctx, k.activations(ruleSet), start, start+int64(limit)).Result()
		return err
	})
	for _, id := range list[:min(limit, len(list))] {
		a, err := s.activation(ctx, k, id)
		if IsDamage(err) {
			a.Value, err = tollgate.Activation{Object: "activation", ID: id, Damaged: true}, nil
		}
		if err != nil {
			return nil, "", err
		}
		rows = append(rows, a.Value)
		if len(list) > limit {
			next = id
		}
	}
	return rows, next, err
}
