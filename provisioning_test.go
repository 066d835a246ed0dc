package tollgate_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// organization is one as it is stored: what facts are read from, and what a
// provisioning is written to.
type organization struct {
	facts  tollgate.ConfigFacts
	rounds int // in which the last facts were read
	now    tollgate.Instant
	newID  tollgate.NewIDFunc
}

var standardRules = []tollgate.Citation{cite}

func newOrganization(t *testing.T) (*organization, tollgate.Config) {
	t.Helper()
	o := &organization{now: instant(t, "2026-11-21T12:00:00.000Z"), newID: counter(), facts: *tollgate.NewConfigFacts()}
	o.facts.Rules = map[tollgate.Citation]string{cite: "aa", {Name: "shop_fee", Version: 1}: "bb"}
	o.facts.Owners["cli_theirs"] = "org_2"
	o.facts.Grants, o.facts.Quotas = &tollgate.GrantList{Clients: map[string]string{}}, &tollgate.Quotas{}
	account := func(id string) tollgate.MerchantAccount {
		return tollgate.MerchantAccount{
			ID: id, LegalEntityID: "le_1", Name: id, Status: "active", Currencies: []tollgate.Currency{"EUR", "JPY"}, DefaultCurrency: "EUR",
			Cutoff: daily("Europe/Berlin", "17:00"), Perimeter: tollgate.PerimeterRef{ID: "per_1", Version: 1},
			RuleSet: tollgate.RuleSet{ID: "rs_1", Version: 1}, CaptureWindowHours: 168,
		}
	}
	want := tollgate.Config{
		Organization:     tollgate.Organization{ID: "org_1", Name: "Test", Status: "active", HomeRegion: "fra"},
		LegalEntities:    []tollgate.LegalEntity{{ID: "le_1", LegalName: "Test GmbH", Country: "DE", Type: "company", Status: "verified"}},
		MerchantAccounts: []tollgate.MerchantAccount{account("ma_1"), account("ma_2")},
		Clients: []tollgate.Client{
			{ID: "cli_1", Name: "shop", Status: "active", Keys: []string{`{"kid":"a"}`, `{"kid":"b"}`}},
			{ID: "cli_2", Name: "till", Status: "active", Keys: []string{`{"kid":"c"}`}},
		},
		Grants: []tollgate.Grant{
			{ID: "grt_1", ClientID: "cli_1", Scopes: []string{"payments:write"}, Status: "active"},
			{ID: "grt_2", ClientID: "cli_1", Scopes: []string{"payments:read"}, Status: "active"},
			{ID: "grt_3", ClientID: "cli_2", Scopes: []string{"payments:read"}, Status: "active"},
		},
		Perimeters:  []tollgate.PerimeterDocument{{ID: "per_1", Version: 1, Constraints: jsontext.Value(`{"minimum_amount":"1","payees_blocked":["deny.test"]}`)}},
		RuleSets:    []tollgate.RuleSet{{ID: "rs_1", Version: 1, Rules: standardRules}},
		RuleSigners: []tollgate.RuleSigner{{ID: "sig_1", Name: "team", Status: "active", Keys: []string{`{"kid":"s"}`}}},
	}
	o.apply(t, want)
	return o, want
}

// clone is a file that can be changed.
func clone(c tollgate.Config) tollgate.Config {
	c.LegalEntities, c.MerchantAccounts, c.Clients = slices.Clone(c.LegalEntities), slices.Clone(c.MerchantAccounts), slices.Clone(c.Clients)
	c.Grants, c.Perimeters, c.RuleSets = slices.Clone(c.Grants), slices.Clone(c.Perimeters), slices.Clone(c.RuleSets)
	c.RuleSigners = slices.Clone(c.RuleSigners)
	return c
}

// onlyThe is a file that names the organization by its id.
func onlyThe(c tollgate.Config) tollgate.Config {
	c.Organization = tollgate.Organization{ID: "org_1"}
	return c
}

// read copies what is lacking.
func read[K comparable, V any](into, from, lacks map[K]V) {
	for name := range lacks {
		into[name] = from[name]
	}
}

