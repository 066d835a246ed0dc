package rediskv_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

func TestApplyConfigIsIdempotent(t *testing.T) {
	f := newFixture(t)
	f.Clock.Advance(time.Hour)
	if changes, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil || len(changes) != 0 {
		t.Errorf("the same again: %v %v", changes, err)
	}
	before := len(f.audit(t).events)
	f.Config.MerchantAccounts[0].Cutoff.CutoffTime = "18:00"
	dry, err := f.ApplyConfig(t.Context(), f.Config, true)
	if err != nil || len(dry) != 1 || dry[0].Action != "changed" || strings.Join(dry[0].Fields, " ") != "cutoff" {
		t.Errorf("dry run: %+v %v", dry, err)
	}
	if n := len(f.audit(t).events); n != before {
		t.Errorf("a dry run wrote %d events", n-before)
	}
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
	l := f.audit(t)
	if last := l.events[len(l.events)-1]; len(l.events) != before+1 || last.Type != tollgate.CutoffUpdated {
		t.Errorf("%d events, the last %s", len(l.events)-before, last.Type)
	}
	a := f.MerchantAccount(t)
	if a.Cutoff.Version != 2 || a.Revision != 2 || a.UpdatedAt <= a.CreatedAt {
		t.Errorf("cutoff version %d, revision %d", a.Cutoff.Version, a.Revision)
	}
}

