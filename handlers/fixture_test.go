package handlers_test

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/auth"
)

// newID makes an id and remembers it by name.
func (w *world) newID(prefix, name string) string {
	id := w.store.NewID(prefix)
	w.vars[name] = id
	return id
}

// accountForms are the merchant accounts of an organization. Perimeters and
// rule sets are their own; a limit that is not listed is none.
var accountForms = []struct {
	name, status, limits string
	currencies           []tollgate.Currency
	rules                []tollgate.Citation
}{
	{
		"eur", "active", `{"payees_blocked":["deny.test","*.blocked.test"],"review_above":"1000"}`,
		[]tollgate.Currency{"EUR", "USD", "JPY", "BHD", "CLF"},
		citing("card_fee@v2", "platform_fee@v1", "sandbox@v1"),
	},
	{"wide", "active", `{}`, allCurrencies(), citing("card_fee@v1", "cross_border@v2", "platform_fee@v1")},
	{"paused", "paused", `{}`, []tollgate.Currency{"EUR"}, citing("card_fee@v2")},
	{"closed", "closed", `{}`, []tollgate.Currency{"EUR"}, citing("card_fee@v2")},
	{
		"limited", "active", `{"currencies":["EUR"],"payees_allowed":["*.example"],"minimum_amount":"5","maximum_amount":"50.00"}`,
		[]tollgate.Currency{"EUR", "USD"},
		citing("platform_fee@v1"),
	},
	{"hours", "active", `{"schedule":{"time_zone":"Europe/Berlin","days":["mon","tue"],"from":"09:00","to":"17:00"}}`, []tollgate.Currency{"EUR"}, nil},
	{"future", "active", `{"velocity":[{"window":"day","amount":"1"}]}`, []tollgate.Currency{"EUR"}, citing("card_fee@v2")},
	{
		"budgeted", "active", `{"budgets":[{"window":"day","time_zone":"Europe/Berlin","currency":"EUR","amount":"100.00","per":"merchant_account"}],` +
			`"unbudgeted_currencies":"allow","frequency":[{"window":"day","count":2,"per":"payee"}],"review_above":"60.00"}`,
		[]tollgate.Currency{"EUR", "JPY"},
		citing("card_fee@v2"),
	},
	{
		"suppliers", "active", `{"payees_allowed":["*.suppliers.example","*@bank.example"],` +
			`"budgets":[{"window":"day","currency":"EUR","amount":"10.00","per":"payee"}]}`,
		[]tollgate.Currency{"EUR", "GBP"},
		nil,
	},
	{"nobody", "active", `{"payees_allowed":[]}`, []tollgate.Currency{"EUR"}, nil},
	{"gated", "active", `{"payees_blocked":["deny.test"]}`, []tollgate.Currency{"EUR", "KPW"}, citing("currency_gate@v1", "card_fee@v2")},
}

// rules reads citations without their first word, such as "card_fee@v2".
func citing(list ...string) (citations []tollgate.Citation) {
	for _, text := range list {
		c, err := tollgate.ParseCitation("rule:" + text)
		if err != nil {
			panic(err)
		}
		citations = append(citations, c)
	}
	return citations
}

func allCurrencies() []tollgate.Currency {
	list := tollgate.Currencies()
	slices.Sort(list)
	return list
}

type grantForm struct {
	name, client, status string
	accounts             []string
	usual                string // the default account
	scopes               string // empty: all
	from, to             time.Duration
}

// grantForms are the grants; each is the only one of a client of its name,
// except that the client shop has all, eur_only and elsewhere.
var grantForms = []grantForm{
	{name: "all", client: "shop"},
	{name: "eur_only", client: "shop", accounts: []string{"eur"}},
	{name: "elsewhere", client: "shop", accounts: []string{"limited"}},
	{name: "twin", client: "twin"},
	{name: "kiosk", client: "kiosk", accounts: []string{"limited"}},
	{name: "usual", client: "usual", accounts: []string{"eur", "wide"}, usual: "eur"},
	{name: "reader", client: "reader", scopes: "payments:read tickets:read"},
	{name: "brief", client: "brief", to: 5 * time.Minute},
	{name: "early", client: "early", from: time.Hour},
	{name: "revoked", client: "revoked", status: "revoked"},
}

