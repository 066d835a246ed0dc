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

// MaxActivated is how many accounts one activation moves at most: they all move
// in one script.
const MaxActivated = 200

// ActivationRequest is what is to be activated, and for whom.
type ActivationRequest struct {
	tollgate.RuleChange
	RuleSetID string
	At        tollgate.Instant // not in the past
	Accounts  []string         // none: all that use the rule set
	Covers    func(account string) bool
	Answer    func(*ActivationPlan) (Answer, error) // an error keeps it from being made
}

// ActivationPlan is an activation with what it is judged by: what its accounts
// are priced with when it takes effect, and their currencies.
type ActivationPlan struct {
	tollgate.Activation // without id, as long as it is only a plan
	Before              []tollgate.RuleRef
	Currencies          []tollgate.Currency // in their order, each once
}

// ruleSetState is what a rule set's hash says beside its versions.
type ruleSetState struct {
	fields
	pending []string // scheduled activations
}

func (r ruleSetState) write(last int64, pending []string) pairs {
	var f pairs
	f.int("v", r.int("v")+1)
	f.int("last", max(last, r.int("last")))
	f.set("pending", strings.Join(pending, " "))
	return f
}

// place orders what changes a rule set: two changes may have the same time, and
// never the same revision.
func (r ruleSetState) place() string { return strconv.FormatInt(r.int("v")+1, 10) }

// target is an account that an activation moves, as it was read.
type target struct {
	fields
	account tollgate.MerchantAccount
}

// CreateActivation makes the next version of a rule set and schedules the
// accounts' change to it.
func (s *Store) CreateActivation(ctx context.Context, c Caller, idem *Idempotency, r ActivationRequest) (Result, error) {
	return Retried(func() (Result, error) { return s.tryActivation(ctx, c, idem, r) })
}

