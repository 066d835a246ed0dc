package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// RuleSetFacts reads what a change of a rule set is decided from: for the
// accounts named, or for all of the organization; rule is the one that is asked
// for, if any.
func (s *Store) RuleSetFacts(ctx context.Context, c rediskv.Caller, ruleSet string, accounts []string, rule *tollgate.Citation) (_ *tollgate.RuleSetFacts, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
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
	compare := func(a, b tollgate.Citation) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	}
	sort.Slice(cited, func(i, j int) bool { return compare(cited[i], cited[j]) < 0 })
	refs, err := s.Pinned(ctx, k, slices.Compact(cited))
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
func (s *Store) ruleSetFacts(ctx context.Context, k rediskv.Space, ruleSet string) (f *tollgate.RuleSetFacts, all []string, err error) {
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return nil, nil, tollgate.NotFound()
	}
	found, err := s.db.ReadHashes(ctx, "read_organization", k.Organization(), k.Object(ruleSet))
	if err != nil {
		return nil, nil, err
	}
	return &tollgate.RuleSetFacts{
		ID: ruleSet, Revision: found[1].Int("v"), Last: found[1].Int("last"), Pending: strings.Fields(found[1]["pending"]),
	}, strings.Fields(found[0]["accounts"]), nil
}

var accountFields = []string{"v", "json"}

// accounts reads accounts as they are; one that is not there has only its id.
// With the damage of one the others are as they were read.
func (s *Store) accounts(ctx context.Context, k rediskv.Space, ids []string) ([]tollgate.Stored[tollgate.MerchantAccount], error) {
	all := make([]tollgate.Stored[tollgate.MerchantAccount], 0, len(ids))
	var damage error
	err := rediskv.EachHash(ctx, s.db, rediskv.Caller{}, "read_accounts", ids, k.Object, func(id string, f rediskv.Fields) {
		var a tollgate.Stored[tollgate.MerchantAccount]
		a.Value.ID = id
		if (f["v"] != "" || f["json"] != "") && strings.HasPrefix(id, tollgate.PrefixMerchantAccount) {
			a.Revision = f.Int("v")
			err := cmp.Or(rediskv.Counters(f), f.Document(&a.Value))
			damage = cmp.Or(damage, s.db.DamagedAt(ctx, k.Object(id), err))
		}
		all = append(all, a)
	}, accountFields...)
	return all, cmp.Or(err, damage)
}

