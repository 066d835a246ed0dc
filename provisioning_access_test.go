package tollgate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tollgate"
)

// TestProvisionEndsTokens: what ends whose tokens: every change of a status,
// either way, and a key that is gone; not a new key, and nobody else's.
func TestProvisionEndsTokens(t *testing.T) {
	o, want := newOrganization(t)
	want = clone(want)
	first := &want.Clients[0]
	keys := func(list string) func() {
		return func() {
			first.Keys = nil
			for kid := range strings.FieldsSeq(list) {
				first.Keys = append(first.Keys, fmt.Sprintf(`{"kid":%q}`, kid))
			}
		}
	}
	var kept []tollgate.Grant
	for _, step := range []struct {
		name   string
		change func()
		ends   string // whose revision is raised, or that change themselves
		shown  string // for how many grants each change does
	}{
		{"the client's name", func() { first.Name = "kiosk" }, "", "cli_1 0"},
		{"a new key", keys("a b c"), "", "cli_1 0"},
		{"keys in another order", keys("c b a"), "", "cli_1 0"},
		{"a removed key", keys("c b"), "grt_1 grt_2", "cli_1 2"},
		{"a replaced key", keys("c d"), "grt_1 grt_2", "cli_1 2"},
		{"a disabled client", func() { first.Status = "disabled" }, "grt_1 grt_2", "cli_1 2"},
		{"an enabled client", func() { first.Status = "active" }, "grt_1 grt_2", "cli_1 2"},
		{"a suspended organization", func() { want.Organization.Status = "suspended" }, "grt_1 grt_2 grt_3", "org_1 3"},
		{"a closed one", func() { want.Organization.Status = "closed" }, "grt_1 grt_2 grt_3", "org_1 3"},
		{"an open one", func() { want.Organization.Status = "active" }, "grt_1 grt_2 grt_3", "org_1 3"},
		{"a client's rate limits", func() { first.RateLimits = "writes=1/s" }, "grt_1 grt_2", "cli_1 0, grt_1 1, grt_2 1"},
		{"a grant's rate limits", func() { want.Grants[1].RateLimits = "writes=2/s" }, "grt_2", "grt_2 1"},
		{"a client's rate limits, in a file without its grants", func() {
			kept = want.Grants
			want.Grants, first.RateLimits = nil, ""
		}, "grt_1 grt_2", "cli_1 0, grt_1 1, grt_2 1"},
		{"the same again", func() { want.Grants = kept }, "", ""},
		{"bound tokens", func() { first.DPoPBound = true }, "grt_1 grt_2", "cli_1 2"},
		{"any tokens", func() { first.DPoPBound = false }, "", "cli_1 0"},
		{"both", func() { want.Organization.Status, want.Clients[1].Status = "closed", "disabled" }, "grt_1 grt_2 grt_3", "org_1 3, cli_2 1"},
		{"a grant of its own", func() { want.Grants[0].Scopes = nil }, "grt_1", "grt_1 1"},
		{"a grant and its client", func() {
			want.Grants[0].Scopes = []string{"a"}
			first.Status = "disabled"
		}, "grt_1 grt_2", "cli_1 2, grt_1 1"},
		{"a client and its new grant", func() {
			first.Status = "active"
			want.Grants = append(want.Grants, tollgate.Grant{ID: "grt_4", ClientID: "cli_1", Status: "active"})
		}, "grt_1 grt_2", "cli_1 2, grt_4 0"},
	} {
		before := maps.Clone(o.facts.Objects)
		step.change()
		p := o.apply(t, want)
		var raised, shown []string
		for id, now := range o.facts.Objects {
			if strings.HasPrefix(id, "grt_") && before[id].Revision > 0 {
				for range now.Revision - before[id].Revision {
					raised = append(raised, id)
				}
			}
		}
		for _, c := range p.Changes {
			shown = append(shown, fmt.Sprint(c.ID, " ", c.Ends))
		}
		slices.Sort(raised)
		if got := strings.Join(raised, " "); got != step.ends {
			t.Errorf("%s: ends the tokens of %q, want %q", step.name, got, step.ends)
		}
		if got := strings.Join(shown, ", "); got != step.shown {
			t.Errorf("%s: shows %q, want %q", step.name, got, step.shown)
		}
	}
}

// Grants that nobody's file names are their client's still. Where there is no
// list of them, the one that was found is written.
func TestProvisionEndsTokensOfUnnamedGrants(t *testing.T) {
	for _, unlisted := range []bool{false, true} {
		o, _ := newOrganization(t)
		o.facts.Grants.Clients["grt_5"] = "cli_1" // one that its client does not name
		o.facts.Objects["grt_5"] = tollgate.StoredObject{Revision: 1}
		if unlisted {
			o.facts.Grants.Revision = 0
		}
		listed := maps.Clone(o.facts.Grants.Clients)
		p := o.apply(t, onlyThe(tollgate.Config{Clients: []tollgate.Client{{ID: "cli_1", Status: "disabled"}}}))
		if got := summary(p); got != "changed client cli_1 status ends 3; raised grt_1 grt_2 grt_5" {
			t.Errorf("unlisted %v: %s", unlisted, got)
		}
		want := map[string]string{}
		if unlisted {
			want = listed
		}
		if !maps.Equal(p.Grants.Clients, want) {
			t.Errorf("unlisted %v: adds %v to the list, want %v", unlisted, p.Grants.Clients, want)
		}
		if len(p.Ending) != 1 || p.Ending[0].ID != "cli_1" || !maps.Equal(p.Ending[0].Of(listed), map[string]bool{"grt_1": true, "grt_2": true, "grt_5": true}) {
			t.Errorf("unlisted %v: ends %+v", unlisted, p.Ending)
		}
	}
}