func (o *organization) read(want tollgate.Config) *tollgate.ConfigFacts {
	f := tollgate.NewConfigFacts()
	o.rounds = 0
	for n := f.Lacks(want); !n.None(); n = f.Lacks(want) {
		o.rounds++
		for id := range n.Histories {
			_, before := f.RuleSets[id]
			if _, now := n.RuleSets[id]; !before && !now {
				panic("the history of " + id + " would be read before its state")
			}
		}
		read(f.Objects, o.facts.Objects, n.Objects)
		read(f.Versions, o.facts.Versions, n.Versions)
		read(f.RuleSets, o.facts.RuleSets, n.RuleSets)
		read(f.Rules, o.facts.Rules, n.Rules)
		read(f.Owners, o.facts.Owners, n.Owners)
		read(f.Histories, o.facts.Histories, n.Histories)
		if n.Grants != nil {
			f.Grants = o.facts.Grants
		}
		if n.Quotas != nil {
			f.Quotas = o.facts.Quotas
		}
	}
	return f
}

func (o *organization) provision(want tollgate.Config) (*tollgate.Provisioning, error) {
	return tollgate.Provision(o.newID, tollgate.Origin{Organization: want.Organization.ID, At: o.now}, o.read(want), want)
}

// apply writes what is decided, as a store does: only if nothing has changed.
func (o *organization) apply(t *testing.T, want tollgate.Config) *tollgate.Provisioning {
	t.Helper()
	p, err := o.provision(want)
	if err != nil {
		t.Fatal(err)
	}
	unchanged := func(what string, stored, read int64) {
		if stored != read {
			t.Errorf("%s is at %d, and was read at %d", what, stored, read)
		}
	}
	f := &o.facts
	revision := func(id string) int64 { return f.Objects[id].Revision }
	for id, read := range p.Compared {
		unchanged(id, revision(id), read)
	}
	for _, object := range p.Objects {
		if object.Kind == "activation" {
			for set, h := range f.Histories { // it is no longer in force
				f.Histories[set] = slices.DeleteFunc(slices.Clone(h), func(a tollgate.Stored[tollgate.Activation]) bool { return a.Value.ID == object.ID })
			}
			continue
		}
		unchanged(object.ID, revision(object.ID), object.Revision)
		stored := object.StoredObject
		stored.Revision++
		f.Objects[object.ID] = stored
	}
	for _, r := range p.RuleSets {
		unchanged(r.ID, f.RuleSets[r.ID].Revision, r.Revision)
		r.Revision++
		f.RuleSets[r.ID] = r
	}
	maps.Copy(f.Versions, p.Versions)
	for _, id := range p.Clients {
		f.Owners[id] = p.Organization
	}
	if p.Quotas != nil {
		unchanged("quotas", f.Quotas.Revision, p.Quotas.Revision)
		f.Quotas = &tollgate.Quotas{Revision: p.Quotas.Revision + 1, Rules: p.Quotas.Rules, Perimeters: p.Quotas.Perimeters}
	}
	if p.Grants != nil {
		unchanged("the list of grants", f.Grants.Revision, p.Grants.Revision)
		list := tollgate.GrantList{Revision: p.Grants.Revision, Clients: maps.Clone(f.Grants.Clients)}
		if maps.Copy(list.Clients, p.Grants.Clients); len(p.Grants.Clients) > 0 {
			list.Revision++
		}
		f.Grants = &list
	}
	for _, id := range p.Raised {
		raised := f.Objects[id]
		raised.Revision++
		f.Objects[id] = raised
	}
	return p
}

// document is an object as it becomes.
func document[T any](t *testing.T, o *organization, id string) (doc T) {
	t.Helper()
	if err := json.Unmarshal(o.facts.Objects[id].Document, &doc); err != nil {
		t.Fatal(id, err)
	}
	return doc
}

// summary is what a provisioning shows, the events that it makes and whose tokens
// it ends.
func summary(p *tollgate.Provisioning) string {
	var lines []string
	for _, c := range p.Changes {
		line := strings.Join(append([]string{c.Action, c.Kind, c.ID}, c.Fields...), " ")
		if c.From != tollgate.NoDate {
			line += " from " + c.From.String()
		}
		if c.Ends > 0 {
			line += fmt.Sprint(" ends ", c.Ends)
		}
		lines = append(lines, line)
	}
	for _, e := range p.Events {
		lines = append(lines, string(e.Type))
	}
	if len(p.Raised) > 0 {
		lines = append(lines, "raised "+strings.Join(p.Raised, " "))
	}
	return strings.Join(lines, "; ")
}

