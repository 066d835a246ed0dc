package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
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
	err = s.timed(ctx, "due_activations", func(ctx context.Context) (err error) {
		members, err = s.client.ZRangeByScore(ctx, scheduleKey(partition), &redis.ZRangeBy{Min: "-inf", Max: milli(s.Now()), Count: int64(limit)}).Result()
		return err
	})
	if err != nil || len(members) == 0 {
		return nil, err
	}
	due, err := s.upcoming(ctx, members)
	if err != nil {
		return nil, err
	}
	instances, err := s.Instances(ctx)
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
		if len(one.Lacking) > 0 && s.Now() < a.At.Add(tollgate.InstanceGrace) {
			continue
		}
		if failed := s.activate(ctx, a.Organization, a.ID); failed != nil {
			err = errors.Join(err, fmt.Errorf("activation %s: %w", a.ID, failed)) // the others do not wait for it
			continue
		}
		done = append(done, one)
	}
	return done, err
}

// activate moves the accounts of a scheduled activation, all at once, on the
// service's own account. An activation whose accounts have been given other
// rules since it was made fails instead: what it was computed from is gone.
func (s *Store) activate(ctx context.Context, org, id string) error {
	clock := Caller{Organization: org}
	_, err := Retried(func() (struct{}, error) { return struct{}{}, s.tryActivate(ctx, clock, id) })
	return err
}

func (s *Store) tryActivate(ctx context.Context, c Caller, id string) error {
	k := s.space(c.Organization)
	a, err := s.activation(ctx, k, id)
	if err != nil || a.Status != tollgate.ActivationScheduled || a.At > s.Now() {
		return err
	}
	found, err := s.readHashes(ctx, "read_rule_set", k.object(a.RuleSetID))
	if err != nil {
		return err
	}
	targets, err := s.accounts(ctx, k, a.MerchantAccountIDs)
	if err != nil {
		return err
	}
	b := s.commit(c, nil)
	b.notify = true
	now := s.Now()
	a.Status, a.ActivatedAt = tollgate.ActivationActive, now
	for _, t := range targets {
		if t.account.RuleSet.ID != a.RuleSetID || t.account.RuleSet.Version != a.FromVersion {
			reason := fmt.Sprintf("%s was given other rules after this was scheduled.", t.account.ID)
			a.Status, a.ActivatedAt, a.EndedAt, a.FailureReason = tollgate.ActivationFailed, 0, now, &reason
			break
		}
	}
	if err := b.activation(&a.Activation, a.revision); err != nil {
		return err
	}
	b.unschedule(a, found[0])
	if a.Status == tollgate.ActivationActive {
		if err := b.move(ctx, &a.Activation, targets); err != nil {
			return err
		}
	}
	outcome, reason := "succeeded", string(a.Status)
	if a.Status == tollgate.ActivationFailed {
		outcome, reason = "refused", "rule_set_changed"
	}
	if err := b.audited("rule.activated", outcome, reason, "activation", a.ID); err != nil {
		return err
	}
	_, err = b.run(ctx)
	return err
}

// unschedule takes an activation from what is still to come.
func (b *commit) unschedule(a *activation, ruleSet fields) {
	state := ruleSetState{ruleSet, strings.Fields(ruleSet["pending"])}
	pending := slices.DeleteFunc(state.pending, func(id string) bool { return id == a.ID })
	b.hash(b.space.object(a.RuleSetID), ruleSet["v"], state.write(0, pending))
	b.member(scheduleKey(b.space.partition), removed, b.space.org+"/"+a.ID)
}

