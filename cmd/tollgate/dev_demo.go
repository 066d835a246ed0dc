package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/rediskv/store"
)

// The demonstration's ids are the same on every Redis and after every start.
const (
	demoOrganization = "org_01kb7z2c000000000000000001"
	demoLegalEntity  = "le_01kb7z2c000000000000000002"
	demoAccountEUR   = "ma_01kb7z2c000000000000000003"
	demoAccountUSD   = "ma_01kb7z2c000000000000000004"
	demoClient       = "cli_01kb7z2c000000000000000005"
	demoGrant        = "grt_01kb7z2c000000000000000006"
	demoPerimeter    = "per_01kb7z2c000000000000000007"
	demoRuleSet      = "rs_01kb7z2c000000000000000008"
	demoReviewing    = "per_01kb7z2c000000000000000009" // the perimeter of the American account
	demoRefunding    = "rs_01kb7z2c00000000000000000c"  // the rule set of the American account
	demoRuleSigner   = "sig_01kb7z2c00000000000000000b"
	demoWebhook      = "we_01kb7z2c00000000000000000a"
)

// demo is the demonstration organization's client and the sandbox's secrets.
type demo struct {
	clientID   string
	clientKey  []byte // private JWK
	ruleKey    []byte // private JWK
	signingKey []byte // private JWK
	secretKey  []byte
}

// prepareDemo makes the demonstration organization where there is none. What
// is there is left as it is: somebody may have changed it on purpose.
func (a *app) prepareDemo(ctx context.Context, store *store.Store) (*demo, error) {
	d := &demo{clientID: demoClient}
	private, _, err := auth.GenerateClientKey(a.entropy, "ES256")
	if err != nil {
		return nil, err
	}
	team, _, err := auth.GenerateClientKey(a.entropy, "ES256")
	if err != nil {
		return nil, err
	}
	signing, err := auth.GenerateSigningKey(a.entropy)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := io.ReadFull(a.entropy, secret); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name      string
		candidate []byte
		kept      *[]byte
	}{
		{"client_key", private, &d.clientKey}, {"rule_key", team, &d.ruleKey}, {"signing_key", signing, &d.signingKey}, {"secret_key", secret, &d.secretKey},
	} {
		if *s.kept, err = store.OnceSecret(ctx, s.name, s.candidate); err != nil {
			return nil, fmt.Errorf("sandbox %s: %w", s.name, err)
		}
	}
	_, err = store.Client(ctx, demoClient)
	var e *tollgate.Error
	if err == nil {
		return d, nil
	} else if !errors.As(err, &e) || e.Code != tollgate.CodeNotFound {
		return nil, err
	}
	public, err := publicHalf(d.clientKey)
	if err != nil {
		return nil, fmt.Errorf("sandbox client key: %w", err)
	}
	teamPublic, err := publicHalf(d.ruleKey)
	if err != nil {
		return nil, fmt.Errorf("sandbox rule key: %w", err)
	}
	if _, err := applyConfig(ctx, store, demoConfig(public, teamPublic), nil, false); err != nil {
		return nil, fmt.Errorf("sandbox organization: %w", err)
	}
	return d, nil
}

// publicHalf is the public JWK of a private P-256 JWK (RFC 7518 §6.2).
func publicHalf(private []byte) (string, error) {
	var key map[string]any
	if err := json.Unmarshal(private, &key); err != nil {
		return "", err
	}
	delete(key, "d")
	text, err := json.Marshal(key, json.Deterministic(true))
	return string(text), err
}

func demoConfig(clientKey, ruleKey string) tollgate.Config {
	// Only one account's refunds cost a fee.
	ruleSet := tollgate.RuleSet{ID: demoRuleSet, Version: 1, Rules: demoRules}
	refunding := tollgate.RuleSet{ID: demoRefunding, Version: 1, Rules: demoRefundRules}
	account := func(id, name, perimeter string, rules tollgate.RuleSet, cutoff, zone, calendar string, currencies ...tollgate.Currency) tollgate.MerchantAccount {
		return tollgate.MerchantAccount{
			ID: id, LegalEntityID: demoLegalEntity, Name: name, Status: tollgate.StatusActive,
			Currencies: currencies, DefaultCurrency: currencies[0],
			Cutoff:             tollgate.Cutoff{CutoffTime: cutoff, TimeZone: zone, SettlementDelayDays: 2, Calendar: calendar, Interval: "daily", Version: 1},
			Perimeter:          tollgate.PerimeterRef{ID: perimeter, Version: 1},
			RuleSet:            rules,
			CaptureWindowHours: 168,
		}
	}
	usual := demoAccountEUR
	scopes := make([]string, 0, 16)
	for _, s := range auth.AllScopes() {
		scopes = append(scopes, string(s))
	}
	return tollgate.Config{
		Organization: tollgate.Organization{ID: demoOrganization, Name: "Demonstration", Status: tollgate.StatusActive, HomeRegion: "local"},
		LegalEntities: []tollgate.LegalEntity{{
			ID: demoLegalEntity, LegalName: "Demonstration Trading GmbH", Country: "DE", Type: "company", Status: "verified",
		}},
		// Only one account asks for reviews: on the other, every amount goes through.
		Perimeters: []tollgate.PerimeterDocument{
			{ID: demoPerimeter, Version: 1, Constraints: []byte(`{"payees_blocked":["deny.test","*.deny.test"]}`)},
			{ID: demoReviewing, Version: 1, Constraints: []byte(`{"payees_blocked":["deny.test","*.deny.test"],"review_above":"1000.00"}`)},
		},
		RuleSets: []tollgate.RuleSet{ruleSet, refunding},
		MerchantAccounts: []tollgate.MerchantAccount{
			// One currency of every number of decimal places: JPY 0, EUR 2, BHD 3, CLF 4.
			account(demoAccountEUR, "Europe", demoPerimeter, ruleSet, "17:00", "Europe/Berlin", "target",
				"EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "CAD", "AUD", "NZD", "SGD", "MXN",
				"RON", "TRY", "ZAR", "INR", "BRL", "CNY", "HKD", "AED", "SAR", "ILS", "THB",
				"JPY", "KRW", "ISK", "CLP", "VND", "BHD", "KWD", "TND", "OMR", "JOD", "IQD", "CLF", "UYW"),
			account(demoAccountUSD, "North America", demoReviewing, refunding, "20:00", "America/New_York", "us_fed", "USD", "CAD", "MXN"),
		},
		Clients: []tollgate.Client{{
			ID: demoClient, Name: "Demonstration client", Status: tollgate.StatusActive, Keys: []string{clientKey}, GrantIDs: []string{demoGrant},
		}},
		RuleSigners: []tollgate.RuleSigner{{ID: demoRuleSigner, Name: "Demonstration pricing team", Status: tollgate.StatusActive, Keys: []string{ruleKey}}},
		Grants: []tollgate.Grant{{
			ID: demoGrant, ClientID: demoClient, Scopes: scopes, Status: tollgate.StatusActive, DefaultMerchantAccountID: &usual,
		}},
	}
}

var (
	demoRules       = []tollgate.Citation{{Name: "card_fee", Version: 2}, {Name: "platform_fee", Version: 1}, {Name: "sandbox", Version: 1}}
	demoRefundRules = []tollgate.Citation{{Name: "card_fee", Version: 2}, {Name: "platform_fee", Version: 1}, {Name: "sandbox", Version: 2}}
)