// TestProvision: what each change of a file makes of an organization, and that the
// same file again makes nothing of it.
func TestProvision(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *tollgate.Config)
		want   string
	}{
		{"nothing", func(*tollgate.Config) {}, ""},
		{
			"the organization's name", func(c *tollgate.Config) { c.Organization.Name = "New" },
			"changed organization org_1 name; organization.updated",
		},
		{
			"a legal entity", func(c *tollgate.Config) { c.LegalEntities[0].Status = "suspended" },
			"changed legal_entity le_1 status; legal_entity.updated",
		},
		{"a new legal entity", func(c *tollgate.Config) {
			c.LegalEntities = append(c.LegalEntities, c.LegalEntities[0])
			c.LegalEntities[1].ID = "le_2"
		}, "created legal_entity le_2; legal_entity.updated"},
		{
			"an account's name", func(c *tollgate.Config) { c.MerchantAccounts[0].Name = "New" },
			"changed merchant_account ma_1 name; merchant_account.updated",
		},
		{
			"an account's name and status", func(c *tollgate.Config) { c.MerchantAccounts[0].Name, c.MerchantAccounts[0].Status = "New", "paused" },
			"changed merchant_account ma_1 name status; merchant_account.updated",
		},
		{"a new account", func(c *tollgate.Config) {
			c.MerchantAccounts = append(c.MerchantAccounts, c.MerchantAccounts[0])
			c.MerchantAccounts[2].ID = "ma_3"
		}, "changed organization org_1 accounts; created merchant_account ma_3; organization.updated; merchant_account.updated"},
		{
			"a cutoff", func(c *tollgate.Config) { c.MerchantAccounts[0].Cutoff.CutoffTime = "18:00" },
			"changed merchant_account ma_1 cutoff from 2026-11-22; cutoff.updated",
		},
		{"a cutoff from a day on", func(c *tollgate.Config) {
			c.MerchantAccounts[0].Cutoff.CutoffTime = "18:00"
			c.Effective = map[string]tollgate.Date{"ma_1": date(t, "2026-12-01")}
		}, "changed merchant_account ma_1 cutoff from 2026-12-01; cutoff.updated"},
		{"a day on which nothing changes", func(c *tollgate.Config) {
			c.Effective = map[string]tollgate.Date{"ma_1": date(t, "2026-11-01")}
		}, ""},
		{"a perimeter", func(c *tollgate.Config) {
			c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{ID: "per_1", Version: 2})
			c.MerchantAccounts[0].Perimeter.Version = 2
		}, "created perimeter per_1@2; changed merchant_account ma_1 perimeter; perimeter.activated"},
		{"the same perimeter, written in another way", func(c *tollgate.Config) {
			c.Perimeters[0].Constraints = jsontext.Value(` { "payees_blocked" : [ "deny\u002etest" ], "minimum_amount" : "1" } `)
		}, ""},
		{"a rule set", func(c *tollgate.Config) {
			c.RuleSets = append(c.RuleSets, tollgate.RuleSet{ID: "rs_1", Version: 5, Rules: withShopFee})
			c.MerchantAccounts[1].RuleSet.Version = 5
			c.MerchantAccounts[1].Name = "New"
		}, "created rule_set rs_1@5; changed merchant_account ma_2 name rule_set; merchant_account.updated; rule.activated"},
		{"a client", func(c *tollgate.Config) { c.Clients[0].Name = "kiosk" }, "changed client cli_1 name"},
		{"a signer", func(c *tollgate.Config) { c.RuleSigners[0].Status = "disabled" }, "changed rule_signer sig_1 status"},
		{"a grant's scopes", func(c *tollgate.Config) { c.Grants[0].Scopes = []string{"events:read"} }, "changed grant grt_1 scopes ends 1"},
		{
			"a revoked grant", func(c *tollgate.Config) { c.Grants[1].Status = "revoked" },
			"changed grant grt_2 revoked_at status ends 1; grant.revoked",
		},
		{"a new grant", func(c *tollgate.Config) {
			c.Grants = append(c.Grants, tollgate.Grant{ID: "grt_4", ClientID: "cli_2", Status: "active"})
		}, "changed client cli_2 grant_ids; created grant grt_4; grant.created"},
		{"a new grant that is revoked", func(c *tollgate.Config) {
			c.Grants = append(c.Grants, tollgate.Grant{ID: "grt_4", ClientID: "cli_2", Status: "revoked"})
		}, "changed client cli_2 grant_ids; created grant grt_4; grant.created"},
		{"a new client with a grant", func(c *tollgate.Config) {
			c.Clients = append(c.Clients, tollgate.Client{ID: "cli_3", Name: "new", Status: "active", Keys: []string{"{}"}})
			c.Grants = append(c.Grants, tollgate.Grant{ID: "grt_4", ClientID: "cli_3", Status: "active"})
		}, "created client cli_3; created grant grt_4; grant.created"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, want := newOrganization(t)
			want = clone(want)
			c.change(&want)
			o.now++
			p := o.apply(t, want)
			if got := summary(p); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			for i, change := range p.Changes {
				e := p.Audit[i]
				if e.Type != change.Kind+".provision" || e.Reason != change.Action || e.Target.Type != change.Kind || e.Target.ID != change.ID || e.Outcome != "succeeded" {
					t.Errorf("audit entry %+v of %+v", e, change)
				}
			}
			for _, e := range p.Events {
				var data struct {
					Revision  int64         `json:"revision"`
					Effective tollgate.Date `json:"effective_date"`
				}
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Fatal(err)
				}
				of := slices.ContainsFunc(p.Objects, func(object tollgate.ConfigObject) bool {
					return e.Names(object.ID) && data.Revision == object.Revision+1
				})
				from := slices.ContainsFunc(p.Changes, func(c tollgate.ConfigChange) bool { return c.From == data.Effective })
				if !of || !from || e.CreatedAt != o.now {
					t.Errorf("event %+v: %s", e, e.Data)
				}
			}
			for _, object := range p.Objects {
				var doc struct {
					CreatedAt tollgate.Instant `json:"created_at"`
					UpdatedAt tollgate.Instant `json:"updated_at"`
				}
				if err := json.Unmarshal(object.Document, &doc); err != nil {
					t.Fatal(err)
				}
				if doc.CreatedAt != 0 && (doc.CreatedAt == o.now) != (object.Revision == 0) {
					t.Errorf("%s was made at %s", object.ID, doc.CreatedAt)
				}
				if doc.UpdatedAt != 0 && doc.UpdatedAt != o.now {
					t.Errorf("%s was changed at %s", object.ID, doc.UpdatedAt)
				}
			}
			o.now++
			if again := o.apply(t, want); summary(again) != "" || len(again.Objects)+len(again.Versions)+len(again.RuleSets)+len(again.Audit) > 0 {
				t.Errorf("the same again: %s, %+v", summary(again), again)
			}
		})
	}
}

