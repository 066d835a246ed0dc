package tollgate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// accessOf is what a caller does under a grant, on what is stored.
func accessOf(t *testing.T, by tollgate.Grant, clients []tollgate.Client, grants []tollgate.Grant) *tollgate.Access {
	t.Helper()
	f := tollgate.NewConfigFacts()
	store := func(id string, revision int64, doc any) {
		text, err := json.Marshal(doc, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		f.Objects[id] = tollgate.StoredObject{Revision: revision, Document: text}
	}
	store("org_1", 1, tollgate.Organization{Object: "organization", ID: "org_1", Status: "active", Name: "Test", HomeRegion: "fra", CreatedAt: testOrigin.At, UpdatedAt: testOrigin.At})
	for _, id := range []string{"ma_1", "ma_2"} {
		store(id, 1, tollgate.MerchantAccount{ID: id})
	}
	f.Grants, f.Clients = &tollgate.GrantList{Clients: map[string]string{}, Revision: 7}, []string{"all"}
	for i, g := range grants {
		for c := range clients {
			if clients[c].ID == g.ClientID && !slices.Contains(clients[c].GrantIDs, g.ID) {
				clients[c].GrantIDs = append(clients[c].GrantIDs, g.ID)
			}
		}
		f.Grants.Clients[g.ID] = g.ClientID
		store(g.ID, int64(10+i), g)
	}
	for i, c := range clients {
		f.Clients, f.Owners[c.ID] = append(f.Clients, c.ID), "org_1"
		store(c.ID, int64(100+i), c)
	}
	return &tollgate.Access{NewID: testMint, Origin: testOrigin, By: by, Facts: f}
}

const admin = "access:write"

func grantOf(id, client string, scopes string, accounts ...string) tollgate.Grant {
	return tollgate.Grant{ID: id, ClientID: client, Scopes: strings.Fields(scopes), MerchantAccountIDs: accounts, Status: "active"}
}

func clientOf(id string, keys ...string) tollgate.Client {
	return tollgate.Client{ID: id, OrganizationID: "org_1", Name: id, Status: "active", Keys: keys}
}

// refusal is the code and the parameter of an error.
func refusal(err error) string {
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		return strings.TrimSpace(string(e.Code) + " " + e.Param)
	}
	return fmt.Sprint(err)
}