// move gives accounts the version that an activation leads to, with an event
// for each, and tells which rules nobody uses any more.
func (b *commit) move(ctx context.Context, a *tollgate.Activation, targets []target) error {
	to := ruleSetOf(a)
	p := &plan{commit: b, now: b.store.Now()}
	var before []tollgate.Citation
	for _, t := range targets {
		for _, c := range t.account.RuleSet.Rules {
			if !slices.Contains(before, c) {
				before = append(before, c)
			}
		}
		t.account.RuleSet, t.account.UpdatedAt = to, p.now
		text, err := json.Marshal(t.account, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("account %s: %w", t.account.ID, err)
		}
		var f pairs
		f.int("v", t.int("v")+1)
		f.set("json", string(text))
		b.hash(b.space.object(t.account.ID), t.fields["v"], f)
		if err := p.event("merchant_account", t.account.ID, tollgate.RuleActivated, t.int("v")+1, []string{"rule_set"}, jsontext.Value(text)); err != nil {
			return err
		}
	}
	inUse, err := b.store.rulesInUse(ctx, b.space, targets)
	if IsDamage(err) { // nobody knows what that account has
		inUse, err = append(inUse, before), nil
	}
	if err != nil {
		return err
	}
	for _, c := range tollgate.Retired(before, append(inUse, to.Rules)) {
		if err := b.event(tollgate.RuleRetired, "", struct {
			RuleID       string            `json:"rule_id"`
			ActivationID string            `json:"activation_id"`
			Rule         tollgate.Citation `json:"rule"`
		}{tollgate.RuleID(c), a.ID, c}); err != nil {
			return err
		}
	}
	return nil
}

// rulesInUse are the rule sets of the organization's accounts beside those that
// are being moved.
func (s *Store) rulesInUse(ctx context.Context, k space, moved []target) (sets [][]tollgate.Citation, err error) {
	found, err := s.readHashes(ctx, "read_organization", k.organization())
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(strings.Fields(found[0]["accounts"]), func(id string) bool { return slices.Contains(ids(moved), id) })
	all, err := s.accounts(ctx, k, others)
	for _, t := range all {
		sets = append(sets, t.account.RuleSet.Rules)
	}
	return sets, err
}

// CancelActivation ends a scheduled activation.
func (s *Store) CancelActivation(ctx context.Context, c Caller, idem *Idempotency, ruleSet, id string, covers func(string) bool, answer func(*tollgate.Activation) (Answer, error)) (Result, error) {
	k := s.space(c.Organization)
	return Retried(func() (Result, error) {
		a, err := s.activation(ctx, k, id)
		if err == nil && a.RuleSetID != ruleSet {
			err = notFound()
		}
		if err != nil {
			return Result{}, err
		}
		if i := slices.IndexFunc(a.MerchantAccountIDs, func(m string) bool { return !covers(m) }); i >= 0 {
			return Result{}, &tollgate.Error{Code: tollgate.CodeMerchantAccountForbidden, Message: "The grant does not reach " + a.MerchantAccountIDs[i] + "."}
		}
		if a.Status != tollgate.ActivationScheduled {
			return Result{}, stateInvalid("The activation is %s.", strings.ReplaceAll(string(a.Status), "_", " "))
		}
		found, err := s.readHashes(ctx, "read_rule_set", k.object(ruleSet))
		if err != nil {
			return Result{}, err
		}
		a.Status, a.EndedAt = tollgate.ActivationCanceled, s.Now()
		b := s.commit(c, idem)
		b.notify = true
		if b.answer, err = answer(&a.Activation); err != nil {
			return Result{}, err
		}
		if err := b.activation(&a.Activation, a.revision); err != nil {
			return Result{}, err
		}
		b.unschedule(a, found[0])
		if err := b.audit("rule.cancel", "", "activation", a.ID); err != nil {
			return Result{}, err
		}
		return b.run(ctx)
	})
}

// RollBack gives accounts the version back that they had before the activation
// that led to the present one, at once: those named, or all that have what the
// latest activation in force gave them. What is scheduled for them is canceled.
// r.RuleChange and r.At mean nothing, and the plan has only the activation.
func (s *Store) RollBack(ctx context.Context, c Caller, idem *Idempotency, r ActivationRequest) (Result, error) {
	return Retried(func() (Result, error) { return s.tryRollBack(ctx, c, idem, r) })
}