// Of two provisionings at once each sees the other's: revisions count the
// changes.
func TestRacingConfigurations(t *testing.T) {
	f := newFixture(t)
	var g sync.WaitGroup
	for w := range 6 {
		g.Go(func() {
			for i := range 5 {
				c := f.Config
				c.Organization.Name = fmt.Sprint("name ", w, " ", i)
				if _, err := f.ApplyConfig(t.Context(), c, false); err != nil && !errors.Is(err, rediskv.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	f.Refresh(f.Caller.Organization)
	o, err := f.Organization(t.Context(), f.Caller.Organization)
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, e := range f.audit(t).events {
		if e.Type == tollgate.OrganizationUpdated {
			changes++
		}
	}
	if o.Revision != int64(changes) {
		t.Errorf("%d changes, revision %d", changes, o.Revision)
	}
}

func TestVersionsAreImmutable(t *testing.T) {
	f := newFixture(t)
	for name, change := range map[string]func(*tollgate.Config){
		"perimeter": func(c *tollgate.Config) { c.Perimeters[0].Constraints = jsontext.Value(`{}`) },
		"rule set":  func(c *tollgate.Config) { c.RuleSets[0].Rules = nil },
		"missing": func(c *tollgate.Config) {
			c.MerchantAccounts = append([]tollgate.MerchantAccount(nil), c.MerchantAccounts...)
			c.MerchantAccounts[0].Perimeter.Version = 9
		},
	} {
		c := f.Config
		c.Perimeters = append([]tollgate.PerimeterDocument(nil), c.Perimeters...)
		c.RuleSets = append([]tollgate.RuleSet(nil), c.RuleSets...)
		c.Organization.Name = "changed beside it"
		change(&c)
		if _, err := f.ApplyConfig(t.Context(), c, false); code(errors.Unwrap(err)) != string(tollgate.CodeParameterInvalid) && code(err) != string(tollgate.CodeParameterInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o, err := f.Organization(t.Context(), f.Caller.Organization); err != nil || o.Revision != 1 {
		t.Errorf("refused, and yet written: %+v %v", o, err)
	}
	// The same constraints in another spelling are the same version.
	f.Config.Perimeters[0].Constraints = jsontext.Value(`{ "payees_blocked" : [ "deny.test" ] }`)
	if changes, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil || len(changes) != 0 {
		t.Errorf("spelled otherwise: %v %v", changes, err)
	}
}

func TestClientsBelongToOneOrganization(t *testing.T) {
	f := newFixture(t)
	other := testkit.Organization(f.NewID)
	other.Clients = append(other.Clients, f.Config.Clients[0])
	if _, err := f.ApplyConfig(t.Context(), other, false); code(err) != string(tollgate.CodeParameterInvalid) {
		t.Errorf("another organization's client: %v", err)
	}
	c, err := f.Client(t.Context(), f.Config.Clients[0].ID)
	if err != nil || c.OrganizationID != f.Caller.Organization {
		t.Errorf("client: %+v %v", c, err)
	}
	if _, err := f.Client(t.Context(), "cli_none"); code(err) != string(tollgate.CodeNotFound) {
		t.Errorf("unknown client: %v", err)
	}
}

func TestGrantsEnd(t *testing.T) {
	f := newFixture(t)
	second := f.Config.Grants[0]
	second.ID, second.Status = f.NewID(tollgate.PrefixGrant), "revoked"
	f.Config.Grants[0].Status = "revoked"
	f.Config.Grants = append(f.Config.Grants, second)
	before := len(f.audit(t).events)
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Config.Grants {
		if got, err := f.Grant(t.Context(), f.Caller.Organization, g.ID); err != nil || got.RevokedAt != f.Now() {
			t.Errorf("%s: revoked at %s, %v", g.ID, got.RevokedAt, err)
		}
	}
	f.Caller.GrantVersion = 2
	events := f.audit(t).events[before:]
	if len(events) != 2 || events[0].Type != tollgate.GrantRevoked || events[1].Type != tollgate.GrantCreated {
		t.Errorf("events: %+v", events)
	}
	var data struct {
		GrantID  string   `json:"grant_id"`
		ClientID string   `json:"client_id"`
		Scopes   []string `json:"scopes"`
		Status   string   `json:"status"`
		Changed  []string `json:"changed"`
	}
	if err := json.Unmarshal(events[0].Data, &data); err != nil || data.GrantID != f.Config.Grants[0].ID || data.ClientID == "" || len(data.Scopes) != 1 || data.Status != "revoked" {
		t.Errorf("data: %s %v", events[0].Data, err)
	}
	f.Config.Grants[0].Status = "active"
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); code(err) != string(tollgate.CodeParameterInvalid) {
		t.Errorf("a revoked grant comes back: %v", err)
	}
}

func TestReadResource(t *testing.T) {
	f := newFixture(t)
	other := newFixtureAt(t, f.URL)
	for kind, ids := range map[string][2]string{
		"organization":     {f.Caller.Organization, other.Caller.Organization},
		"legal_entity":     {f.Config.LegalEntities[0].ID, other.Config.LegalEntities[0].ID},
		"merchant_account": {f.Config.MerchantAccounts[0].ID, other.Config.MerchantAccounts[0].ID},
		"grant":            {f.Config.Grants[0].ID, other.Config.Grants[0].ID},
	} {
		doc, revision, err := f.ReadResource(t.Context(), f.Caller, kind, ids[0])
		var read struct{ Object, ID string }
		if err != nil || json.Unmarshal(doc, &read, json.MatchCaseInsensitiveNames(true)) != nil || read.Object != kind || read.ID != ids[0] || revision != 1 {
			t.Errorf("%s: %s %d %v", kind, doc, revision, err)
		}
		if _, _, err := f.ReadResource(t.Context(), f.Caller, kind, ids[1]); code(err) != string(tollgate.CodeNotFound) {
			t.Errorf("%s of another organization: %v", kind, err)
		}
		if _, _, err := f.ReadResource(t.Context(), f.Caller, kind, f.Config.Perimeters[0].ID); code(err) != string(tollgate.CodeNotFound) {
			t.Errorf("a perimeter as %s: %v", kind, err)
		}
	}
}

func TestAssertionsAreBurnt(t *testing.T) {
	f := newFixture(t)
	if err := f.burn(t.Context(), f.issue("a")); err != nil {
		t.Fatal(err)
	}
	if err := f.burn(t.Context(), f.issue("a")); !errors.Is(err, rediskv.ErrReplayed) {
		t.Errorf("the same assertion: %v", err)
	}
	stale := f.issue("b")
	stale.ClientRevision = 7
	if err := f.burn(t.Context(), stale); !errors.Is(err, rediskv.ErrStale) {
		t.Errorf("another client revision: %v", err)
	}
	if err := f.burn(t.Context(), f.issue("b")); err != nil {
		t.Errorf("not burnt by a refusal: %v", err)
	}
}

// Configuration that was read while it changed is read again: the push came
// before there was something to mark.
func TestChangeWhileReading(t *testing.T) {
	f := newFixture(t)
	id := f.Config.MerchantAccounts[0].ID
	var reader *store.Store
	change := sync.OnceFunc(func() {
		f.Config.MerchantAccounts[0].Name = "changed"
		if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
			t.Error(err)
		}
		reader.Refresh(f.Caller.Organization)
	})
	reader = f.observed(t, f.URL, func(operation string) {
		if operation == "read_account" {
			change()
		}
	})
	for _, want := range []string{f.Config.MerchantAccounts[0].Name, "changed"} {
		a, err := reader.Account(t.Context(), f.Caller.Organization, id)
		if err != nil || a.Name != want {
			t.Errorf("the name is %q, %v; want %q", a.Name, err, want)
		}
	}
}

// What one instance changes reaches another by push.
func TestWatch(t *testing.T) {
	f := newFixture(t)
	other := open(t, f.URL, f.Clock)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { other.Watch(ctx); close(ended) }()
	defer func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("watching does not end with its context")
		}
	}()
	id := f.Config.MerchantAccounts[0].ID
	deadline := time.Now().Add(20 * time.Second)
	for name := "a"; ; name += "a" {
		f.Config.MerchantAccounts[0].Name = name
		if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			a, err := other.Account(t.Context(), f.Caller.Organization, id)
			if err != nil {
				t.Fatal(err)
			}
			if a.Name == name && len(name) > 2 { // the first fill is no push
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
		if time.Now().After(deadline) {
			t.Fatal("no push arrived")
		}
	}
}

func TestPartitionsAreFixed(t *testing.T) {
	server := redistest.Fresh(t)
	c := testkit.NewClock()
	first := open(t, server.URL, c)
	if first.Partitions() != 64 {
		t.Errorf("%d partitions", first.Partitions())
	}
	_, err := store.Open(t.Context(), rediskv.Options{URL: server.URL, Clock: c.Now, Entropy: rand.Reader, Partitions: 8})
	if err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("another number: %v", err)
	}
}

func TestInspect(t *testing.T) {
	f := newFixture(t)
	g, err := f.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kind := redistest.Kind(t); kind != redistest.Miniredis && (!g.AOF || g.Evicts() || g.Version == "" || g.Fsync == "") {
		t.Errorf("%s: %+v", kind, g)
	}
}
