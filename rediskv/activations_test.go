package rediskv_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
)

// standing are a rule set's activations, the oldest first, and the versions that
// the accounts have.
func (f *fixture) standing(t testing.TB) string {
	t.Helper()
	rows, _, err := f.Activations(t.Context(), f.Caller, f.Config.RuleSets[0].ID, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, a := range slices.Backward(rows) {
		if a.Kind == tollgate.ActivationForward {
			list = append(list, fmt.Sprintf("%d-%d %s", a.FromVersion, a.ToVersion, a.Status))
		}
	}
	f.Refresh(f.Caller.Organization)
	for _, m := range f.Config.MerchantAccounts {
		a, err := f.Account(t.Context(), f.Caller.Organization, m.ID)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(a.RuleSet.Version))
	}
	return strings.Join(list, ", ")
}

func (f *fixture) activate(t testing.TB, version int, accounts ...string) {
	t.Helper()
	if _, err := f.createActivation(t, nil, f.activation(t, "shop_fee", version, accounts...)); err != nil {
		t.Fatal(err)
	}
	if done := f.activateDue(t); len(done) != 1 {
		t.Fatal(done)
	}
}

func (f *fixture) want(t testing.TB, when, want string) {
	t.Helper()
	if got := f.standing(t); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// TestRollBackByAccount: an activation is in force while one of its accounts has
// its version, or one that was made from it, and a rollback without accounts
// finds the latest that is.
func TestRollBackByAccount(t *testing.T) {
	f := newFixture(t)
	for v := range 4 {
		f.published(t, "shop_fee", v+1)
	}
	a, b := f.Config.MerchantAccounts[0].ID, f.Config.MerchantAccounts[1].ID
	f.activate(t, 1)
	f.activate(t, 2)
	for _, step := range []struct {
		accounts []string
		want     string
	}{
		{[]string{a}, "1-2 active, 2-3 active, 2, 3"},
		{[]string{b}, "1-2 active, 2-3 rolled_back, 2, 2"},
		{nil, "1-2 rolled_back, 2-3 rolled_back, 1, 1"},
	} {
		if err := f.rollBack(t, step.accounts...); err != nil {
			t.Fatalf("%v: %v", step.accounts, err)
		}
		f.want(t, fmt.Sprint("rolled back ", step.accounts), step.want)
	}
	if err := f.rollBack(t); code(err) != string(tollgate.CodeActivationStateInvalid) {
		t.Errorf("with nothing in force: %v", err)
	}

	// What another activation was made from can still be gone back to.
	f.activate(t, 3)
	f.activate(t, 4, b)
	for _, step := range []struct{ account, want string }{
		{a, "1-4 active, 4-5 active, 1, 5"},
		{b, "1-4 active, 4-5 rolled_back, 1, 4"},
		{b, "1-4 rolled_back, 4-5 rolled_back, 1, 1"},
	} {
		if err := f.rollBack(t, step.account); err != nil {
			t.Fatal(err)
		}
		f.want(t, "on top of another", "1-2 rolled_back, 2-3 rolled_back, "+step.want)
	}
}

// TestProvisionBesideActivations: provisioning gives an account a rule set when
// its reference in the file changes. Applied again, or with something else
// changed, a file leaves what was activated in force.
func TestProvisionBesideActivations(t *testing.T) {
	for _, older := range []bool{false, true} {
		t.Run(fmt.Sprintf("older=%t", older), func(t *testing.T) {
			f := newFixture(t)
			f.published(t, "shop_fee", 1)
			f.published(t, "shop_fee", 2)
			b := f.Config.MerchantAccounts[1].ID
			if older { // provisioned before accounts noted what they were given
				raw := rawClient(t, f.URL)
				for _, key := range scanKeys(t, raw, "*:"+f.Caller.Organization+":ma_*") {
					if err := raw.HDel(t.Context(), key, "given", rediskv.EnvelopeField).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			apply := func(want ...string) {
				t.Helper()
				changes, err := f.ApplyConfig(t.Context(), f.Config, false)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, c := range changes {
					got = append(got, strings.Join(append([]string{c.Kind}, c.Fields...), " "))
				}
				if !slices.Equal(got, want) {
					t.Errorf("changed %q, want %q", got, want)
				}
			}
			events := func() int {
				t.Helper()
				list, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{"rule.activated"}, Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				return len(list)
			}
			f.activate(t, 1)
			f.activate(t, 2, b)
			apply()
			f.want(t, "the same file", "1-2 active, 2-3 active, 2, 3")
			f.Config.MerchantAccounts[0].Name = "Europa"
			apply("merchant_account name")
			f.want(t, "another name", "1-2 active, 2-3 active, 2, 3")
			if err := f.rollBack(t, b); err != nil {
				t.Fatal(err)
			}
			apply()
			f.want(t, "after a rollback", "1-2 active, 2-3 rolled_back, 2, 2")

			// The file names what is in force: nothing moves, and from now on
			// that is what it gave.
			set := f.Config.RuleSets[0]
			before := events()
			f.Config.MerchantAccounts[0].RuleSet.Version = 2
			apply("merchant_account rule_set")
			if n := events(); n != before {
				t.Errorf("%d events of what was in force already", n-before)
			}
			apply()
			f.want(t, "the file names what is in force", "1-2 active, 2-3 rolled_back, 2, 2")

			// A changed reference wins, also over what is still to come.
			set.Version = 7
			f.Config.RuleSets = append(f.Config.RuleSets, set)
			f.Config.MerchantAccounts[0].RuleSet.Version = 7
			late := f.activation(t, "shop_fee", 2, f.Config.MerchantAccounts[0].ID)
			late.At = f.Now().Add(time.Hour)
			if _, err := f.createActivation(t, nil, late); err != nil {
				t.Fatal(err)
			}
			apply("rule_set", "merchant_account rule_set")
			f.want(t, "one of two accounts", "1-2 active, 2-3 rolled_back, 2-4 scheduled, 7, 2")
			f.Config.MerchantAccounts[1].RuleSet.Version = 7
			audit := f.auditLength(t)
			apply("merchant_account rule_set")
			f.want(t, "both", "1-2 superseded, 2-3 rolled_back, 2-4 scheduled, 7, 7")
			if n := f.auditLength(t); n != audit+2 { // the account and the activation
				t.Errorf("%d audit entries", n-audit)
			}
			for _, accounts := range [][]string{nil, {b}} {
				if err := f.rollBack(t, accounts...); code(err) != string(tollgate.CodeActivationStateInvalid) {
					t.Errorf("rolling back %v: %v", accounts, err)
				}
			}
			f.Clock.Advance(time.Hour)
			f.activateDue(t)
			f.want(t, "when its time has come", "1-2 superseded, 2-3 rolled_back, 2-4 failed, 7, 7")
			f.activate(t, 1)
			apply()
			f.want(t, "after another activation", "1-2 superseded, 2-3 rolled_back, 2-4 failed, 7-8 active, 8, 8")
		})
	}
}

// TestRollBackBesideProvisioning: a rollback of one account and provisioning of
// the other leave nothing of an activation, whichever of them comes last.
func TestRollBackBesideProvisioning(t *testing.T) {
	for range 10 {
		f := newFixture(t)
		f.published(t, "shop_fee", 1)
		f.activate(t, 1)
		set := f.Config.RuleSets[0]
		set.Version = 7
		f.Config.RuleSets = append(f.Config.RuleSets, set)
		if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
			t.Fatal(err)
		}
		f.Config.MerchantAccounts[1].RuleSet.Version = 7
		operator := f.with(t, rediskv.Options{})
		var both sync.WaitGroup
		both.Go(func() {
			if err := f.rollBack(t, f.Config.MerchantAccounts[0].ID); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			if _, err := operator.ApplyConfig(t.Context(), f.Config, false); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if got := f.standing(t); got != "1-2 rolled_back, 1, 7" && got != "1-2 superseded, 1, 7" {
			t.Errorf("afterwards: %s", got)
		}
	}
}
