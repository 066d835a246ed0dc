package main

import (
	"fmt"
	"slices"

	"tollgate"
	"tollgate/handlers/auth"
)

func (c *organizationCheck) clients() {
	for i, f := range c.form.Clients {
		at := fmt.Sprintf("%s.clients[%d]", c.at, i)
		c.unique(at, f.ID)
		c.identifier(at, tollgate.PrefixClient, f.ID)
		c.text(at, "name", f.Name)
		c.oneOf(at, "status", active(f.Status), tollgate.StatusActive, "disabled")
		client := tollgate.Client{ID: f.ID, OrganizationID: c.form.ID, Name: f.Name, Status: active(f.Status)}
		var keys [][]byte
		for j, key := range f.Keys {
			text, err := toJSON(key)
			if err != nil {
				c.problems.add(fmt.Sprintf("%s.keys[%d]", at, j), err)
				continue
			}
			if _, err := auth.ParseClientKeys([][]byte{text}); err != nil {
				c.problems.add(fmt.Sprintf("%s.keys[%d]", at, j), err)
				continue
			}
			keys = append(keys, text)
			client.Keys = append(client.Keys, string(text))
		}
		if len(f.Keys) == 0 {
			c.problems.addf(at, "keys: a client needs at least one public key (tollgate key new client)")
		} else if len(keys) == len(f.Keys) {
			_, err := auth.ParseClientKeys(keys) // together: no kid twice
			c.problems.add(at+".keys", err)
		}
		for _, g := range c.form.Grants {
			if g.ClientID == f.ID {
				client.GrantIDs = append(client.GrantIDs, g.ID)
			}
		}
		c.config.Clients = append(c.config.Clients, client)
	}
}

func (c *organizationCheck) grants() {
	for i, f := range c.form.Grants {
		at := fmt.Sprintf("%s.grants[%d]", c.at, i)
		c.unique(at, f.ID)
		c.identifier(at, tollgate.PrefixGrant, f.ID)
		c.oneOf(at, "status", active(f.Status), tollgate.StatusActive, "revoked")
		g := tollgate.Grant{
			Object: "grant", ID: f.ID, OrganizationID: c.form.ID, ClientID: f.ClientID, Scopes: f.Scopes,
			MerchantAccountIDs: f.MerchantAccountIDs, Status: active(f.Status),
			NotBefore: c.instant(at+".not_before", f.NotBefore), ExpiresAt: c.instant(at+".expires_at", f.ExpiresAt),
		}
		if g.NotBefore != 0 && g.ExpiresAt != 0 && g.ExpiresAt <= g.NotBefore {
			c.problems.addf(at+".expires_at", "is not after not_before")
		}
		if !slices.ContainsFunc(c.form.Clients, func(x clientForm) bool { return x.ID == f.ClientID }) {
			c.problems.addf(at+".client_id", "%q is not a client of this organization", f.ClientID)
		}
		if len(f.Scopes) == 0 {
			c.problems.addf(at, "scopes: a grant needs at least one of: %s", auth.AllScopes())
		}
		if _, err := auth.ScopesOf(f.Scopes); err != nil {
			c.problems.add(at+".scopes", err)
		}
		for j, id := range f.MerchantAccountIDs {
			if !slices.ContainsFunc(c.form.MerchantAccounts, func(a accountForm) bool { return a.ID == id }) {
				c.problems.addf(fmt.Sprintf("%s.merchant_account_ids[%d]", at, j), "%q is not a merchant account of this organization", id)
			}
		}
		c.config.Grants = append(c.config.Grants, g)
	}
}