func (s *Store) tryActivation(ctx context.Context, c Caller, idem *Idempotency, r ActivationRequest) (Result, error) {
	k := s.space(c.Organization)
	p, state, err := s.planActivation(ctx, k, r)
	if err != nil {
		return Result{}, err
	}
	set, err := json.Marshal(ruleSetOf(&p.Activation), json.Deterministic(true))
	if err != nil {
		return Result{}, fmt.Errorf("rule set %s: %w", p.RuleSetID, err)
	}
	p.ID = s.Mint(tollgate.PrefixActivation)
	a := &p.Activation
	b := s.commit(c, idem)
	b.notify = true
	if b.answer, err = r.Answer(p); err != nil {
		return Result{}, err
	}
	if err := b.activation(a, ""); err != nil {
		return Result{}, err
	}
	b.hash(k.object(a.RuleSetID), state.fields["v"], state.write(a.ToVersion, append(state.pending, a.ID)))
	b.version(k.version(a.RuleSetID, a.ToVersion), string(set))
	b.member(k.activations(a.RuleSetID), state.place(), a.ID)
	b.member(scheduleKey(k.partition), milli(a.At), k.org+"/"+a.ID)
	if err := b.audit("rule.activate", r.Rule.String(), "activation", a.ID); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// PlanActivation says what CreateActivation would make now, and writes nothing.
func (s *Store) PlanActivation(ctx context.Context, c Caller, r ActivationRequest) (*ActivationPlan, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	p, _, err := s.planActivation(ctx, k, r)
	return p, err
}

// planActivation reads what an activation is made from. No other is scheduled
// for its accounts, so what they have now is what they have until it takes
// effect.
func (s *Store) planActivation(ctx context.Context, k space, r ActivationRequest) (*ActivationPlan, ruleSetState, error) {
	state, targets, err := s.targets(ctx, k, r.RuleSetID, r.Accounts, r.Covers)
	if err != nil {
		return nil, state, err
	}
	from, err := oneVersion(targets)
	if err != nil {
		return nil, state, err
	}
	busy, err := s.pendingFor(ctx, k, state, ids(targets))
	if err != nil {
		return nil, state, err
	}
	if len(busy) > 0 {
		return nil, state, stateInvalid("Activation %s is scheduled for these accounts; cancel it or wait for it.", busy[0].ID)
	}
	next, replaced, err := from.With(r.RuleChange)
	if err != nil {
		return nil, state, err
	}
	both, err := s.resolve(ctx, k, slices.Concat(next.Rules, from.Rules))
	if err != nil {
		return nil, state, err
	}
	refs, before := both[:len(next.Rules):len(next.Rules)], both[len(next.Rules):]
	if i := slices.IndexFunc(refs, func(ref tollgate.RuleRef) bool { return ref.Rule == r.Rule && ref.SHA256 == "" }); i >= 0 {
		return nil, state, &tollgate.Error{Code: tollgate.CodeNotFound, Param: "rule", Message: "There is no " + r.Rule.String() + "."}
	}
	if next.Version, err = s.freeVersion(ctx, k, r.RuleSetID, max(state.int("last"), from.Version)+1); err != nil {
		return nil, state, err
	}
	now := s.Now()
	p := &ActivationPlan{Before: before, Currencies: currenciesOf(targets), Activation: tollgate.Activation{
		Object: "activation", CreatedAt: now, Kind: tollgate.ActivationForward,
		RuleSetID: next.ID, Rule: &r.Rule, Replaces: replaced, FromVersion: from.Version, ToVersion: next.Version, Rules: refs,
		MerchantAccountIDs: ids(targets), At: max(r.At, now), Status: tollgate.ActivationScheduled,
	}}
	return p, state, nil
}

// ruleSetOf is the version that an activation leads to.
func ruleSetOf(a *tollgate.Activation) tollgate.RuleSet {
	set := tollgate.RuleSet{ID: a.RuleSetID, Version: a.ToVersion, Rules: make([]tollgate.Citation, len(a.Rules))}
	for i, ref := range a.Rules {
		set.Rules[i] = ref.Rule
	}
	return set
}

func currenciesOf(targets []target) (all []tollgate.Currency) {
	for _, t := range targets {
		all = append(all, t.account.Currencies...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// activation adds an activation's hash, read at a revision.
func (b *commit) activation(a *tollgate.Activation, revision string) error {
	doc, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("activation %s: %w", a.ID, err)
	}
	n, _ := strconv.ParseInt(revision, 10, 64) // "" is none
	var f pairs
	f.int("v", n+1)
	f.set("json", string(doc))
	b.hash(b.space.object(a.ID), revision, f)
	return nil
}

// targets reads a rule set and the accounts that are to be moved: those named,
// or all that use it.
func (s *Store) targets(ctx context.Context, k space, ruleSet string, accounts []string, covers func(string) bool) (ruleSetState, []target, error) {
	named := len(accounts) > 0
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return ruleSetState{}, nil, notFound()
	}
	found, err := s.readHashes(ctx, "read_organization", k.organization(), k.object(ruleSet))
	if err != nil {
		return ruleSetState{}, nil, err
	}
	state := ruleSetState{found[1], strings.Fields(found[1]["pending"])}
	if !named {
		accounts = strings.Fields(found[0]["accounts"])
	}
	all, err := s.accounts(ctx, k, accounts)
	if err != nil {
		return state, nil, err
	}
	var targets []target
	for i, t := range all {
		switch {
		case len(t.fields) == 0 && named:
			return state, nil, &tollgate.Error{Code: tollgate.CodeNotFound, Param: "merchant_account_ids", Message: "There is no merchant account " + accounts[i] + "."}
		case named && t.account.RuleSet.ID != ruleSet && len(state.fields) == 0:
			return state, nil, notFound()
		case named && t.account.RuleSet.ID != ruleSet:
			return state, nil, tollgate.Invalid("merchant_account_ids", "%s has another rule set, %s.", accounts[i], t.account.RuleSet.ID)
		case len(t.fields) == 0 || t.account.RuleSet.ID != ruleSet:
		case !covers(t.account.ID):
			return state, nil, &tollgate.Error{Code: tollgate.CodeMerchantAccountForbidden, Param: "merchant_account_ids", Message: "The grant does not reach " + t.account.ID + ", which uses this rule set."}
		default:
			targets = append(targets, t)
		}
	}
	switch {
	case len(targets) == 0 && len(state.fields) == 0:
		return state, nil, notFound()
	case len(targets) == 0:
		return state, nil, stateInvalid("No merchant account uses this rule set.")
	case len(targets) > MaxActivated:
		return state, nil, tollgate.Invalid("merchant_account_ids", "At most %d accounts change at once; name some of the %d.", MaxActivated, len(targets))
	}
	return state, targets, nil
}

// accounts reads accounts as they are; one that is not there has no fields. With
// the damage of one the others are as they were read.
func (s *Store) accounts(ctx context.Context, k space, ids []string) ([]target, error) {
	all := make([]target, len(ids))
	var damage error
	err := s.timed(ctx, "read_accounts", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.MapStringStringCmd, len(ids))
		for i, id := range ids {
			replies[i] = pipe.HGetAll(ctx, k.object(id))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, r := range replies {
			if all[i].fields = r.Val(); len(all[i].fields) == 0 || !strings.HasPrefix(ids[i], tollgate.PrefixMerchantAccount) {
				all[i].fields = nil
				continue
			}
			damage = cmp.Or(damage, s.damagedAt(ctx, k.object(ids[i]), decode(all[i].fields["json"], &all[i].account)))
		}
		return nil
	})
	return all, cmp.Or(err, damage)
}

// oneVersion is the version that all accounts have.
func oneVersion(targets []target) (tollgate.RuleSet, error) {
	set := targets[0].account.RuleSet
	for _, t := range targets {
		if v := t.account.RuleSet.Version; v != set.Version {
			return set, stateInvalid("%s has version %d of the rule set, %s version %d; name accounts that have the same.",
				targets[0].account.ID, set.Version, t.account.ID, v)
		}
	}
	return set, nil
}

func ids(targets []target) []string {
	list := make([]string, len(targets))
	for i, t := range targets {
		list[i] = t.account.ID
	}
	return list
}

// pendingFor are the scheduled activations that move some of these accounts.
func (s *Store) pendingFor(ctx context.Context, k space, state ruleSetState, accounts []string) (busy []activation, err error) {
	for _, id := range state.pending {
		a, err := s.activation(ctx, k, id)
		if err != nil {
			return nil, err
		}
		if a.Status == tollgate.ActivationScheduled && slices.ContainsFunc(a.MerchantAccountIDs, func(m string) bool { return slices.Contains(accounts, m) }) {
			busy = append(busy, *a)
		}
	}
	return busy, nil
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

// activation is an Activation with its revision.
type activation struct {
	tollgate.Activation
	revision string
}

func (s *Store) activation(ctx context.Context, k space, id string) (*activation, error) {
	if !strings.HasPrefix(id, tollgate.PrefixActivation) {
		return nil, notFound()
	}
	found, err := s.readHashes(ctx, "read_activation", k.object(id))
	if err != nil {
		return nil, err
	}
	a := &activation{revision: found[0]["v"]}
	if err = decode(found[0]["json"], &a.Activation); err == nil && (a.revision == "" || a.Object != "activation" || a.ID != id || a.Status == "" || a.CreatedAt == 0) {
		err = fmt.Errorf("activation %s: it is another one", id)
	}
	if err != nil {
		return nil, s.damaged(ctx, k, "activation", id, err)
	}
	return a, nil
}

// Activation reads an activation of a rule set.
func (s *Store) Activation(ctx context.Context, c Caller, ruleSet, id string) (*tollgate.Activation, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	a, err := s.activation(ctx, k, id)
	if err == nil && a.RuleSetID != ruleSet {
		return nil, notFound()
	}
	if err != nil {
		return nil, err
	}
	return &a.Activation, nil
}

// Activations lists a rule set's activations, the newest first, those before
// one; next is the place behind the last.
func (s *Store) Activations(ctx context.Context, c Caller, ruleSet, before string, limit int) (rows []tollgate.Activation, next string, err error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, "", err
	}
	if !strings.HasPrefix(ruleSet, tollgate.PrefixRuleSet) {
		return nil, "", notFound()
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
			a, err = &activation{Activation: tollgate.Activation{Object: "activation", ID: id, Damaged: true}}, nil
		}
		if err != nil {
			return nil, "", err
		}
		rows = append(rows, a.Activation)
		if len(list) > limit {
			next = id
		}
	}
	return rows, next, err
}

func stateInvalid(format string, args ...any) error {
	return &tollgate.Error{Code: tollgate.CodeActivationStateInvalid, Message: fmt.Sprintf(format, args...)}
}
