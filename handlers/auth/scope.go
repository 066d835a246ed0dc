package auth

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Scope is one permission of an access token (interface §5).
type Scope string

// The scopes, in the order of the endpoints that asked for them first.
const (
	ScopeAccountsRead     Scope = "accounts:read"
	ScopeGrantsRead       Scope = "grants:read"
	ScopeAccessRead       Scope = "access:read"
	ScopeQuotesRead       Scope = "quotes:read"
	ScopePaymentsWrite    Scope = "payments:write"
	ScopePaymentsRead     Scope = "payments:read"
	ScopePaymentsCapture  Scope = "payments:capture"
	ScopePaymentsReview   Scope = "payments:review"
	ScopeTransactionsRead Scope = "transactions:read"
	ScopeTicketsRead      Scope = "tickets:read"
	ScopePayoutsRead      Scope = "payouts:read"
	ScopePayoutsWrite     Scope = "payouts:write"
	ScopeExportsWrite     Scope = "exports:write"
	ScopeExportsRead      Scope = "exports:read"
	ScopeEventsRead       Scope = "events:read"
	ScopeWebhooksWrite    Scope = "webhooks:write"
	ScopeWebhooksRead     Scope = "webhooks:read"
	ScopeRulesWrite       Scope = "rules:write"
	ScopeRulesRead        Scope = "rules:read"
	ScopePaymentsRefund   Scope = "payments:refund"
	ScopeAuditRead        Scope = "audit:read"
	ScopeAccessWrite      Scope = "access:write"
)

var scopes = Scopes{
	ScopeAccountsRead, ScopeGrantsRead, ScopeAccessRead, ScopeQuotesRead,
	ScopePaymentsWrite, ScopePaymentsRead, ScopePaymentsCapture, ScopePaymentsReview,
	ScopeTransactionsRead, ScopeTicketsRead, ScopePayoutsRead, ScopePayoutsWrite, ScopeExportsWrite, ScopeExportsRead,
	ScopeEventsRead, ScopeWebhooksWrite, ScopeWebhooksRead, ScopeRulesWrite, ScopeRulesRead,
	ScopePaymentsRefund, ScopeAuditRead, ScopeAccessWrite,
}

// ErrScope is wrapped by every error about scopes: OAuth's invalid_scope.
var ErrScope = errors.New("invalid scope")

// Scopes is a set of scopes, always in the order of the constants.
type Scopes []Scope

// AllScopes are all that there are.
func AllScopes() Scopes { return slices.Clone(scopes) }

// ParseScopes reads OAuth's scope parameter (RFC 6749 §3.3): known scopes
// with single spaces between them, at least one, none twice. Whether a missing
// parameter has a default is the caller's affair.
func ParseScopes(list string) (Scopes, error) { return ScopesOf(strings.Split(list, " ")) }

// ScopesOf makes a set from names, such as those of a grant: all known, none
// twice. No names make the empty set.
func ScopesOf(names []string) (Scopes, error) {
	set := make(Scopes, 0, len(names))
	for _, name := range names {
		s := Scope(name)
		switch {
		case !slices.Contains(scopes, s):
			return nil, fmt.Errorf("%w: not the name of a scope", ErrScope)
		case slices.Contains(set, s):
			return nil, fmt.Errorf("%w: %s stands twice", ErrScope, s)
		}
		set = append(set, s)
	}
	sort.Slice(set, func(i, j int) bool { return slices.Index(scopes, set[i]) < slices.Index(scopes, set[j]) })
	return set, nil
}

// Has reports whether s is in the set.
func (set Scopes) Has(s Scope) bool { return slices.Contains(set, s) }

// Intersect is what both sets have: what is asked for, of what is granted.
func (set Scopes) Intersect(other Scopes) Scopes {
	return slices.DeleteFunc(slices.Clone(set), func(s Scope) bool { return !other.Has(s) })
}

// String is the form that ParseScopes reads.
func (set Scopes) String() string {
	names := make([]string, len(set))
	for i, s := range set {
		names[i] = string(s)
	}
	return strings.Join(names, " ")
}