// TestNeverWider takes a grant that is made or revoked through all in which it can
// allow more than the caller's.
func TestNeverWider(t *testing.T) {
	now := testOrigin.At
	by := grantOf("grt_by", "cli_by", admin+" quotes:read payments:write", "ma_1")
	by.NotBefore, by.ExpiresAt = now-1000, now+1000
	for name, c := range map[string]struct {
		change func(*tollgate.Grant)
		create string
		revoke string
	}{
		"the same":                 {func(*tollgate.Grant) {}, "<nil>", "<nil>"},
		"less":                     {func(g *tollgate.Grant) { g.Scopes, g.ExpiresAt, g.NotBefore = g.Scopes[:1], now+1, now }, "<nil>", "<nil>"},
		"another scope":            {func(g *tollgate.Grant) { g.Scopes = append(g.Scopes, "payments:read") }, "scope_missing scopes", "scope_missing scopes"},
		"another account":          {func(g *tollgate.Grant) { g.MerchantAccountIDs = []string{"ma_1", "ma_2"} }, "scope_missing merchant_account_ids", "scope_missing merchant_account_ids"},
		"all accounts":             {func(g *tollgate.Grant) { g.MerchantAccountIDs = nil }, "scope_missing merchant_account_ids", "scope_missing merchant_account_ids"},
		"a later end":              {func(g *tollgate.Grant) { g.ExpiresAt++ }, "scope_missing expires_at", "scope_missing expires_at"},
		"no end":                   {func(g *tollgate.Grant) { g.ExpiresAt = 0 }, "scope_missing expires_at", "scope_missing expires_at"},
		"an earlier beginning":     {func(g *tollgate.Grant) { g.NotBefore-- }, "scope_missing not_before", "<nil>"}, // what has been is past
		"from now on":              {func(g *tollgate.Grant) { g.NotBefore = 0 }, "<nil>", "<nil>"},
		"over when it begins":      {func(g *tollgate.Grant) { g.ExpiresAt = now }, "parameter_invalid expires_at", "<nil>"},
		"an account that is none":  {func(g *tollgate.Grant) { g.MerchantAccountIDs = []string{"cli_by"} }, "scope_missing merchant_account_ids", "scope_missing merchant_account_ids"},
		"a default beyond its own": {func(g *tollgate.Grant) { g.DefaultMerchantAccountID = new("ma_2") }, "parameter_invalid default_merchant_account_id", "<nil>"},
	} {
		g := grantOf("grt_1", "cli_1", strings.Join(by.Scopes, " "), by.MerchantAccountIDs...)
		g.NotBefore, g.ExpiresAt = by.NotBefore, by.ExpiresAt
		c.change(&g)
		stored := []tollgate.Client{clientOf("cli_by", "k"), clientOf("cli_1", "k")}
		if _, err := accessOf(t, by, stored, []tollgate.Grant{by}).CreateGrant(g); refusal(err) != c.create {
			t.Errorf("%s: making it is %s", name, refusal(err))
		}
		if _, err := accessOf(t, by, stored, []tollgate.Grant{by, g}).RevokeGrant("grt_1"); refusal(err) != c.revoke {
			t.Errorf("%s: revoking it is %s", name, refusal(err))
		}
		// A client with such a grant is changed by nobody who could not give it.
		for what, change := range map[string]func(*tollgate.Client) error{
			"a key":     func(o *tollgate.Client) error { o.Keys = append(slices.Clone(o.Keys), "k2"); return nil },
			"no key":    func(o *tollgate.Client) error { o.Keys = nil; return nil },
			"disabling": func(o *tollgate.Client) error { o.Status = "disabled"; return nil },
			"a name":    func(o *tollgate.Client) error { o.Name = "new"; return nil },
		} {
			p, err := accessOf(t, by, stored, []tollgate.Grant{by, g}).ChangeClient("cli_1", "k2", tollgate.ClientUpdated, "client.update", change)
			if want := strings.Fields(c.revoke)[0]; refusal(err) != want {
				t.Errorf("%s: %s is %s", name, what, refusal(err))
			} else if err == nil && g.ExpiresAt > now && (p.Compared["grt_1"] != 11 || p.Grants.Revision != 7) {
				t.Errorf("%s: %s is not compared with the grant", name, what)
			}
		}
	}
}