// organization makes a configuration; its names begin with prefix.
func (w *world) organization(prefix string) *tollgate.Config {
	c := &tollgate.Config{Organization: tollgate.Organization{
		ID: w.newID(tollgate.PrefixOrganization, prefix+"org"), Name: "Example Trading", Status: "active", HomeRegion: "fra",
	}}
	le := w.newID(tollgate.PrefixLegalEntity, prefix+"entity")
	c.LegalEntities = []tollgate.LegalEntity{{ID: le, LegalName: "Example Trading GmbH", Country: "DE", Type: "company", Status: "verified"}}
	for _, f := range accountForms {
		per, rs := w.newID(tollgate.PrefixPerimeter, prefix+f.name+"_perimeter"), w.newID(tollgate.PrefixRuleSet, prefix+f.name+"_rules")
		c.Perimeters = append(c.Perimeters, tollgate.PerimeterDocument{ID: per, Version: 1, Constraints: jsontext.Value(f.limits)})
		c.RuleSets = append(c.RuleSets, tollgate.RuleSet{ID: rs, Version: 1, Rules: f.rules})
		c.MerchantAccounts = append(c.MerchantAccounts, tollgate.MerchantAccount{
			ID: w.newID(tollgate.PrefixMerchantAccount, prefix+f.name), LegalEntityID: le, Name: f.name, Status: f.status,
			Currencies: f.currencies, DefaultCurrency: f.currencies[0],
			Cutoff:    tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: 2, Calendar: "target", Interval: "daily"},
			Perimeter: tollgate.PerimeterRef{ID: per, Version: 1}, RuleSet: tollgate.RuleSet{ID: rs, Version: 1}, CaptureWindowHours: 168,
		})
	}
	clients := make(map[string]*tollgate.Client)
	for _, f := range grantForms {
		grant := tollgate.Grant{ID: w.newID(tollgate.PrefixGrant, prefix+"grant_"+f.name), Status: "active", Scopes: strings.Fields(f.scopes)}
		if f.status != "" {
			grant.Status = f.status
			grant.RevokedAt = tollgate.At(morning)
		}
		if f.scopes == "" {
			grant.Scopes = strings.Fields(auth.AllScopes().String())
		}
		for _, a := range f.accounts {
			grant.MerchantAccountIDs = append(grant.MerchantAccountIDs, w.vars[prefix+a])
		}
		if f.usual != "" {
			id := w.vars[prefix+f.usual]
			grant.DefaultMerchantAccountID = &id
		}
		if f.from != 0 {
			grant.NotBefore = tollgate.At(morning.Add(f.from))
		}
		if f.to != 0 {
			grant.ExpiresAt = tollgate.At(morning.Add(f.to))
		}
		client, ok := clients[f.client]
		if !ok {
			name := prefix + f.client
			private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
			w.private[name] = must(w.t, private, err)
			id := w.newID(tollgate.PrefixClient, prefix+"client_"+f.client)
			if f.client == "shop" { // whoever provisions a client may choose its id
				id += "_1"
				w.vars[prefix+"client_"+f.client] = id
			}
			client = &tollgate.Client{ID: id, Name: f.client, Status: "active", Keys: []string{string(public)}}
			clients[f.client] = client
		}
		grant.ClientID = client.ID
		client.GrantIDs = append(client.GrantIDs, grant.ID)
		c.Grants = append(c.Grants, grant)
	}
	for _, name := range []string{"team", "retired"} {
		private, public, err := auth.GenerateClientKey(rand.Reader, "ES256")
		w.private[prefix+name] = must(w.t, private, err)
		signer := tollgate.RuleSigner{ID: w.newID(tollgate.PrefixRuleSigner, prefix+name), Name: name, Status: "active", Keys: []string{string(public)}}
		if name == "retired" {
			signer.Status = "disabled"
		}
		c.RuleSigners = append(c.RuleSigners, signer)
	}
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c.Clients = append(c.Clients, *clients[name])
	}
	return c
}

// account is an account in the configuration, to be changed and applied.
func (w *world) account(name string) *tollgate.MerchantAccount {
	c := w.configs[""]
	i := slices.IndexFunc(c.MerchantAccounts, func(a tollgate.MerchantAccount) bool { return a.ID == w.vars[name] })
	return &c.MerchantAccounts[i]
}

// grant is a grant in the configuration, to be changed and applied.
func (w *world) grant(name string) *tollgate.Grant {
	c := w.configs[""]
	i := slices.IndexFunc(c.Grants, func(g tollgate.Grant) bool { return g.ID == w.vars["grant_"+name] })
	return &c.Grants[i]
}
