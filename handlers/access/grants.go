package access

import (
	"slices"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/input"
)

// maxAccounts is how many accounts a grant can name.
const maxAccounts = 100

// GrantRequest is the body of POST /v1/grants.
type GrantRequest struct {
	ClientID  string           `json:"client_id"`
	Scopes    []string         `json:"scopes"`
	Accounts  []string         `json:"merchant_account_ids"`
	Default   *string          `json:"default_merchant_account_id"`
	NotBefore tollgate.Instant `json:"not_before"`
	ExpiresAt tollgate.Instant `json:"expires_at"`
}

// ParseGrant reads it.
func ParseGrant(f *input.Fields) GrantRequest {
	r := GrantRequest{
		ClientID: f.ID("client_id"), Scopes: f.List("scopes", len(auth.AllScopes()), checkScope),
		Accounts: f.List("merchant_account_ids", maxAccounts, checkID), NotBefore: f.Instant("not_before", false), ExpiresAt: f.Instant("expires_at", false),
	}
	if id := f.ID("default_merchant_account_id"); id != "" {
		r.Default = &id
	}
	if !f.Has("client_id") {
		f.Missing("client_id")
	}
	if !f.Has("scopes") {
		f.Missing("scopes")
	} else if set, err := auth.ScopesOf(r.Scopes); err == nil { // in their one order
		r.Scopes = r.Scopes[:0]
		for _, scope := range set {
			r.Scopes = append(r.Scopes, string(scope))
		}
	}
	return r
}

func checkScope(param, item string) error {
	if !slices.Contains(auth.AllScopes(), auth.Scope(item)) {
		return tollgate.Invalid(param, "Each of %s is a scope such as payments:read.", param)
	}
	return nil
}

func checkID(param, item string) error {
	if !tollgate.ValidID(item) {
		return tollgate.Invalid(param, "Each of %s is an identifier.", param)
	}
	return nil
}

// Of is the grant that is asked for.
func (r *GrantRequest) Of(id string) tollgate.Grant {
	return tollgate.Grant{
		ID: id, ClientID: r.ClientID, Scopes: r.Scopes, MerchantAccountIDs: slices.Concat([]string{}, r.Accounts),
		DefaultMerchantAccountID: r.Default, Status: tollgate.StatusActive, NotBefore: r.NotBefore, ExpiresAt: r.ExpiresAt,
	}
}
