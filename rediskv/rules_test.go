package rediskv_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/rules"
)

// signers provisions somebody who may publish.
func (f *fixture) signer(t testing.TB) *rules.RuleSigner {
	t.Helper()
	if len(f.Config.RuleSigners) == 0 {
		f.Config.RuleSigners = []tollgate.RuleSigner{{ID: f.NewID(tollgate.PrefixRuleSigner), Name: "team", Status: "active", Keys: []string{"{}"}}}
		if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
			t.Fatal(err)
		}
	}
	s, err := f.RuleSigner(t.Context(), f.Caller.Organization, f.Config.RuleSigners[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sum(c tollgate.Citation) string { return fmt.Sprintf("%058d%06d", len(c.Name), c.Version) }

// publish commits a rule as a handler does; its module is its citation.
func (f *fixture) publish(t testing.TB, name string, version int) (rediskv.Result, error) {
	t.Helper()
	c := tollgate.Citation{Name: name, Version: version}
	signer := f.signer(t)
	r := tollgate.Rule{Object: "rule", ID: tollgate.RuleID(c), CreatedAt: f.Now(), Rule: c, SHA256: sum(c), SignerID: signer.ID}
	return f.publishRule(t, r, signer)
}

func (f *fixture) published(t testing.TB, name string, version int) {
	t.Helper()
	if r, err := f.publish(t, name, version); err != nil || r.Status != 201 {
		t.Fatal(r.Status, err)
	}
}

// activation puts a rule beside the others, or in the place of its version before.
func (f *fixture) activation(t testing.TB, name string, version int, accounts ...string) activation {
	t.Helper()
	f.Refresh(f.Caller.Organization)
	a, err := f.Account(t.Context(), f.Caller.Organization, append(accounts, f.Config.MerchantAccounts[0].ID)[0])
	if err != nil {
		t.Fatal(err)
	}
	isNew := !slices.ContainsFunc(a.RuleSet.Rules, func(c tollgate.Citation) bool { return c.Name == name })
	return activation{tollgate.ActivationRequest{
		RuleChange: tollgate.RuleChange{Rule: tollgate.Citation{Name: name, Version: version}, Adds: isNew},
	}, accounts}
}

func (f *fixture) activateDue(t testing.TB) (done []rules.Activated) {
	t.Helper()
	for p := range f.Partitions() {
		list, err := f.ActivateDue(t.Context(), p, 10)
		if err != nil {
			t.Fatal(err)
		}
		done = append(done, list...)
	}
	return done
}

// counts are how many events and activations there are, and the account's
// revision and rules.
func (f *fixture) counts(t testing.TB) string {
	t.Helper()
	events, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{"rule.*"}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := f.Activations(t.Context(), f.Caller, f.Config.RuleSets[0].ID, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	f.Refresh(f.Caller.Organization)
	a := f.MerchantAccount(t)
	return fmt.Sprintf("%d events, %d activations, account at %d with %v", len(events), len(list), a.Revision, a.RuleSet.Rules)
}

// TestRulesLostReply: whatever of rules is written is written once, although its
// script is sent again after a lost reply.
func TestRulesLostReply(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	f := newFixtureAt(t, wire.URL)
	f.signer(t)
	ctx := t.Context()
	set := f.Config.RuleSets[0].ID
	all := f.activation(t, "shop_fee", 1)
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"publish", func() error { _, err := f.publish(t, "shop_fee", 1); return err }, "1 events, 0 activations, account at 1 with [rule:card_fee@v2]"},
		{"activate", func() error {
			_, err := f.createActivation(t, nil, all)
			return err
		}, "1 events, 1 activations, account at 1 with [rule:card_fee@v2]"},
		{"cancel", func() error {
			list, _, err := f.Activations(ctx, f.Caller, set, "", 1)
			if err != nil {
				return err
			}
			return f.cancelActivation(t, list[0].ID)
		}, "1 events, 1 activations, account at 1 with [rule:card_fee@v2]"},
		{"activate with a key", func() error {
			key := f.Key("activation")
			_, err := f.createActivation(t, &key, all)
			return err
		}, "1 events, 2 activations, account at 1 with [rule:card_fee@v2]"},
		{"flip", func() error { f.activateDue(t); return nil }, "3 events, 2 activations, account at 2 with [rule:card_fee@v2 rule:shop_fee@v1]"},
		{"rollback", func() error {
			return f.rollBack(t)
		}, "6 events, 3 activations, account at 3 with [rule:card_fee@v2]"},
	} {
		f.signer(t)
		audit := f.auditLength(t)
		lost := wire.SwallowReply("EVALSHA")
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		select {
		case <-lost:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no reply was lost", step.name)
		}
		if n := f.auditLength(t); n != audit+1 {
			t.Errorf("%s: %d audit entries", step.name, n-audit)
		}
		if got := f.counts(t); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// TestPublishRule: versions only grow, and a version is what it is.
func TestPublishRule(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 2)
	f.published(t, "shop_fee", 5)
	f.published(t, "shop", 1)
	if r, err := f.publish(t, "shop_fee", 5); err != nil || r.Status != 200 {
		t.Errorf("the same again: %d, %v", r.Status, err)
	}
	for _, v := range []int{1, 3, 4} {
		if _, err := f.publish(t, "shop_fee", v); code(err) != string(tollgate.CodeRuleInvalid) {
			t.Errorf("version %d: %v", v, err)
		}
	}
	rows, next, err := f.Rules(t.Context(), f.Caller, "shop_fee", "", 1)
	if err != nil || len(rows) != 1 || rows[0].Rule.Version != 2 || next == "" {
		t.Fatalf("%v, %q, %v", rows, next, err)
	}
	rows, next, err = f.Rules(t.Context(), f.Caller, "shop_fee", next, 1)
	if err != nil || len(rows) != 1 || rows[0].Rule.Version != 5 || next != "" {
		t.Errorf("%v, %q, %v", rows, next, err)
	}
	refs, err := f.Resolve(t.Context(), f.Caller.Organization, []tollgate.Citation{{Name: "shop_fee", Version: 5}, priced[0], {Name: "shop_fee", Version: 3}})
	if err != nil || refs[0].SHA256 != sum(refs[0].Rule) || refs[1].SHA256 == "" || refs[2].SHA256 != "" {
		t.Errorf("%v, %v", refs, err)
	}
	module, err := f.Module(t.Context(), f.Caller.Organization, refs[0])
	if err != nil || string(module) != "rule:shop_fee@v5" {
		t.Errorf("%q, %v", module, err)
	}
	// A signer that is changed meanwhile publishes nothing.
	signer := f.signer(t)
	f.Config.RuleSigners[0].Status = "disabled"
	if _, err := redistest.Provision(t.Context(), open(t, f.URL, f.Clock), f.Config, false); err != nil {
		t.Fatal(err)
	}
	c := tollgate.Citation{Name: "late", Version: 1}
	_, err = f.publishRule(t, tollgate.Rule{Rule: c, SHA256: sum(c)}, signer)
	if !errors.Is(err, rediskv.ErrStale) {
		t.Errorf("a signer that was disabled: %v", err)
	}
}

// TestProvisionedRuleSets: an operator's file cannot name a rule that is not
// there, and activations go on behind the versions that it makes.
func TestProvisionedRuleSets(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	set := f.Config.RuleSets[0]
	set.Version, set.Rules = 7, []tollgate.Citation{{Name: "shop_fee", Version: 2}}
	f.Config.RuleSets = append(f.Config.RuleSets, set)
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); code(err) != string(tollgate.CodeParameterInvalid) {
		t.Errorf("a rule that is not there: %v", err)
	}
	f.Config.RuleSets[1].Rules = []tollgate.Citation{{Name: "shop_fee", Version: 1}}
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
	r, err := f.createActivation(t, nil, f.activation(t, "shop_fee", 1))
	if err != nil || !strings.Contains(string(r.Body), `"from_version":1`) || !strings.Contains(string(r.Body), `"to_version":8`) {
		t.Errorf("%s, %v", r.Body, err)
	}
}

// TestInstances: one that says nothing more does not count.
func TestInstances(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	ref := tollgate.RuleRef{Rule: tollgate.Citation{Name: "shop_fee", Version: 1}, SHA256: sum(tollgate.Citation{Name: "shop_fee", Version: 1})}
	say := func(id string, modules ...instances.LoadedModule) {
		t.Helper()
		if err := f.Heartbeat(t.Context(), instances.Instance{ID: id, Modules: modules}); err != nil {
			t.Fatal(err)
		}
	}
	card := instances.LoadedModule{RuleRef: tollgate.RuleRef{Rule: priced[0], SHA256: fmt.Sprintf("%064d", 2)}}
	say("ins_1", card, instances.LoadedModule{RuleRef: ref})
	say("ins_2", card)
	if _, err := f.createActivation(t, nil, f.activation(t, "shop_fee", 1)); err != nil {
		t.Fatal(err)
	}
	if done := f.activateDue(t); len(done) != 0 {
		t.Errorf("ins_2 has not loaded it: %v", done)
	}
	say("ins_2", card, instances.LoadedModule{RuleRef: ref, Error: "no"})
	f.Clock.Advance(29 * time.Second)
	if done := f.activateDue(t); len(done) != 0 {
		t.Errorf("ins_2 cannot load it yet: %v", done)
	}
	f.Clock.Advance(time.Second)
	if done := f.activateDue(t); len(done) != 1 || fmt.Sprint(done[0].Lacking) != "[ins_2]" {
		t.Errorf("after the grace: %v", done)
	}
	say("ins_1", card, instances.LoadedModule{RuleRef: ref}) // on a real server its time may be over
	if err := f.Deregister(t.Context(), "ins_2"); err != nil {
		t.Fatal(err)
	}
	if list, err := f.Instances(t.Context()); err != nil || len(list) != 1 || list[0].ID != "ins_1" {
		t.Errorf("%v, %v", list, err)
	}
	// What the push did not bring, polling does.
	other := open(t, f.URL, f.Clock)
	a, err := other.Account(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID)
	seen, pollErr := other.Poll(t.Context(), instances.Changes{})
	if err != nil || pollErr != nil || a.RuleSet.Version != 2 {
		t.Fatal(a, err, pollErr)
	}
	if err := f.rollBack(t); err != nil {
		t.Fatal(err)
	}
	again, err := other.Poll(t.Context(), seen)
	if err != nil || again.All || !slices.Equal(again.Organizations, []string{f.Caller.Organization}) {
		t.Fatalf("polling sees %+v, %v", again, err)
	}
	if a, err = other.Account(t.Context(), f.Caller.Organization, a.ID); err != nil || a.RuleSet.Version != 1 {
		t.Errorf("after polling: version %d, %v", a.RuleSet.Version, err)
	}
}
