package rediskv_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// another provisions a second organization on the fixture's Redis.
func (f *fixture) another(t testing.TB) tollgate.Config {
	t.Helper()
	c := testkit.Organization(f.NewID)
	if _, err := f.ApplyConfig(t.Context(), c, false); err != nil {
		t.Fatal(err)
	}
	return c
}

// A change of one organization is read again by every instance, that of another
// stays cached, whether operators made it or clients.
func TestPollForgetsWhatChanged(t *testing.T) {
	f := newFixture(t)
	mine := f.Config
	others := f.another(t)
	f.published(t, "shop_fee", 1)

	var mu sync.Mutex
	reads := 0
	instance := f.observed(t, f.URL, func(operation string) {
		if operation == "read_account" {
			mu.Lock()
			defer mu.Unlock()
			reads++
		}
	})
	read := func(c tollgate.Config) int {
		t.Helper()
		mu.Lock()
		reads = 0
		mu.Unlock()
		if _, err := instance.Account(t.Context(), c.Organization.ID, c.MerchantAccounts[0].ID); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return reads
	}
	seen := instances.Changes{}
	poll := func(what string, all bool, want ...string) {
		t.Helper()
		var err error
		if seen, err = instance.Poll(t.Context(), seen); err != nil || seen.All != all || !slices.Equal(seen.Organizations, want) {
			t.Fatalf("%s: all %t, %v, %v; want all %t, %v", what, seen.All, seen.Organizations, err, all, want)
		}
	}
	poll("at first", true)
	read(mine)
	read(others)
	for what, change := range map[string]func() error{
		"an activation": func() error {
			_, err := f.createActivation(t, nil, f.activation(t, "shop_fee", 1))
			return err
		},
		"provisioning": func() error {
			f.Config.MerchantAccounts[0].Name += " again"
			_, err := f.ApplyConfig(t.Context(), f.Config, false)
			return err
		},
	} {
		poll("nothing", false)
		if n := read(mine); n != 0 {
			t.Errorf("before %s: %d reads", what, n)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		poll(what, false, mine.Organization.ID)
		if n := read(mine); n != 1 {
			t.Errorf("after %s: %d reads of the organization", what, n)
		}
		if n := read(others); n != 0 {
			t.Errorf("after %s: %d reads of another organization", what, n)
		}
	}

	// A Redis that has lost its latest writes counts again what was counted.
	raw := rawClient(t, f.URL)
	for _, key := range scanKeys(t, raw, "*:changed") {
		if err := raw.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	poll("after a loss", true)
}

// What prices payments: the published rules of active accounts of active
// organizations, each once.
func TestInForce(t *testing.T) {
	f := newFixture(t)
	others := f.another(t)
	f.published(t, "shop_fee", 1)
	shop := tollgate.Citation{Name: "shop_fee", Version: 1}
	ref := tollgate.RuleRef{Rule: shop, SHA256: sum(shop)}
	var all []string
	if err := f.Organizations(t.Context(), instances.Listing{}, func(ids []string) error {
		all = append(all, ids...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	if want := slices.Sorted(slices.Values([]string{f.Config.Organization.ID, others.Organization.ID})); !slices.Equal(all, want) {
		t.Fatalf("organizations %v, want %v", all, want)
	}
	check := func(what string, want map[string][]tollgate.RuleRef) {
		t.Helper()
		found, err := f.ActiveRules(t.Context(), all)
		if err != nil || !maps.EqualFunc(found, want, slices.Equal[[]tollgate.RuleRef]) {
			t.Errorf("%s: %v, %v; want %v", what, found, err, want)
		}
	}
	check("what comes with the service", map[string][]tollgate.RuleRef{})
	if _, err := f.createActivation(t, nil, f.activation(t, "shop_fee", 1)); err != nil {
		t.Fatal(err)
	}
	check("scheduled", map[string][]tollgate.RuleRef{})
	if done := f.activateDue(t); len(done) != 1 {
		t.Fatal(done)
	}
	active := map[string][]tollgate.RuleRef{f.Config.Organization.ID: {ref}}
	check("in force", active)

	// One of the two accounts is enough, and none is none.
	now := f.Config
	now.MerchantAccounts = slices.Clone(now.MerchantAccounts)
	for i, want := range []map[string][]tollgate.RuleRef{active, {}} {
		now.MerchantAccounts[i].Status = "paused"
		now.MerchantAccounts[i].RuleSet.Version = 2
		if i == 0 {
			now.MerchantAccounts[1].RuleSet.Version = 2
		}
		if _, err := f.ApplyConfig(t.Context(), now, false); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprint(i+1, " paused"), want)
	}
	now.MerchantAccounts[0].Status = "active"
	now.Organization.Status = "suspended"
	if _, err := f.ApplyConfig(t.Context(), now, false); err != nil {
		t.Fatal(err)
	}
	check("suspended", map[string][]tollgate.RuleRef{})
}

// An instance asks seldom about partitions without organizations, unless it has read
// something that may be of a new one: what it keeps is never older than a look.
func TestLooksAtEmptyPartitions(t *testing.T) {
	f := newFixtureAt(t, redistest.Single(t).URL) // nodes of a cluster lie behind no proxy
	wire := redistest.Proxy(t, f.URL)
	instance := f.with(t, rediskv.Options{URL: wire.URL})
	var seen instances.Changes
	look := func() instances.Changes {
		t.Helper()
		wire.Reset()
		found, err := instance.Look(t.Context(), seen, instances.Instance{ID: "ins_1"}, false)
		must(t, err)
		seen = found.Changes
		return seen
	}
	look()
	look()
	for range 10 {
		look()
		if asked := wire.Counts()["ZSCORE"]; asked > 8 {
			t.Errorf("%d partitions are asked for, and there is one organization", asked)
		}
	}
	in := func(org string) bool { return slices.Contains(seen.Organizations, org) }
	one := f.another(t).Organization.ID
	looks := 1
	for ; !in(one) && looks < 20; looks++ {
		look()
	}
	if looks > 11 {
		t.Errorf("a new organization is seen after %d looks", looks)
	}
	other := f.another(t)
	if _, err := instance.Account(t.Context(), other.Organization.ID, other.MerchantAccounts[0].ID); err != nil {
		t.Fatal(err)
	}
	if look(); !in(other.Organization.ID) {
		t.Error("an organization that is in the cache is not looked at")
	}
	if look(); in(other.Organization.ID) || in(one) {
		t.Errorf("seen again: %v", seen.Organizations)
	}
}

// Where nothing is to come and nothing changes, an instance does not read schedules, and
// what comes is seen with the next look.
func TestLooksAreIdle(t *testing.T) {
	f := newFixture(t)
	f.published(t, "shop_fee", 1)
	var read atomic.Bool
	instance := f.observed(t, f.URL, func(operation string) {
		if operation == "read_schedules" {
			read.Store(true)
		}
	})
	var seen instances.Changes
	look := func(what string, upcoming int, reads bool) {
		t.Helper()
		read.Store(false)
		found, err := instance.Look(t.Context(), seen, instances.Instance{ID: "ins_1"}, false)
		if err != nil || len(found.Upcoming) != upcoming {
			t.Fatalf("%s: %d are to come, want %d; %v", what, len(found.Upcoming), upcoming, err)
		}
		if read.Load() != reads {
			t.Errorf("%s: schedules are read: %t", what, !reads)
		}
		seen = found.Changes
	}
	look("first", 0, false) // reads all of them with what it asks anyway, before the counts
	look("second", 0, true)
	look("idle", 0, false)
	activation := f.activation(t, "shop_fee", 1)
	if _, err := f.createActivation(t, nil, activation); err != nil {
		t.Fatal(err)
	}
	look("scheduled", 1, true)
	look("still scheduled", 1, true)
	if err := instance.Deregister(t.Context(), "ins_1"); err != nil { // it says that it lacks the rule
		t.Fatal(err)
	}
	if done := f.activateDue(t); len(done) != 1 {
		t.Fatal(done)
	}
	look("done", 0, true)
	look("idle again", 0, false)

	raw := rawClient(t, f.URL)
	for _, key := range scanKeys(t, raw, "*:changed") {
		if err := raw.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	look("after a loss", 0, true)
}