// TestProvisionRefuses: what cannot be carried out, and why.
func TestProvisionRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *tollgate.Config)
		code   tollgate.Code
		want   string
	}{
		{
			"another content of a perimeter", func(c *tollgate.Config) { c.Perimeters[0].Constraints = nil }, "",
			"perimeter per_1@1 exists with other content; versions are immutable, give the change a new version",
		},
		{"constraints that say nothing", func(c *tollgate.Config) {
			c.Perimeters[0] = tollgate.PerimeterDocument{ID: "per_1", Version: 2, Constraints: jsontext.Value(`{"currencies":null}`)}
		}, "", "perimeter per_1@2: currencies is null"},
		{"another content of a rule set", func(c *tollgate.Config) { c.RuleSets[0].Rules = nil }, "", "rule_set rs_1@1 exists with other content"},
		{"a rule that there is not", func(c *tollgate.Config) {
			c.RuleSets[0] = tollgate.RuleSet{ID: "rs_1", Version: 2, Rules: []tollgate.Citation{{Name: "none", Version: 3}}}
		}, "", "rule set rs_1: there is no rule:none@v3"},
		{"too many rules", func(c *tollgate.Config) {
			c.RuleSets[0] = tollgate.RuleSet{ID: "rs_1", Version: 2, Rules: slices.Repeat(standardRules, tollgate.MaxRules+1)}
		}, "", "rule set rs_1 has more than 32 rules"},
		{"an organization that there is not", func(c *tollgate.Config) {
			*c = tollgate.Config{Organization: tollgate.Organization{ID: "org_9", Status: "closed"}}
		}, "", "there is no organization org_9"},
		{
			"another's legal entity", func(c *tollgate.Config) { c.MerchantAccounts[0].LegalEntityID = "le_9" }, "",
			`merchant account ma_1: parameter_invalid: "le_9" is not a legal entity of this organization`,
		},
		{
			"a perimeter that there is not", func(c *tollgate.Config) { c.MerchantAccounts[0].Perimeter.Version = 9 }, "",
			"merchant account ma_1: parameter_invalid: there is no per_1 version 9",
		},
		{
			"a rule set that there is not", func(c *tollgate.Config) { c.MerchantAccounts[0].RuleSet.Version = 9 }, "",
			"merchant account ma_1: parameter_invalid: there is no rs_1 version 9",
		},
		{"a cutoff that is to hold too early", func(c *tollgate.Config) {
			c.MerchantAccounts[0].Cutoff.CutoffTime = "18:00"
			c.Effective = map[string]tollgate.Date{"ma_1": date(t, "2026-11-21")}
		}, "", "the effective date 2026-11-21 is too early: the sales day 2026-11-21 is open, so a change holds from 2026-11-22 at the earliest"},
		{"another organization's client", func(c *tollgate.Config) { c.Clients[0].ID = "cli_theirs" }, "", "client cli_theirs belongs to another organization"},
		{
			"a new client by its status", func(c *tollgate.Config) { c.Clients[0] = tollgate.Client{ID: "cli_9", Status: "disabled"} }, "",
			`"cli_9" is not a client of this organization`,
		},
		{
			"a new grant by its status", func(c *tollgate.Config) { c.Grants[0] = tollgate.Grant{ID: "grt_9", Status: "revoked"} }, "",
			`"grt_9" is not a grant of this organization`,
		},
		{"a grant of nobody", func(c *tollgate.Config) { c.Grants[0].ClientID = "cli_9" }, "", `"cli_9" is not a client of this organization`},
		{
			"a grant for another's account", func(c *tollgate.Config) { c.Grants[0].MerchantAccountIDs = []string{"ma_1", "ma_9"} }, "",
			`grant grt_1: parameter_invalid: "ma_9" is not a merchant account of this organization`,
		},
		{"more perimeters than there may be", func(c *tollgate.Config) {
			for v := range int64(tollgate.MaxPerimeterVersions) {
				c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{ID: "per_2", Version: v + 1})
			}
		}, tollgate.CodeQuotaExceeded, "An organization has at most 1000 versions of perimeters."},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, want := newOrganization(t)
			want = clone(want)
			c.change(&want)
			if c.code == "" {
				c.code = tollgate.CodeParameterInvalid
			}
			p, err := o.provision(want)
			if err == nil || !strings.Contains(err.Error(), string(c.code)) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want %s", p, err, c.want)
			}
		})
	}
	o, want := newOrganization(t)
	want = clone(want)
	want.Grants[0].Status = "revoked"
	o.apply(t, want)
	want.Grants[0].Status = "active"
	if _, err := o.provision(want); err == nil || err.Error() != "parameter_invalid: grant grt_1 is revoked and stays so; make a new one" {
		t.Errorf("a revoked grant comes back: %v", err)
	}
}

