// Package sandbox is what every sandbox has, in a process or in a page: the
// demonstration organization, its webhook endpoint, and an embedded Redis.
package sandbox

import (
	"tollgate"
	"tollgate/handlers/auth"
)

// The demonstration's ids are the same on every Redis and after every start.
const (
	Organization  = "org_01kb7z2c000000000000000001"
	LegalEntity   = "le_01kb7z2c000000000000000002"
	AccountEUR    = "ma_01kb7z2c000000000000000003"
	AccountUSD    = "ma_01kb7z2c000000000000000004"
	Client        = "cli_01kb7z2c000000000000000005"
	Grant         = "grt_01kb7z2c000000000000000006"
	demoPerimeter = "per_01kb7z2c000000000000000007"
	RuleSet       = "rs_01kb7z2c000000000000000008"
	demoReviewing = "per_01kb7z2c000000000000000009" // the perimeter of the American account
	demoRefunding = "rs_01kb7z2c00000000000000000c"  // the rule set of the American account
	RuleSigner    = "sig_01kb7z2c00000000000000000b"
	Webhook       = "we_01kb7z2c00000000000000000a"
)

var (
	demoRules       = []tollgate.Citation{{Name: "card_fee", Version: 2}, {Name: "platform_fee", Version: 1}, {Name: "sandbox", Version: 1}}
	demoRefundRules = []tollgate.Citation{{Name: "card_fee", Version: 2}, {Name: "platform_fee", Version: 1}, {Name: "sandbox", Version: 2}}
)

// Config is the demonstration organization, whose client and pricing team have
// these public JWKs.
func Config(clientKey, ruleKey string) tollgate.Config {
	// Only one account's refunds cost a fee.
	ruleSet := tollgate.RuleSet{ID: RuleSet, Version: 1, Rules: demoRules}
	refunding := tollgate.RuleSet{ID: demoRefunding, Version: 1, Rules: demoRefundRules}
	account := func(id, name, perimeter string, rules tollgate.RuleSet, cutoff, zone, calendar string, currencies ...tollgate.Currency) tollgate.MerchantAccount {
		return tollgate.MerchantAccount{
			ID: id, LegalEntityID: LegalEntity, Name: name, Status: tollgate.StatusActive,
			Currencies: currencies, DefaultCurrency: currencies[0],
			Cutoff:             tollgate.Cutoff{CutoffTime: cutoff, TimeZone: zone, SettlementDelayDays: 2, Calendar: calendar, Interval: "daily", Version: 1},
			Perimeter:          tollgate.PerimeterRef{ID: perimeter, Version: 1},
			RuleSet:            rules,
			CaptureWindowHours: 168,
		}
	}
	usual := AccountEUR
	scopes := make([]string, 0, 16)
	for _, s := range auth.AllScopes() {
		scopes = append(scopes, string(s))
	}
	return tollgate.Config{
		Organization: tollgate.Organization{ID: Organization, Name: "Demonstration", Status: tollgate.StatusActive, HomeRegion: "local"},
		LegalEntities: []tollgate.LegalEntity{{
			ID: LegalEntity, LegalName: "Demonstration Trading GmbH", Country: "DE", Type: "company", Status: "verified",
		}},
		// Only one account asks for reviews: on the other, every amount goes through.
		Perimeters: []tollgate.PerimeterDocument{
			{ID: demoPerimeter, Version: 1, Constraints: []byte(`{"payees_blocked":["deny.test","*.deny.test"]}`)},
			{ID: demoReviewing, Version: 1, Constraints: []byte(`{"payees_blocked":["deny.test","*.deny.test"],"review_above":"1000.00"}`)},
		},
		RuleSets: []tollgate.RuleSet{ruleSet, refunding},
		MerchantAccounts: []tollgate.MerchantAccount{
			// One currency of every number of decimal places: JPY 0, EUR 2, BHD 3, CLF 4.
			account(AccountEUR, "Europe", demoPerimeter, ruleSet, "17:00", "Europe/Berlin", "target",
				"EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "CAD", "AUD", "NZD", "SGD", "MXN",
				"RON", "TRY", "ZAR", "INR", "BRL", "CNY", "HKD", "AED", "SAR", "ILS", "THB",
				"JPY", "KRW", "ISK", "CLP", "VND", "BHD", "KWD", "TND", "OMR", "JOD", "IQD", "CLF", "UYW"),
			account(AccountUSD, "North America", demoReviewing, refunding, "20:00", "America/New_York", "us_fed", "USD", "CAD", "MXN"),
		},
		Clients: []tollgate.Client{{
			ID: Client, Name: "Demonstration client", Status: tollgate.StatusActive, Keys: []string{clientKey}, GrantIDs: []string{Grant},
		}},
		RuleSigners: []tollgate.RuleSigner{{ID: RuleSigner, Name: "Demonstration pricing team", Status: tollgate.StatusActive, Keys: []string{ruleKey}}},
		Grants: []tollgate.Grant{{
			ID: Grant, ClientID: Client, Scopes: scopes, Status: tollgate.StatusActive, DefaultMerchantAccountID: &usual,
		}},
	}
}
