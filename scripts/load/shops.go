package main

import (
	"fmt"

	"tollgate"
	"tollgate/cmd/sandbox"
)

// perimeter is that of the marketplace's accounts.
const perimeter = "per_01kb7z2c000000000000001000"

// currency is how often an account is paid in one, and what an amount is there in
// euros' place.
type currency struct {
	code   tollgate.Currency
	weight float64
	scale  float64
}

// shop is a merchant account of the marketplace; weight is its part of the payments.
type shop struct {
	id, name                   string
	weight                     float64
	cutoff, zone, calendar, in string // in is the interval of its payouts
	currencies                 []currency
}

// shops are the merchant accounts, the demonstration's own two among them. Some
// currencies are rare: whoever looks for one of them has to pass all others.
func shops() []shop {
	list := []shop{
		{"", "Germany", 30, "17:00", "Europe/Berlin", "target", "daily", []currency{{"EUR", 1, 1}, {"CHF", 0.02, 1}}},
		{"", "France", 14, "18:00", "Europe/Paris", "target", "daily", []currency{{"EUR", 1, 1}}},
		{"", "United Kingdom", 12, "17:30", "Europe/London", "uk", "daily", []currency{{"GBP", 1, 0.9}, {"EUR", 0.1, 1}}},
		{"", "Nordics", 7, "16:00", "Europe/Stockholm", "none", "daily", []currency{{"SEK", 1, 11}, {"NOK", 0.5, 11}, {"DKK", 0.4, 7.5}, {"ISK", 0.001, 140}}},
		{"", "Poland", 5, "17:00", "Europe/Warsaw", "none", "daily", []currency{{"PLN", 1, 4.3}, {"CZK", 0.2, 25}, {"HUF", 0.1, 390}}},
		{"", "Switzerland", 4, "17:00", "Europe/Zurich", "none", "weekly", []currency{{"CHF", 1, 1}, {"EUR", 0.3, 1}}},
		{"", "Japan", 4, "19:00", "Asia/Tokyo", "none", "daily", []currency{{"JPY", 1, 160}}},
		{"", "Gulf", 2, "15:00", "Asia/Dubai", "none", "weekly", []currency{{"AED", 1, 4}, {"SAR", 0.5, 4}, {"KWD", 0.05, 0.3}, {"BHD", 0.02, 0.4}}},
		{"", "South America", 1, "18:00", "America/Santiago", "none", "monthly", []currency{{"CLP", 1, 950}, {"BRL", 0.5, 5.5}, {"CLF", 0.002, 0.02}, {"UYW", 0.0005, 0.01}}},
		{"", "Second hand", 1, "23:00", "Europe/Berlin", "target", "weekly", []currency{{"EUR", 1, 0.4}}},
		{sandbox.AccountEUR, "", 12, "", "", "", "", []currency{{"EUR", 1, 1}, {"USD", 0.1, 1.1}, {"NZD", 0.01, 1.9}, {"OMR", 0.0002, 0.4}}},
		{sandbox.AccountUSD, "", 8, "", "", "", "", []currency{{"USD", 1, 1.1}, {"CAD", 0.1, 1.5}, {"MXN", 0.02, 20}}},
	}
	for i := range list {
		if list[i].id == "" {
			list[i].id = fmt.Sprintf("ma_01kb7z2c%018d", 1001+i)
		}
	}
	return list
}

// config is what is added to the demonstration organization.
func config(list []shop) tollgate.Config {
	c := tollgate.Config{
		Organization: tollgate.Organization{ID: sandbox.Organization, Status: tollgate.StatusActive},
		Perimeters:   []tollgate.PerimeterDocument{{ID: perimeter, Version: 1, Constraints: []byte(`{"payees_blocked":["deny.test"]}`)}},
	}
	for _, s := range list {
		if s.name == "" { // it is there
			continue
		}
		a := tollgate.MerchantAccount{
			ID: s.id, LegalEntityID: sandbox.LegalEntity, Name: s.name, Status: tollgate.StatusActive,
			DefaultCurrency: s.currencies[0].code, CaptureWindowHours: 168,
			Cutoff:    tollgate.Cutoff{CutoffTime: s.cutoff, TimeZone: s.zone, SettlementDelayDays: 2, Calendar: s.calendar, Interval: s.in, Version: 1},
			Perimeter: tollgate.PerimeterRef{ID: perimeter, Version: 1},
			RuleSet:   tollgate.RuleSet{ID: sandbox.RuleSet, Version: 1},
		}
		for _, currency := range s.currencies {
			a.Currencies = append(a.Currencies, currency.code)
		}
		c.MerchantAccounts = append(c.MerchantAccounts, a)
	}
	return c
}