// TestProvisionKeepsWhatIsLeftOut: what a file does not name stays, and what it
// refers to must stay as it was found.
func TestProvisionKeepsWhatIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		name, want string
		file       tollgate.Config
		compared   []string
	}{
		{"the organization alone", "", onlyThe(tollgate.Config{}), nil},
		{
			"its status", "changed organization org_1 status ends 3; organization.updated; raised grt_1 grt_2 grt_3",
			tollgate.Config{Organization: tollgate.Organization{ID: "org_1", Status: "suspended"}},
			nil,
		},
		{
			"a client's status", "changed client cli_1 status ends 2; raised grt_1 grt_2",
			onlyThe(tollgate.Config{Clients: []tollgate.Client{{ID: "cli_1", Status: "disabled"}}}), nil,
		},
		{"the client as it is", "", onlyThe(tollgate.Config{Clients: []tollgate.Client{{ID: "cli_1", Status: "active"}}}), []string{"cli_1"}},
		{
			"a grant's status", "changed grant grt_1 revoked_at status ends 1; grant.revoked",
			onlyThe(tollgate.Config{Grants: []tollgate.Grant{{ID: "grt_1", Status: "revoked"}}}),
			[]string{"cli_1"},
		},
		{
			"a grant of a stored client for a stored account", "changed client cli_2 grant_ids; created grant grt_4; grant.created",
			onlyThe(tollgate.Config{Grants: []tollgate.Grant{{ID: "grt_4", ClientID: "cli_2", MerchantAccountIDs: []string{"ma_2"}, Status: "active"}}}),
			[]string{"ma_2"},
		},
		{
			"a client with new keys", "changed client cli_2 keys ends 1; raised grt_3",
			onlyThe(tollgate.Config{Clients: []tollgate.Client{{ID: "cli_2", Name: "till", Status: "active", Keys: []string{"{}"}}}}), nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, _ := newOrganization(t)
			before := maps.Clone(o.facts.Objects)
			p := o.apply(t, c.file)
			if got := summary(p); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if got := slices.Sorted(maps.Keys(p.Compared)); !slices.Equal(got, c.compared) {
				t.Errorf("compares %v, want %v", got, c.compared)
			}
			for id, was := range before {
				var old, now map[string]jsontext.Value
				if err := json.Unmarshal(was.Document, &old); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(o.facts.Objects[id].Document, &now); err != nil {
					t.Fatal(err)
				}
				for name, value := range now {
					shown := slices.ContainsFunc(p.Changes, func(c tollgate.ConfigChange) bool { return c.ID == id && slices.Contains(c.Fields, name) })
					if string(old[name]) != string(value) && !shown && name != "updated_at" {
						t.Errorf("%s: %s was %s, is %s", id, name, old[name], value)
					}
				}
			}
		})
	}
}