// TestKeyOfAClientWhoseGrantsAreOver: only what allows something from now on counts.
func TestKeyOfAClientWhoseGrantsAreOver(t *testing.T) {
	by := grantOf("grt_by", "cli_by", admin, "ma_1")
	for name, change := range map[string]func(*tollgate.Grant){
		"revoked": func(g *tollgate.Grant) { g.Status = "revoked" },
		"over":    func(g *tollgate.Grant) { g.ExpiresAt = testOrigin.At },
		"to come": func(g *tollgate.Grant) { g.NotBefore = testOrigin.At + 1 },
	} {
		g := grantOf("grt_1", "cli_1", "rules:write")
		change(&g)
		_, err := accessOf(t, by, []tollgate.Client{clientOf("cli_by", "k"), clientOf("cli_1")}, []tollgate.Grant{by, g}).ChangeClient("cli_1", "k", tollgate.KeyRotated, "key.add",
			func(o *tollgate.Client) error { o.Keys = []string{"k"}; return nil })
		if (err == nil) != (name != "to come") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLastAdministrator: whoever could still manage access must be able to get a
// token for it, and is compared when the change is committed.
func TestLastAdministrator(t *testing.T) {
	by := grantOf("grt_by", "cli_by", admin)
	for name, c := range map[string]struct {
		other  func(*tollgate.Client, *tollgate.Grant)
		stands bool
	}{
		"another":                     {func(*tollgate.Client, *tollgate.Grant) {}, true},
		"without the scope":           {func(_ *tollgate.Client, g *tollgate.Grant) { g.Scopes = []string{"access:read"} }, false},
		"revoked":                     {func(_ *tollgate.Client, g *tollgate.Grant) { g.Status = "revoked" }, false},
		"not begun":                   {func(_ *tollgate.Client, g *tollgate.Grant) { g.NotBefore = testOrigin.At + 1 }, false},
		"over":                        {func(_ *tollgate.Client, g *tollgate.Grant) { g.ExpiresAt = testOrigin.At }, false},
		"of a disabled client":        {func(o *tollgate.Client, _ *tollgate.Grant) { o.Status = "disabled" }, false},
		"of a client without a key":   {func(o *tollgate.Client, _ *tollgate.Grant) { o.Keys = nil }, false},
		"of the client that changes":  {func(_ *tollgate.Client, g *tollgate.Grant) { g.ClientID = "cli_by" }, false},
		"of some merchant accounts":   {func(_ *tollgate.Client, g *tollgate.Grant) { g.MerchantAccountIDs = []string{"ma_1"} }, true},
		"and a third without the key": {func(o *tollgate.Client, _ *tollgate.Grant) { o.Name = "x" }, true},
	} {
		other, g := clientOf("cli_2", "k"), grantOf("grt_2", "cli_2", admin)
		c.other(&other, &g)
		stored := func() *tollgate.Access {
			return accessOf(t, by, []tollgate.Client{clientOf("cli_by", "k"), other}, []tollgate.Grant{by, g})
		}
		want := "<nil>"
		if !c.stands {
			want = "grant_state_invalid"
		}
		compared := func(what string, p *tollgate.Provisioning, err error) {
			t.Helper()
			if refusal(err) != want {
				t.Errorf("%s: %s is %s", name, what, refusal(err))
			} else if err == nil && (p.Compared["grt_2"] != 11 || p.Compared["cli_2"] != 101) {
				t.Errorf("%s: %s compares %v", name, what, p.Compared)
			}
		}
		for what, change := range map[string]func(*tollgate.Client) error{
			"disabling": func(o *tollgate.Client) error { o.Status = "disabled"; return nil },
			"no key":    func(o *tollgate.Client) error { o.Keys = nil; return nil },
		} {
			p, err := stored().ChangeClient("cli_by", "k", tollgate.KeyRevoked, "key.remove", change)
			compared(what, p, err)
		}
		if g.ClientID == "cli_2" { // else it is the other grant that remains
			p, err := stored().RevokeGrant("grt_by")
			compared("revoking", p, err)
		}
	}
	// Who takes nobody's access away needs no other administrator.
	plain := grantOf("grt_3", "cli_3", "quotes:read")
	alone := accessOf(t, by, []tollgate.Client{clientOf("cli_by", "k"), clientOf("cli_3", "k")}, []tollgate.Grant{by, {ID: plain.ID, ClientID: plain.ClientID, Status: "active"}})
	if _, err := alone.RevokeGrant("grt_3"); err != nil {
		t.Error(err)
	}
}

// TestAccessTells: one event and one entry for each change, and whose tokens end.
func TestAccessTells(t *testing.T) {
	by := grantOf("grt_by", "cli_by", admin+" quotes:read")
	g := grantOf("grt_1", "cli_1", "quotes:read")
	change := func(kid string, event tollgate.EventType, entry string, do func(*tollgate.Client)) func(*tollgate.Access) (*tollgate.Provisioning, error) {
		return func(a *tollgate.Access) (*tollgate.Provisioning, error) {
			return a.ChangeClient("cli_1", kid, event, entry, func(o *tollgate.Client) error { do(o); return nil })
		}
	}
	for name, c := range map[string]struct {
		do          func(*tollgate.Access) (*tollgate.Provisioning, error)
		event, data string
		entry       string
		raised      string
	}{
		"a new client": {
			func(a *tollgate.Access) (*tollgate.Provisioning, error) {
				return a.CreateClient(tollgate.Client{ID: "cli_new", Name: "New", Status: "active"})
			}, "client.created", `{"client_id":"cli_new","revision":1,"changed":[],"name":"New","status":"active"}`, "client.create client cli_new", "[]",
		},
		"a name":     {change("", tollgate.ClientUpdated, "client.update", func(o *tollgate.Client) { o.Name = "New" }), "client.updated", `"changed":["name"]`, "client.update client cli_1", "[]"},
		"disabled":   {change("", tollgate.ClientUpdated, "client.update", func(o *tollgate.Client) { o.Status = "disabled" }), "client.disabled", `"status":"disabled"`, "client.disable client cli_1", "[grt_1]"},
		"a key":      {change("k2", tollgate.KeyRotated, "key.add", func(o *tollgate.Client) { o.Keys = append(o.Keys, "k2") }), "key.rotated", `"kid":"k2"`, "key.add client cli_1", "[]"},
		"a key less": {change("k", tollgate.KeyRevoked, "key.remove", func(o *tollgate.Client) { o.Keys = nil }), "key.revoked", `"kid":"k"`, "key.remove client cli_1", "[grt_1]"},
		"nothing":    {change("", tollgate.ClientUpdated, "client.update", func(*tollgate.Client) {}), "", "", "", "[]"},
		"a new grant": {func(a *tollgate.Access) (*tollgate.Provisioning, error) {
			return a.CreateGrant(grantOf("grt_2", "cli_1", "quotes:read"))
		}, "grant.created", `"grant_id":"grt_2"`, "grant.create grant grt_2", "[]"},
		"a revoked grant": { // its own change ends its tokens
			func(a *tollgate.Access) (*tollgate.Provisioning, error) { return a.RevokeGrant("grt_1") }, "grant.revoked", `"status":"revoked"`, "grant.revoke grant grt_1", "[]",
		},
	} {
		p, err := c.do(accessOf(t, by, []tollgate.Client{clientOf("cli_by", "k"), clientOf("cli_1", "k")}, []tollgate.Grant{by, g}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.event == "" {
			if len(p.Changes) > 0 || len(p.Events) > 0 {
				t.Errorf("%s: %+v", name, p)
			}
			continue
		}
		if len(p.Events) != 1 || string(p.Events[0].Type) != c.event || !strings.Contains(string(p.Events[0].Data), c.data) {
			t.Errorf("%s: %+v", name, p.Events)
		}
		if e := p.Audit; len(e) != 1 || e[0].Type+" "+e[0].Target.Type+" "+e[0].Target.ID != c.entry {
			t.Errorf("%s: %+v", name, e)
		}
		if got := fmt.Sprint(p.Raised); got != c.raised {
			t.Errorf("%s ends the tokens of %s", name, got)
		}
	}
}

func TestAccessQuotas(t *testing.T) {
	by := grantOf("grt_by", "cli_by", admin)
	a := accessOf(t, by, []tollgate.Client{clientOf("cli_by", "k")}, []tollgate.Grant{by})
	for n := range tollgate.MaxClients {
		a.Facts.Clients = append(a.Facts.Clients[:n+1], "cli")
		_, err := a.CreateClient(tollgate.Client{ID: "cli_new", Name: "New", Status: "active"})
		if last := n+1 == tollgate.MaxClients; (refusal(err) == "quota_exceeded clients") != last {
			t.Fatalf("%d clients: %v", n+1, err)
		}
	}
	for n := 1; n <= tollgate.MaxGrants; n++ {
		if n == tollgate.MaxGrants || n == tollgate.MaxGrants-1 {
			_, err := a.CreateGrant(grantOf("grt_new", "cli_by", admin))
			if last := n == tollgate.MaxGrants; (refusal(err) == "quota_exceeded grants") != last {
				t.Fatalf("%d grants: %v", n, err)
			}
		}
		a.Facts.Grants.Clients[fmt.Sprint("grt_", n)] = "cli_by"
	}
	var keys []string
	for n := range tollgate.MaxClientKeys + 1 {
		o := clientOf("cli_1", keys...)
		_, err := accessOf(t, by, []tollgate.Client{clientOf("cli_by", "k"), o}, []tollgate.Grant{by}).ChangeClient("cli_1", "k", tollgate.KeyRotated, "key.add",
			func(o *tollgate.Client) error { o.Keys = append(o.Keys, "new"); return nil })
		if last := n == tollgate.MaxClientKeys; (refusal(err) == "quota_exceeded keys") != last {
			t.Fatalf("%d keys: %v", n, err)
		}
		keys = append(keys, fmt.Sprint("k", n))
	}
}
