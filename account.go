package tollgate

import "slices"

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

	// Rate limits that an operator has set, such as "writes=10/s" (package gcra): the
	// grant's own, and its client's, which hold where it has none.
	RateLimits       string `json:"rate_limits,omitzero"`
	ClientRateLimits string `json:"client_rate_limits,omitzero"`

	// Damaged: it is stored and cannot be read; only Object and ID count.
	Damaged bool `json:"-"`
}

// Client is who signs assertions, as it is stored.
type Client struct {
	ID             string   `json:"id"`
	CreatedAt      Instant  `json:"created_at,omitzero"` // not of earlier releases
	OrganizationID string   `json:"organization_id"`
	Name           string   `json:"name"`
	Status         string   `json:"status"`    // active or disabled
	Keys           []string `json:"keys"`      // public JWKs, one JSON text each
	GrantIDs       []string `json:"grant_ids"` // the client's grants, in the order of the provisioning file
	RateLimits     string   `json:"rate_limits,omitzero"`
	DPoPBound      bool     `json:"dpop_bound_access_tokens,omitzero"` // it gets only tokens that are bound to a key (RFC 9449)
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