// scheduled adds what is scheduled for a rule set.
func (s *Store) scheduled(ctx context.Context, k rediskv.Space, f *tollgate.RuleSetFacts) error {
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
func (s *Store) freeVersion(ctx context.Context, k rediskv.Space, ruleSet string, n int64) (int64, error) {
	for ; ; n++ {
		taken := false
		if err := s.db.Timed(ctx, "read_version", func(ctx context.Context) error {
			there, err := s.db.Redis.Exists(ctx, k.Version(ruleSet, n)).Result()
			taken = there > 0
			return err
		}); err != nil || !taken {
			return n, err
		}
	}
}

// CommitRuleSet writes a change of a rule set's versions.
func (s *Store) CommitRuleSet(ctx context.Context, c rediskv.Caller, idem *rediskv.Idempotency, ch *tollgate.RuleSetChange, ans rediskv.Answer) (rediskv.Result, error) {
	b := s.db.NewCommit(c, idem)
	b.Notify, b.Answer = true, ans
	k := b.Space
	for _, a := range ch.Activations {
		if err := b.Document(a.Value.ID, a.Revision, a.Value); err != nil {
			return rediskv.Result{}, err
		}
	}
	RuleSet(b, tollgate.RuleSetState{ID: ch.RuleSetID, Revision: ch.Revision, Last: ch.Last, Pending: ch.Pending})
	if ch.Version != nil {
		text, err := json.Marshal(ch.Version, json.Deterministic(true))
		if err != nil {
			return rediskv.Result{}, fmt.Errorf("rule set %s: %w", ch.RuleSetID, err)
		}
		b.VersionDocument(k.Version(ch.RuleSetID, ch.Version.Version), string(text))
	}
	if ch.Listed != "" { // two changes may have the same time, and never the same revision
		b.Member(k.Activations(ch.RuleSetID), strconv.FormatInt(ch.Revision+1, 10), ch.Listed)
	}
	if ch.Schedule != nil {
		b.Member(rediskv.ScheduleKey(k.Partition), rediskv.Milli(ch.Schedule.At), k.Org+"/"+ch.Schedule.ID)
	}
	for _, id := range ch.Unschedule {
		b.Member(rediskv.ScheduleKey(k.Partition), rediskv.Removed, k.Org+"/"+id)
	}
	beside, err := s.besides(ctx, k, ch.Accounts)
	if err != nil {
		return rediskv.Result{}, err
	}
	for i, a := range ch.Accounts {
		if err := b.DocumentBeside(a.Value.ID, a.Revision, a.Value, beside[i]); err != nil {
			return rediskv.Result{}, err
		}
	}
	b.Events = ch.Events
	if err := b.Noted(ch.Audit); err != nil {
		return rediskv.Result{}, err
	}
	return b.Run(ctx)
}

// besides reads what accounts have beside their documents. It belongs to the revision
// that they were read at, or the commit finds another one.
func (s *Store) besides(ctx context.Context, k rediskv.Space, accounts []tollgate.Stored[tollgate.MerchantAccount]) ([]rediskv.Fields, error) {
	keys := make([]string, len(accounts))
	for i, a := range accounts {
		keys[i] = k.Object(a.Value.ID)
	}
	found, err := s.db.ReadFields(ctx, "read_accounts", keys, accountFields...)
	for i := 0; err == nil && i < len(found); i++ {
		err = s.db.DamagedAt(ctx, keys[i], record.Check(found[i][rediskv.EnvelopeField])) // it must not get a new checksum
	}
	return found, err
}

// RuleSet writes what a rule set has beside its versions.
func RuleSet(b *rediskv.Commit, r tollgate.RuleSetState) {
	var f rediskv.Pairs
	f.Set(rediskv.EnvelopeField, rediskv.Envelope)
	f.Int("v", r.Revision+1)
	f.Int("last", r.Last)
	f.Set("pending", strings.Join(r.Pending, " "))
	b.Hash(b.Space.Object(r.ID), rediskv.Revision(r.Revision), f)
}

// activation reads an activation with its revision.
func (s *Store) activation(ctx context.Context, k rediskv.Space, id string) (a tollgate.Stored[tollgate.Activation], err error) {
	f, err := s.db.ReadObject(ctx, "read_activation", k, tollgate.PrefixActivation, id)
	if err != nil {
		return a, err
	}
	return s.activationOf(ctx, k, id, f)
}

// activationOf reads an activation's hash.
func (s *Store) activationOf(ctx context.Context, k rediskv.Space, id string, f rediskv.Fields) (a tollgate.Stored[tollgate.Activation], err error) {
	a.Revision = f.Int("v")
	if err = f.Document(&a.Value); err == nil && (a.Revision == 0 || a.Value.Object != "activation" || a.Value.ID != id || a.Value.Status == "" || a.Value.CreatedAt == 0) {
		err = fmt.Errorf("activation %s: it is another one", id)
	}
	return a, s.db.Damaged(ctx, k, "activation", id, err)
}

// Activation reads an activation of a rule set.
func (s *Store) Activation(ctx context.Context, c rediskv.Caller, ruleSet, id string) (_ *tollgate.Activation, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
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
func (s *Store) Activations(ctx context.Context, c rediskv.Caller, ruleSet, before string, limit int) (rows []tollgate.Activation, next string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return nil, "", tollgate.NotFound()
	}
	defer rediskv.Beside(func() error {
		_, err := s.db.ReadHashes(ctx, "read_rule_set", k.Object(ruleSet))
		return err
	})(&err)
	list, next, err := s.newest(ctx, "read_activations", k.Activations(ruleSet), before, limit)
	if err != nil {
		return nil, "", err
	}
	err = rediskv.EachHash(ctx, s.db, c, "read_activations", list, k.Object, func(id string, f rediskv.Fields) {
		a, err := s.activationOf(ctx, k, id, f)
		if err != nil || s.db.DamagedAt(ctx, k.Object(id), rediskv.Counters(f)) != nil {
			a.Value = tollgate.Activation{Object: "activation", ID: id, Damaged: true}
		}
		rows = append(rows, a.Value)
	})
	return rows, next, err
}