// A grant that becomes another client's leaves the one that had it. It ends with
// the tokens of either.
func TestProvisionMovesGrants(t *testing.T) {
	for _, c := range []struct {
		name   string
		file   tollgate.Config
		want   string
		grants [2]string
	}{
		{"both clients described", tollgate.Config{Clients: []tollgate.Client{
			{ID: "cli_1", Name: "shop", Status: "active", Keys: []string{`{"kid":"a"}`, `{"kid":"b"}`}},
			{ID: "cli_2", Name: "till", Status: "active", Keys: []string{`{"kid":"c"}`}},
		}}, "changed client cli_1 grant_ids; changed client cli_2 grant_ids; changed grant grt_1 client_id ends 1", [2]string{"grt_2", "grt_3 grt_1"}},
		{
			"one described",
			tollgate.Config{Clients: []tollgate.Client{{ID: "cli_1", Status: "active"}}},
			"changed client cli_1 grant_ids; changed client cli_2 grant_ids; changed grant grt_1 client_id ends 1",
			[2]string{"grt_2", "grt_3 grt_1"},
		},
		{
			"the old one disabled",
			tollgate.Config{Clients: []tollgate.Client{{ID: "cli_1", Status: "disabled"}}},
			"changed client cli_1 grant_ids status ends 2; changed client cli_2 grant_ids; changed grant grt_1 client_id ends 1; raised grt_2",
			[2]string{"grt_2", "grt_3 grt_1"},
		},
		{
			"the new one disabled",
			tollgate.Config{Clients: []tollgate.Client{{ID: "cli_2", Status: "disabled"}}},
			"changed client cli_2 grant_ids status ends 2; changed grant grt_1 client_id ends 1; raised grt_3",
			[2]string{"grt_1 grt_2", "grt_3 grt_1"},
		},
	} {
		o, _ := newOrganization(t)
		file := onlyThe(c.file)
		file.Grants = []tollgate.Grant{{ID: "grt_1", ClientID: "cli_2", Scopes: []string{"payments:write"}, Status: "active"}}
		p := o.apply(t, file)
		if got := summary(p); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
		for _, e := range p.Ending {
			if !slices.Contains(e.GrantIDs, "grt_1") {
				t.Errorf("%s: ends %+v", c.name, e)
			}
		}
		if !maps.Equal(p.Grants.Clients, map[string]string{"grt_1": "cli_2"}) {
			t.Errorf("%s: the list gets %v", c.name, p.Grants.Clients)
		}
		for i, id := range []string{"cli_1", "cli_2"} {
			client := document[tollgate.Client](t, o, id)
			if got := strings.Join(client.GrantIDs, " "); got != c.grants[i] || client.Name == "" || len(client.Keys) == 0 {
				t.Errorf("%s: %s has %s, want %s", c.name, id, got, c.grants[i])
			}
		}
	}
}

// A grant is revoked once, and says when.
func TestProvisionRevokesGrants(t *testing.T) {
	o, want := newOrganization(t)
	want = clone(want)
	want.Grants[0].Status = "revoked"
	o.now++
	revoked := o.now
	o.apply(t, want)
	o.now++
	want.Grants[0].Scopes = []string{"events:read"}
	if got := summary(o.apply(t, want)); got != "changed grant grt_1 scopes ends 1" {
		t.Errorf("a change of a revoked grant: %s", got)
	}
	if got := summary(o.apply(t, onlyThe(tollgate.Config{Grants: []tollgate.Grant{{ID: "grt_1", Status: "revoked"}}}))); got != "" {
		t.Errorf("revoked again: %s", got)
	}
	if g := document[tollgate.Grant](t, o, "grt_1"); g.RevokedAt != revoked || g.ClientID != "cli_1" {
		t.Errorf("%+v, want it revoked at %s", g, revoked)
	}
}

// Two clients whose grants change places each name their own only.
func TestProvisionSwapsGrants(t *testing.T) {
	o, _ := newOrganization(t)
	o.apply(t, onlyThe(tollgate.Config{Grants: []tollgate.Grant{
		{ID: "grt_1", ClientID: "cli_2", Status: "active"}, {ID: "grt_3", ClientID: "cli_1", Status: "active"},
	}}))
	for id, want := range map[string]string{"cli_1": "grt_2 grt_3", "cli_2": "grt_1"} {
		if got := strings.Join(document[tollgate.Client](t, o, id).GrantIDs, " "); got != want {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}
}
