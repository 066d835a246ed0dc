package provision

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/text/language"

	"tollgate"
)

// isCountry knows the assigned codes of ISO 3166-1 alpha-2 in upper case.
func isCountry(code string) bool {
	region, err := language.ParseRegion(code)
	return err == nil && len(code) == 2 && region.String() == code && region.Canonicalize() == region && region.IsCountry()
}

// checkOrganization reports everything that is wrong with an organization's own fields.
func checkOrganization(o *tollgate.Organization) error {
	return errors.Join(
		checkID(tollgate.PrefixOrganization, o.ID), required("name", o.Name, 255), required("home_region", o.HomeRegion, 64),
		oneOf("status", o.Status, "active", "suspended", "closed"))
}

// checkLegalEntity reports everything that is wrong with a legal entity's own fields.
func checkLegalEntity(l *tollgate.LegalEntity) error {
	var place error
	if !isCountry(l.Country) {
		place = fmt.Errorf("country: %q is not an ISO 3166-1 alpha-2 code", l.Country)
	}
	return errors.Join(place,
		checkID(tollgate.PrefixLegalEntity, l.ID), required("legal_name", l.LegalName, 255),
		oneOf("type", l.Type, "company", "individual", "nonprofit"),
		oneOf("status", l.Status, "unverified", "pending", "verified", "rejected", "suspended"))
}

// checkMerchantAccount is the same of an account. Its cutoff, like all metadata, has a
// place of its own in the file and is checked there.
func checkMerchantAccount(m *tollgate.MerchantAccount) error {
	faults := []error{
		checkID(tollgate.PrefixMerchantAccount, m.ID), required("name", m.Name, 255),
		oneOf("status", m.Status, tollgate.StatusActive, "paused", tollgate.StatusClosed),
	}
	for _, c := range m.Currencies {
		_, err := tollgate.ParseCurrency(string(c))
		faults = append(faults, err)
	}
	if !slices.Contains(m.Currencies, m.DefaultCurrency) {
		faults = append(faults, fmt.Errorf("default_currency: %q is not one of the account's currencies", string(m.DefaultCurrency)))
	}
	if m.CaptureWindowHours < 1 || m.CaptureWindowHours > 24*365 {
		faults = append(faults, fmt.Errorf("capture_window_hours: %d is not between 1 and 8760", m.CaptureWindowHours))
	}
	return errors.Join(faults...)
}

func checkID(prefix, id string) error {
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix || !tollgate.ValidID(id) {
		return fmt.Errorf("id: %q is not an identifier of the form %s…", id, prefix)
	}
	return nil
}

func required(name, value string, max int) error {
	if value == "" {
		return fmt.Errorf("%s is missing", name)
	}
	return tollgate.CheckText(name, value, max)
}

func oneOf(name, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s: %q is not one of %v", name, value, allowed)
	}
	return nil
}
