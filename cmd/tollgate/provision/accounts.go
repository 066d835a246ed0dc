package provision

import (
	"cmp"
	"fmt"
	"slices"

	"tollgate"
)

func (c *organizationCheck) merchantAccounts() {
	for i, f := range c.form.MerchantAccounts {
		at := fmt.Sprintf("%s.merchant_accounts[%d]", c.at, i)
		c.unique(at, f.ID)
		hours := 168
		if f.CaptureWindowHours != nil {
			hours = *f.CaptureWindowHours
		}
		a := tollgate.MerchantAccount{
			Object: "merchant_account", ID: f.ID, OrganizationID: c.form.ID, LegalEntityID: f.LegalEntityID, Name: f.Name,
			Status: active(f.Status), DefaultCurrency: tollgate.Currency(f.DefaultCurrency),
			Cutoff: tollgate.Cutoff{
				CutoffTime: cmp.Or(f.Cutoff.CutoffTime, "00:00"), TimeZone: cmp.Or(f.Cutoff.TimeZone, "UTC"),
				SettlementDelayDays: f.Cutoff.SettlementDelayDays, Calendar: cmp.Or(f.Cutoff.Calendar, "none"),
				Interval: cmp.Or(f.Cutoff.Interval, "daily"), Version: 1,
			},
			Perimeter:          tollgate.PerimeterRef{ID: f.Perimeter.ID, Version: f.Perimeter.Version},
			CaptureWindowHours: hours, Metadata: f.Metadata,
		}
		for j, code := range f.Currencies {
			currency := tollgate.Currency(code)
			if slices.Contains(a.Currencies, currency) {
				c.problems.addf(fmt.Sprintf("%s.currencies[%d]", at, j), "%q stands twice", code)
			}
			if _, err := tollgate.ParseCurrency(code); err != nil {
				c.problems.add(fmt.Sprintf("%s.currencies[%d]", at, j), err)
			}
			a.Currencies = append(a.Currencies, currency)
		}
		if !slices.ContainsFunc(c.form.LegalEntities, func(e legalEntityForm) bool { return e.ID == f.LegalEntityID }) {
			c.refer(at+".legal_entity_id", tollgate.PrefixLegalEntity, f.LegalEntityID, "%q is not a legal entity of this organization", f.LegalEntityID)
		}
		if !slices.ContainsFunc(c.form.Perimeters, func(p perimeterForm) bool { return p.ID == f.Perimeter.ID && p.Version == f.Perimeter.Version }) {
			version := fmt.Sprintf("%s@%d", f.Perimeter.ID, f.Perimeter.Version)
			c.refer(at+".perimeter", tollgate.PrefixPerimeter, version, "%s is not a perimeter of this organization", version)
		}
		found := slices.IndexFunc(c.config.RuleSets, func(r tollgate.RuleSet) bool { return r.ID == f.RuleSet.ID && r.Version == f.RuleSet.Version })
		if found < 0 {
			version := fmt.Sprintf("%s@%d", f.RuleSet.ID, f.RuleSet.Version)
			c.refer(at+".rule_set", tollgate.PrefixRuleSet, version, "%s is not a rule set of this organization", version)
			a.RuleSet = tollgate.RuleSet{ID: f.RuleSet.ID, Version: f.RuleSet.Version}
		} else {
			a.RuleSet = c.config.RuleSets[found]
		}
		// What has a place of its own in the file is checked with that place.
		bare := a
		bare.Currencies = slices.DeleteFunc(slices.Clone(a.Currencies), unknownCurrency)
		c.problems.add(at, checkMerchantAccount(&bare))
		c.problems.add(at+".cutoff", a.Cutoff.Check())
		if f.Cutoff.EffectiveDate != "" {
			date, err := tollgate.ParseDate(f.Cutoff.EffectiveDate)
			c.problems.add(at+".cutoff.effective_date", err)
			c.config.Effective[a.ID] = date
		}
		c.problems.add(at+".metadata", f.Metadata.Check())
		c.config.MerchantAccounts = append(c.config.MerchantAccounts, a)
	}
}

func unknownCurrency(c tollgate.Currency) bool {
	_, err := tollgate.ParseCurrency(string(c))
	return err != nil
}