func (s *Store) tryRollBack(ctx context.Context, c Caller, idem *Idempotency, r ActivationRequest) (Result, error) {
	k := s.space(c.Organization)
	if len(r.Accounts) == 0 {
		var err error
		if r.Accounts, err = s.lastMoved(ctx, k, r.RuleSetID); err != nil {
			return Result{}, err
		}
	}
	state, targets, err := s.targets(ctx, k, r.RuleSetID, r.Accounts, r.Covers)
	if err != nil {
		return Result{}, err
	}
	now, err := oneVersion(targets)
	if err != nil {
		return Result{}, err
	}
	h, err := s.history(ctx, k, now.ID)
	if err != nil {
		return Result{}, err
	}
	led := h.ledTo(now.Version, ids(targets)...)
	if led == nil {
		return Result{}, stateInvalid("No activation led to version %d of the rule set for these accounts; there is nothing to go back to.", now.Version)
	}
	versions, err := s.versions(ctx, k, now.ID, h) // read after the rule set, whose revision every move changes
	if err != nil {
		return Result{}, err
	}
	for _, t := range targets {
		versions[t.account.ID] = led.FromVersion
	}
	back, err := s.ruleSet(ctx, k, now.ID, led.FromVersion)
	if err != nil {
		return Result{}, err
	}
	refs, err := s.resolve(ctx, k, back.Rules)
	if err != nil {
		return Result{}, err
	}
	at := s.Now()
	p := &ActivationPlan{Activation: tollgate.Activation{
		Object: "activation", ID: s.Mint(tollgate.PrefixActivation), CreatedAt: at, Kind: tollgate.ActivationRollback,
		RuleSetID: now.ID, FromVersion: now.Version, ToVersion: back.Version, Rules: refs,
		MerchantAccountIDs: ids(targets), At: at, Status: tollgate.ActivationActive, ActivatedAt: at,
	}}
	a := &p.Activation
	b := s.commit(c, idem)
	b.notify = true
	if b.answer, err = r.Answer(p); err != nil {
		return Result{}, err
	}
	if err := b.activation(a, ""); err != nil {
		return Result{}, err
	}
	for _, over := range h.over(versions) {
		over.Status, over.EndedAt = tollgate.ActivationRolledBack, at
		if err := b.activation(&over.Activation, over.revision); err != nil {
			return Result{}, err
		}
	}
	pending, err := b.cancelPending(ctx, state, a.MerchantAccountIDs)
	if err != nil {
		return Result{}, err
	}
	b.hash(k.object(now.ID), state.fields["v"], state.write(0, pending))
	b.member(k.activations(now.ID), state.place(), a.ID)
	if err := b.move(ctx, a, targets); err != nil {
		return Result{}, err
	}
	if err := b.audit("rule.rollback", fmt.Sprintf("%d to %d", now.Version, back.Version), "activation", a.ID); err != nil {
		return Result{}, err
	}
	return b.run(ctx)
}

// cancelPending ends what is scheduled for accounts that are rolled back, and
// returns what stays scheduled.
func (b *commit) cancelPending(ctx context.Context, state ruleSetState, accounts []string) ([]string, error) {
	busy, err := b.store.pendingFor(ctx, b.space, state, accounts)
	pending := state.pending
	for i := range busy {
		busy[i].Status, busy[i].EndedAt = tollgate.ActivationCanceled, b.store.Now()
		if err := b.activation(&busy[i].Activation, busy[i].revision); err != nil {
			return nil, err
		}
		b.member(scheduleKey(b.space.partition), removed, b.space.org+"/"+busy[i].ID)
		pending = slices.DeleteFunc(pending, func(id string) bool { return id == busy[i].ID })
	}
	return pending, err
}

func (s *Store) ruleSet(ctx context.Context, k space, id string, version int64) (set tollgate.RuleSet, err error) {
	text, err := s.existingVersion(ctx, k, id, version)
	if err != nil {
		return set, err
	}
	if err := decode(text, &set); err != nil {
		return set, fmt.Errorf("rule set %s version %s: %w", id, strconv.FormatInt(version, 10), err)
	}
	return set, nil
}