// An account of a release that kept no versions of cutoffs and did not note what
// it was given stays as it is, until something of it changes.
func TestProvisionOfAnAccountFromBefore(t *testing.T) {
	o, want := newOrganization(t)
	want = clone(want)
	old := o.facts.Objects["ma_1"]
	old.Cutoffs, old.Given = nil, ""
	o.facts.Objects["ma_1"] = old
	if p := o.apply(t, want); summary(p) != "" || len(p.Objects) > 0 {
		t.Errorf("the same file: %s", summary(p))
	}
	want.MerchantAccounts[0].Cutoff.CutoffTime = "18:00"
	o.apply(t, want)
	now := o.facts.Objects["ma_1"]
	if len(now.Cutoffs) != 2 || now.Cutoffs[0].CutoffTime != "17:00" || now.Given != "rs_1@1" {
		t.Errorf("changed: %+v", now)
	}
}

// What decides for an account is the perimeter that is stored with it: where that
// is not its version's, the file puts it right.
func TestProvisionRestoresAPerimeter(t *testing.T) {
	o, want := newOrganization(t)
	stored := o.facts.Objects["ma_1"]
	stored.Perimeter = "{}"
	o.facts.Objects["ma_1"] = stored
	if p := o.apply(t, want); summary(p) != "changed merchant_account ma_1 limits; merchant_account.updated" || o.facts.Objects["ma_1"].Perimeter != o.facts.Versions["per_1@1"] {
		t.Errorf("%s, the account has %s", summary(p), o.facts.Objects["ma_1"].Perimeter)
	}
}

// A version of a perimeter that an earlier release stored keeps that release's
// meaning, also for an account that is given it now.
func TestProvisionKeepsAnEarlierMeaning(t *testing.T) {
	o, want := newOrganization(t)
	want = clone(want)
	const earlier = `{"id":"per_1","version":2,"constraints":{"currencies":[]}}`
	o.facts.Versions["per_1@2"] = earlier
	want.Perimeters = append(want.Perimeters, tollgate.PerimeterDocument{ID: "per_1", Version: 2, Semantics: 9, Constraints: jsontext.Value(`{"currencies":[]}`)})
	want.MerchantAccounts[0].Perimeter.Version = 2
	p := o.apply(t, want)
	if summary(p) != "changed merchant_account ma_1 perimeter; perimeter.activated" || o.facts.Objects["ma_1"].Perimeter != earlier {
		t.Errorf("%s, the account has %s", summary(p), o.facts.Objects["ma_1"].Perimeter)
	}
	if !slices.Equal(p.Perimeters, []string{"per_1@1", "per_1@2"}) {
		t.Errorf("to be listed: %v", p.Perimeters)
	}
}

