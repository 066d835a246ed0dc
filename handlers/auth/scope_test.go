package auth_test

import (
	"errors"
	"testing"

	"tollgate/handlers/auth"
)

func TestParseScopes(t *testing.T) {
	set, err := auth.ParseScopes("tickets:read payments:write accounts:read")
	if err != nil {
		t.Fatal(err)
	}
	if got := set.String(); got != "accounts:read payments:write tickets:read" {
		t.Errorf("got %q", got)
	}
	if !set.Has(auth.ScopeTicketsRead) || set.Has(auth.ScopeEventsRead) {
		t.Error("Has")
	}
	all, err := auth.ParseScopes(auth.AllScopes().String())
	if err != nil || len(all) != 22 {
		t.Errorf("all scopes: %d, %v", len(all), err)
	}
	for _, bad := range []string{
		"", " ", "payments", "Payments:write", "payments:write ", " payments:write", "payments:write  tickets:read",
		"payments:write\ttickets:read", "payments:write,tickets:read", "payments:write payments:write", "payments:write\n", "*",
	} {
		if set, err := auth.ParseScopes(bad); !errors.Is(err, auth.ErrScope) {
			t.Errorf("%q: %v, %v", bad, set, err)
		}
	}
}

func TestScopesIntersect(t *testing.T) {
	granted, err := auth.ScopesOf([]string{"events:read", "payments:write"})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := auth.ParseScopes("tickets:read payments:write")
	if err != nil {
		t.Fatal(err)
	}
	if got := asked.Intersect(granted).String(); got != "payments:write" {
		t.Errorf("got %q", got)
	}
	if asked.String() != "payments:write tickets:read" || granted.String() != "payments:write events:read" {
		t.Error("Intersect changed an operand")
	}
	none, err := auth.ScopesOf(nil)
	if err != nil || none.String() != "" || len(asked.Intersect(none)) != 0 {
		t.Errorf("empty set: %v, %v", none, err)
	}
	all := auth.AllScopes()
	all[0] = "changed"
	if auth.AllScopes()[0] == "changed" {
		t.Error("a caller can change the list of scopes")
	}
}
