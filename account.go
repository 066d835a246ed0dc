package tollgate

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/text/language"
)

// Organization owns everything below it and lives in one partition.
type Organization struct {
	Object     string   `json:"object"` // "organization"
	ID         string   `json:"id"`
	CreatedAt  Instant  `json:"created_at"`
	Name       string   `json:"name"`
	Status     string   `json:"status"` // active, suspended or closed
	HomeRegion string   `json:"home_region"`
	Metadata   Metadata `json:"metadata"`
	UpdatedAt  Instant  `json:"updated_at"`
}

// LegalEntity is a company or person of an organization.
type LegalEntity struct {
	Object             string   `json:"object"` // "legal_entity"
	ID                 string   `json:"id"`
	CreatedAt          Instant  `json:"created_at"`
	OrganizationID     string   `json:"organization_id"`
	LegalName          string   `json:"legal_name"`
	Country            string   `json:"country"` // ISO 3166-1 alpha-2
	RegistrationNumber *string  `json:"registration_number"`
	TaxID              *string  `json:"tax_id"`
	Type               string   `json:"type"`   // company, individual or nonprofit
	Status             string   `json:"status"` // unverified, pending, verified, rejected or suspended
	Metadata           Metadata `json:"metadata"`
	UpdatedAt          Instant  `json:"updated_at"`
}

// MerchantAccount is where a payment is made.
type MerchantAccount struct {
	Object             string       `json:"object"` // "merchant_account"
	ID                 string       `json:"id"`
	CreatedAt          Instant      `json:"created_at"`
	OrganizationID     string       `json:"organization_id"`
	LegalEntityID      string       `json:"legal_entity_id"`
	Name               string       `json:"name"`
	Status             string       `json:"status"` // active, paused or closed
	Currencies         []Currency   `json:"currencies"`
	DefaultCurrency    Currency     `json:"default_currency"`
	Cutoff             Cutoff       `json:"cutoff"`
	Perimeter          PerimeterRef `json:"perimeter"`
	RuleSet            RuleSet      `json:"rule_set"`
	CaptureWindowHours int          `json:"capture_window_hours"`
	Metadata           Metadata     `json:"metadata"`
	UpdatedAt          Instant      `json:"updated_at"`
}

// AccountAnswer is a merchant account as the service answers it.
type AccountAnswer struct {
	MerchantAccount
	SilentRules []SilentRule `json:"silent_rules"` // of those in force
}

// SilentRule is a rule that charges nothing in currencies of an account, and does
// not say that this is meant: they are free without anybody having decided so.
type SilentRule struct {
	Rule       Citation   `json:"rule"`
	Currencies []Currency `json:"currencies"`
}

// PerimeterRef points at one version of a perimeter.
type PerimeterRef struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
}

// RuleSetRef points at one version of a rule set.
type RuleSetRef struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
}

// RuleSet is an ordered list of rules, immutable per version.
type RuleSet struct {
	ID      string     `json:"id"`
	Version int64      `json:"version"`
	Rules   []Citation `json:"rules"`
}

// Grant gives a client scopes over an organization's accounts.
type Grant struct {
	Object             string   `json:"object"` // "grant"
	ID                 string   `json:"id"`
	CreatedAt          Instant  `json:"created_at"`
	OrganizationID     string   `json:"organization_id"`
	ClientID           string   `json:"client_id"`
	Scopes             []string `json:"scopes"`
	MerchantAccountIDs []string `json:"merchant_account_ids"` // empty: all of the organization
	// DefaultMerchantAccountID is one of them: that of quotes and payments that
	// name none.
	DefaultMerchantAccountID *string `json:"default_merchant_account_id"`

	Status    string  `json:"status"` // active, revoked or expired
	NotBefore Instant `json:"not_before"`
	ExpiresAt Instant `json:"expires_at"`
	RevokedAt Instant `json:"revoked_at"`
}

