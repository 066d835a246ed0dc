package rediskv_test

import (
	"slices"
	"sync"
	"testing"

	"tollgate"
)

// Files that add to what is stored, all at once: each looks again when another
// has changed what it refers to, so none loses what another has added. A file
// that names a client and none of its grants leaves it those.
func TestProvisioningOnTopOfWhatIsStored(t *testing.T) {
	f := newFixture(t)
	var g sync.WaitGroup
	made := make([]string, 6)
	for n := range made {
		grant := f.Config.Grants[0]
		grant.ID, grant.MerchantAccountIDs = f.NewID(tollgate.PrefixGrant), []string{f.Config.MerchantAccounts[1].ID}
		made[n] = grant.ID
		account := f.Config.MerchantAccounts[0]
		account.ID = f.NewID(tollgate.PrefixMerchantAccount)
		part := tollgate.Config{
			Organization: tollgate.Organization{ID: f.Caller.Organization},
			Grants:       []tollgate.Grant{grant}, MerchantAccounts: []tollgate.MerchantAccount{account},
		}
		g.Go(func() {
			if _, err := f.ApplyConfig(t.Context(), part, false); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	renamed := f.Config.Clients[0]
	renamed.Name, renamed.GrantIDs = "shop 2", nil
	if _, err := f.ApplyConfig(t.Context(), tollgate.Config{Organization: tollgate.Organization{ID: f.Caller.Organization}, Clients: []tollgate.Client{renamed}}, false); err != nil {
		t.Fatal(err)
	}
	f.Refresh(f.Caller.Organization)
	c, err := f.Client(t.Context(), f.Config.Clients[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	o, err := f.Organization(t.Context(), f.Caller.Organization)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range made {
		if !slices.Contains(c.GrantIDs, id) {
			t.Errorf("the client lacks %s", id)
		}
	}
	if c.Name != "shop 2" || o.Name != "Test" || len(o.AccountIDs) != 2+len(made) {
		t.Errorf("%+v %+v", c, o)
	}
	listed := rawClient(t, f.URL).HLen(t.Context(), scanKeys(t, rawClient(t, f.URL), "*"+f.Caller.Organization+":grants")[0]).Val()
	if listed != int64(len(c.GrantIDs))+1 {
		t.Errorf("%d listed, the client has %d", listed-1, len(c.GrantIDs))
	}
	for what, part := range map[string]tollgate.Config{
		"client":         {Grants: []tollgate.Grant{{ID: "grt_x", ClientID: "cli_none", Scopes: []string{"a"}, Status: "active"}}},
		"legal entity":   {MerchantAccounts: []tollgate.MerchantAccount{{ID: "ma_x", LegalEntityID: "le_none"}}},
		"stored client":  {Clients: []tollgate.Client{{ID: "cli_none", Status: "disabled"}}},
		"grant":          {Grants: []tollgate.Grant{{ID: "grt_none", Status: "revoked"}}},
		"account":        {Grants: []tollgate.Grant{{ID: "grt_x", ClientID: c.ID, MerchantAccountIDs: []string{"ma_none"}, Status: "active"}}},
		"no such tenant": {Organization: tollgate.Organization{ID: "org_none"}},
	} {
		if part.Organization.ID == "" {
			part.Organization.ID = f.Caller.Organization
		}
		if changes, err := f.ApplyConfig(t.Context(), part, false); err == nil {
			t.Errorf("unknown %s: %+v", what, changes)
		}
	}
}