// The quota counts versions that are new; what is stored already stays usable.
func TestProvisionCountsPerimeters(t *testing.T) {
	o, want := newOrganization(t)
	want = clone(want)
	if q := *o.facts.Quotas; q != (tollgate.Quotas{Revision: 1, Perimeters: 1}) {
		t.Errorf("the first: %+v", q)
	}
	o.facts.Quotas.Perimeters, o.facts.Quotas.Rules = tollgate.MaxPerimeterVersions-1, 7
	want.Perimeters = append(want.Perimeters, tollgate.PerimeterDocument{ID: "per_2", Version: 1})
	o.apply(t, want)
	if q := *o.facts.Quotas; q != (tollgate.Quotas{Revision: 2, Rules: 7, Perimeters: tollgate.MaxPerimeterVersions}) {
		t.Errorf("the last: %+v", q)
	}
	want.LegalEntities[0].LegalName = "New"
	if p := o.apply(t, want); p.Quotas != nil || len(p.Changes) != 1 {
		t.Errorf("without a new one: %+v", p)
	}
	want.Perimeters = append(want.Perimeters, tollgate.PerimeterDocument{ID: "per_2", Version: 2})
	if _, err := o.provision(want); err == nil || !strings.Contains(err.Error(), string(tollgate.CodeQuotaExceeded)) {
		t.Errorf("one more: %v", err)
	}
}

// What a file needs is read in one round, and in a second one where it ends tokens
// or refers to objects by others; deciding changes nothing of the facts, and
// decides the same again.
func TestProvisionSaysWhatItLacks(t *testing.T) {
	if p, err := tollgate.Provision(counter(), tollgate.Origin{Organization: "org_1"}, tollgate.NewConfigFacts(), tollgate.Config{
		Organization: tollgate.Organization{ID: "org_1", Name: "Test", HomeRegion: "fra"},
	}); err == nil {
		t.Errorf("from nothing that was read: %+v", p)
	}
	for _, c := range []struct {
		name   string
		change func(c *tollgate.Config)
		rounds int
	}{
		{"the same file", func(*tollgate.Config) {}, 1},
		{"an account's name", func(c *tollgate.Config) { c.MerchantAccounts[0].Name = "New" }, 1},
		{"a new perimeter", func(c *tollgate.Config) {
			c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{ID: "per_2", Version: 1})
		}, 2},
		{"a new grant", func(c *tollgate.Config) {
			c.Grants = append(c.Grants, tollgate.Grant{ID: "grt_4", ClientID: "cli_2", Status: "active"})
		}, 2},
		{"a grant by its id", func(c *tollgate.Config) {
			*c = onlyThe(tollgate.Config{Grants: []tollgate.Grant{{ID: "grt_1", Status: "revoked"}}})
		}, 2},
		{"another rule set", func(c *tollgate.Config) {
			c.RuleSets = append(c.RuleSets, tollgate.RuleSet{ID: "rs_2", Version: 1, Rules: standardRules})
			c.MerchantAccounts[0].RuleSet = tollgate.RuleSet{ID: "rs_2", Version: 1}
		}, 2},
		{"another version of a rule set, by its number", func(c *tollgate.Config) {
			*c = onlyThe(tollgate.Config{MerchantAccounts: c.MerchantAccounts[:1]})
			c.MerchantAccounts[0].RuleSet.Version = 2
		}, 2},
	} {
		o, want := newOrganization(t)
		o.apply(t, onlyThe(tollgate.Config{RuleSets: []tollgate.RuleSet{{ID: "rs_1", Version: 2, Rules: standardRules}}}))
		want = clone(want)
		c.change(&want)
		var made [2]*tollgate.Provisioning
		facts, untouched := o.read(want), o.read(want)
		for i := range made {
			var err error
			if made[i], err = tollgate.Provision(counter(), tollgate.Origin{Organization: "org_1", At: o.now}, facts, want); err != nil {
				t.Fatal(err)
			}
		}
		if c.rounds == 1 && (facts.Quotas != nil || facts.Grants != nil) {
			t.Errorf("%s: read the quotas %v and the grants %v", c.name, facts.Quotas, facts.Grants)
		}
		if o.rounds != c.rounds {
			t.Errorf("%s: read in %d rounds, want %d", c.name, o.rounds, c.rounds)
		}
		if !reflect.DeepEqual(made[0], made[1]) || !reflect.DeepEqual(facts, untouched) {
			t.Errorf("%s: decided %+v, then %+v", c.name, made[0], made[1])
		}
	}
}
