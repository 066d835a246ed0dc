package provision

import (
	"fmt"
	"slices"
	"strings"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/rediskv/gcra"
)

func (c *organizationCheck) clients() {
	for i, f := range c.form.Clients {
		at := fmt.Sprintf("%s.clients[%d]", c.at, i)
		c.unique(at, f.ID)
		c.identifier(at, tollgate.PrefixClient, f.ID)
		c.oneOf(at, "status", active(f.Status), tollgate.StatusActive, "disabled")
		client := tollgate.Client{ID: f.ID, OrganizationID: c.form.ID, Name: f.Name, Status: active(f.Status), DPoPBound: f.DPoPBound}
		client.RateLimits = c.rateLimits(at, f.RateLimits)
		if f.Name == "" && len(f.Keys) == 0 && f.Status != "" { // as it is stored, but for its status
			c.refer(at, tollgate.PrefixClient, f.ID, "%q is not a client of this organization; a new one needs a name and keys", f.ID)
			if f.DPoPBound {
				c.problems.addf(at, "dpop_bound_access_tokens: give it beside name and keys")
			}
		} else {
			c.text(at, "name", f.Name)
			client.Keys = c.keys(at, "client", f.Keys)
		}
		for _, g := range c.form.Grants {
			if g.ClientID == f.ID {
				client.GrantIDs = append(client.GrantIDs, g.ID)
			}
		}
		c.config.Clients = append(c.config.Clients, client)
	}
}

// rateLimits reads the limits of a client or a grant, and prints them in one way.
func (c *organizationCheck) rateLimits(at, text string) string {
	limits, err := gcra.Parse(text)
	c.problems.add(at+".rate_limits", err)
	return limits.String()
}

// keys reads the public keys of a client or a rule signer.
func (c *organizationCheck) keys(at, kind string, list []any) (texts []string) {
	var keys [][]byte
	for j, key := range list {
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
		texts = append(texts, string(text))
	}
	if len(list) == 0 {
		c.problems.addf(at, "keys: a %s needs at least one public key (tollgate key new %s)", strings.ReplaceAll(kind, "-", " "), kind)
	} else if len(keys) == len(list) {
		_, err := auth.ParseClientKeys(keys) // together: no kid twice
		c.problems.add(at+".keys", err)
	}
	return texts
}

// ruleSigners are who may publish rules.
func (c *organizationCheck) ruleSigners() {
	for i, f := range c.form.RuleSigners {
		at := fmt.Sprintf("%s.rule_signers[%d]", c.at, i)
		c.unique(at, f.ID)
		c.identifier(at, tollgate.PrefixRuleSigner, f.ID)
		c.text(at, "name", f.Name)
		c.oneOf(at, "status", active(f.Status), tollgate.StatusActive, "disabled")
		c.config.RuleSigners = append(c.config.RuleSigners, tollgate.RuleSigner{
			ID: f.ID, OrganizationID: c.form.ID, Name: f.Name, Status: active(f.Status), Keys: c.keys(at, "rule-signer", f.Keys),
		})
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
			RateLimits: c.rateLimits(at, f.RateLimits),
			NotBefore:  c.instant(at+".not_before", f.NotBefore), ExpiresAt: c.instant(at+".expires_at", f.ExpiresAt),
		}
		if g.NotBefore != 0 && g.ExpiresAt != 0 && g.ExpiresAt <= g.NotBefore {
			c.problems.addf(at+".expires_at", "is not after not_before")
		}
		if f.ClientID == "" && len(f.Scopes) == 0 && f.Status == "revoked" { // as it is stored, but for its status
			c.refer(at, tollgate.PrefixGrant, f.ID, "%q is not a grant of this organization; a new one needs a client_id and scopes", f.ID)
			c.config.Grants = append(c.config.Grants, g)
			continue
		}
		if !slices.ContainsFunc(c.form.Clients, func(x clientForm) bool { return x.ID == f.ClientID }) {
			c.refer(at+".client_id", tollgate.PrefixClient, f.ClientID, "%q is not a client of this organization", f.ClientID)
		}
		if len(f.Scopes) == 0 {
			c.problems.addf(at, "scopes: a grant needs at least one of: %s", auth.AllScopes())
		}
		if _, err := auth.ScopesOf(f.Scopes); err != nil {
			c.problems.add(at+".scopes", err)
		}
		for j, id := range f.MerchantAccountIDs {
			if !slices.ContainsFunc(c.form.MerchantAccounts, func(a accountForm) bool { return a.ID == id }) {
				c.refer(fmt.Sprintf("%s.merchant_account_ids[%d]", at, j), tollgate.PrefixMerchantAccount, id, "%q is not a merchant account of this organization", id)
			}
		}
		if id := f.DefaultMerchantAccountID; id != "" {
			if !g.Covers(id) {
				c.problems.addf(at+".default_merchant_account_id", "%q is not a merchant account of this grant", id)
			} else if !slices.ContainsFunc(c.form.MerchantAccounts, func(a accountForm) bool { return a.ID == id }) {
				c.refer(at+".default_merchant_account_id", tollgate.PrefixMerchantAccount, id, "%q is not a merchant account of this organization", id)
			}
			g.DefaultMerchantAccountID = &id
		}
		c.config.Grants = append(c.config.Grants, g)
	}
}
