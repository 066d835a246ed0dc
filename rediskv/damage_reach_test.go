package rediskv_test

import (
	"slices"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/rules"
)

func garbage(string) string { return `{"id":` }

// An account or an organization that cannot be read keeps no instance from
// loading what prices the payments of all others.
func TestDamageLeavesOthersInForce(t *testing.T) {
	f := newFixture(t)
	others := f.another(t)
	f.published(t, "shop_fee", 1)
	f.activate(t, 1)
	shop := tollgate.Citation{Name: "shop_fee", Version: 1}
	check := func(what string, want int) {
		t.Helper()
		found, err := f.ActiveRules(t.Context(), []string{others.Organization.ID, f.Config.Organization.ID})
		if err != nil || len(found[f.Config.Organization.ID]) != want {
			t.Errorf("%s: %v, %v", what, found, err)
		}
		if want > 0 && found[f.Config.Organization.ID][0].Rule != shop {
			t.Errorf("%s: %v", what, found)
		}
	}
	check("all is well", 1)
	f.set(t, others.MerchantAccounts[0].ID, "json", garbage)
	check("another's account", 1)
	f.set(t, others.Organization.ID, "json", garbage)
	check("another organization", 1)
	f.set(t, f.Config.MerchantAccounts[0].ID, "json", garbage)
	check("one of two accounts", 1)
}

// An activation that cannot be read keeps no other from being carried out or
// from being prepared.
func TestDamageLeavesOtherActivations(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	f.published(t, "other_fee", 1)
	for i, name := range []string{"shop_fee", "other_fee"} {
		if _, err := f.createActivation(t, nil, f.activation(t, name, 1, f.Config.MerchantAccounts[i].ID)); err != nil {
			t.Fatal(err)
		}
	}
	look := func() ([]instances.Upcoming, error) {
		found, err := f.Look(t.Context(), instances.Changes{}, instances.Instance{ID: "ins_1"}, false)
		must(t, f.Deregister(t.Context(), "ins_1"))
		return found.Upcoming, err
	}
	upcoming, err := look()
	if err != nil || len(upcoming) != 2 {
		t.Fatal(upcoming, err)
	}
	f.set(t, upcoming[0].ID, "json", garbage)
	left, err := look()
	if err != nil || len(left) != 1 || left[0].ID != upcoming[1].ID {
		t.Errorf("%v, %v", left, err)
	}
	var done []rules.Activated
	for p := range f.Partitions() {
		list, err := f.ActivateDue(t.Context(), p, 10)
		if err != nil && !rediskv.IsDamage(err) {
			t.Error(err)
		}
		done = append(done, list...)
	}
	if len(done) != 1 || done[0].ID != upcoming[1].ID {
		t.Errorf("carried out: %v", done)
	}
}

// Accounts change their rules beside one that cannot be read. Nobody knows which
// rules that one has, so none counts as retired.
func TestActivationsBesideADamagedAccount(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	f.published(t, "shop_fee", 2)
	f.activate(t, 1, f.Config.MerchantAccounts[0].ID)
	was := f.set(t, f.Config.MerchantAccounts[1].ID, "json", garbage)
	f.activate(t, 2, f.Config.MerchantAccounts[0].ID)
	retired := func() int {
		t.Helper()
		events, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{string(tollgate.RuleRetired)}, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return len(events)
	}
	if n := retired(); n != 0 {
		t.Errorf("%d rules are retired", n)
	}
	of := f.activation(t, "shop_fee", 2, f.Config.MerchantAccounts[0].ID)
	of.accounts = []string{f.Config.MerchantAccounts[1].ID}
	_, err := f.createActivation(t, nil, of)
	if !rediskv.IsDamage(err) {
		t.Errorf("of the damaged account: %v", err)
	}
	f.set(t, f.Config.MerchantAccounts[1].ID, "json", func(string) string { return was })
	if err := f.rollBack(t, f.Config.MerchantAccounts[0].ID); err != nil {
		t.Fatal(err)
	}
	if n := retired(); n != 1 {
		t.Errorf("%d rules are retired once all accounts can be read", n)
	}
}

// The list of what is only compared keeps no payment from being made.
func TestDamagedShadowsLeavePayments(t *testing.T) {
	for _, field := range []string{"list", "v"} {
		f := newFixture(t)
		f.published(t, "shop_fee", 1)
		shop := tollgate.Citation{Name: "shop_fee", Version: 1}
		shadow := tollgate.Shadow{Object: "shadow", ID: f.NewID(tollgate.PrefixShadow), CreatedAt: f.Now(), Rule: tollgate.RuleRef{Rule: shop, SHA256: sum(shop)}, Against: priced[0], Status: "active"}
		if err := f.startShadow(t, shadow); err != nil {
			t.Fatal(err)
		}
		if len(f.MerchantAccount(t).Shadows) != 1 {
			t.Fatal("there is no shadow")
		}
		f.set(t, f.Caller.Organization+":shadowing", field, garbage)
		f.Refresh(f.Caller.Organization)
		a, err := f.Account(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID)
		if err != nil || (field == "list") != (len(a.Shadows) == 0) {
			t.Errorf("%s: %v, %v", field, a, err)
			continue
		}
		f.Pay(t, eur(100), tollgate.CaptureManual)
		events, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Types: tollgate.TypeFilter{string(tollgate.IntegrityFailed)}, Limit: 100})
		if err != nil || len(events) != 1 {
			t.Errorf("%s: told of by %s, %v", field, events, err)
		}
	}
}

// A grant that cannot be read keeps nobody from ending tokens, its own among
// them.
func TestTokensEndBesideADamagedGrant(t *testing.T) {
	f := newFixture(t)
	first, second := f.staff(t, 3)
	raw := rawClient(t, f.URL)
	for _, key := range scanKeys(t, raw, "*"+f.Caller.Organization+":grants") { // as a release left it that kept no list
		if err := raw.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	f.set(t, first[1], "json", garbage)
	before := f.revisions(t)
	f.Config.Organization.Status = "suspended"
	f.Config.Grants = nil
	f.apply(t)
	after := f.revisions(t)
	for _, id := range slices.Concat(first, second) {
		if after[id] != before[id]+1 {
			t.Errorf("grant %s: revision %d after %d", id, after[id], before[id])
		}
	}
}