// Client is who signs assertions. It is provisioned and has no resource of
// its own in the interface.
type Client struct {
	ID             string   `json:"id"`
	OrganizationID string   `json:"organization_id"`
	Name           string   `json:"name"`
	Status         string   `json:"status"`    // active or disabled
	Keys           []string `json:"keys"`      // public JWKs, one JSON text each
	GrantIDs       []string `json:"grant_ids"` // the client's grants, in the order of the provisioning file
}

// StatusActive is the status in which organizations, accounts, clients and
// grants can be used.
const StatusActive = "active"

// StatusClosed is that of an account with which nothing begins any more.
const StatusClosed = "closed"

// At reports the status of a grant at a moment: an active one outside its
// dates is expired.
func (g *Grant) At(now Instant) string {
	if g.Status == StatusActive && ((g.NotBefore != 0 && now < g.NotBefore) || (g.ExpiresAt != 0 && now >= g.ExpiresAt)) {
		return "expired"
	}
	return g.Status
}

// Covers reports whether the grant reaches an account of its organization.
func (g *Grant) Covers(account string) bool {
	return len(g.MerchantAccountIDs) == 0 || slices.Contains(g.MerchantAccountIDs, account)
}

// isCountry knows the assigned codes of ISO 3166-1 alpha-2 in upper case.
func isCountry(code string) bool {
	region, err := language.ParseRegion(code)
	return err == nil && len(code) == 2 && region.String() == code && region.Canonicalize() == region && region.IsCountry()
}

// Check reports everything that is wrong with an organization's own fields.
func (o *Organization) Check() error {
	return errors.Join(
		checkID(PrefixOrganization, o.ID), required("name", o.Name, 255), required("home_region", o.HomeRegion, 64),
		oneOf("status", o.Status, "active", "suspended", "closed"), o.Metadata.Check())
}

// Check reports everything that is wrong with a legal entity's own fields.
func (l *LegalEntity) Check() error {
	var place error
	if !isCountry(l.Country) {
		place = fmt.Errorf("country: %s is not an ISO 3166-1 alpha-2 code", quoted(l.Country))
	}
	return errors.Join(place,
		checkID(PrefixLegalEntity, l.ID), required("legal_name", l.LegalName, 255),
		oneOf("type", l.Type, "company", "individual", "nonprofit"),
		oneOf("status", l.Status, "unverified", "pending", "verified", "rejected", "suspended"), l.Metadata.Check())
}

// Check reports everything that is wrong with an account's own fields; what it refers to
// is checked where all of it is known.
func (m *MerchantAccount) Check() error {
	faults := []error{
		checkID(PrefixMerchantAccount, m.ID), required("name", m.Name, 255),
		oneOf("status", m.Status, StatusActive, "paused", StatusClosed), m.Cutoff.Check(), m.Metadata.Check(),
	}
	for _, c := range m.Currencies {
		_, err := ParseCurrency(string(c))
		faults = append(faults, err)
	}
	if !slices.Contains(m.Currencies, m.DefaultCurrency) {
		faults = append(faults, fmt.Errorf("default_currency: %s is not one of the account's currencies", quoted(string(m.DefaultCurrency))))
	}
	if m.CaptureWindowHours < 1 || m.CaptureWindowHours > 24*365 {
		faults = append(faults, fmt.Errorf("capture_window_hours: %d is not between 1 and 8760", m.CaptureWindowHours))
	}
	return errors.Join(faults...)
}

func checkID(prefix, id string) error {
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix || !ValidID(id) {
		return fmt.Errorf("id: %s is not an identifier of the form %s…", quoted(id), prefix)
	}
	return nil
}

func required(name, value string, max int) error {
	if value == "" {
		return fmt.Errorf("%s is missing", name)
	}
	return CheckText(name, value, max)
}

func oneOf(name, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%s: %s is not one of %v", name, quoted(value), allowed)
	}
	return nil
}
