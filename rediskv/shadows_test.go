package rediskv_test

import (
	"errors"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/rules"
)

// shadowed starts a shadow as a handler does.
func (f *fixture) shadowed(t testing.TB) string {
	t.Helper()
	shadow := tollgate.Shadow{
		Object: "shadow", ID: f.NewID(tollgate.PrefixShadow), CreatedAt: f.Now(), Rule: tollgate.RuleRef{Rule: tollgate.Citation{Name: "next_fee", Version: 1}, SHA256: "1"},
		Against: priced[0], MerchantAccountIDs: []string{}, Status: tollgate.StatusActive,
	}
	if err := f.startShadow(t, shadow); err != nil {
		t.Fatal(err)
	}
	return shadow.ID
}

// TestTwoStopsAtOnce: the one that comes second is told what there is.
func TestTwoStopsAtOnce(t *testing.T) {
	f := newFixture(t)
	id := f.shadowed(t)
	err := f.stop(t, id, func() {
		if err := f.stop(t, id, func() {}); err != nil {
			t.Fatal(err)
		}
	})
	if code(err) != string(tollgate.CodeActivationStateInvalid) {
		t.Errorf("the second stop: %v", err)
	}
}

// TestConflictThatStays: a change that others come before again and again can
// be made later.
func TestConflictThatStays(t *testing.T) {
	f := newFixture(t)
	id, other := f.shadowed(t), ""
	err := f.stop(t, id, func() {
		if other == "" {
			other = f.shadowed(t)
			return
		}
		if err := f.stop(t, other, func() {}); err != nil {
			t.Fatal(err)
		}
		other = ""
	})
	if code(err) != string(tollgate.CodeStoreUnavailable) || !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("%v", err)
	}
	if err := f.stop(t, id, func() {}); err != nil {
		t.Errorf("later: %v", err)
	}
}

// TestComparisonOnce: the same comparison is counted once, the next one beside
// it, and so is what another instance has found.
func TestComparisonOnce(t *testing.T) {
	f := newFixture(t)
	id, org := f.shadowed(t), f.Caller.Organization
	found := func() *rules.Comparison {
		return &rules.Comparison{
			Operation: f.NewID(""), Compared: 2, Different: 1, Equal: 1, Sums: map[tollgate.Currency]int64{"EUR": -7},
			Divergences: []tollgate.Divergence{{ShadowID: id}},
		}
	}
	first, next := found(), found()
	for _, one := range []struct {
		instance string
		found    *rules.Comparison
	}{{"a", first}, {"a", first}, {"b", found()}, {"a", first}, {"a", next}, {"a", next}} {
		if err := f.RecordComparison(t.Context(), org, id, one.instance, one.found); err != nil {
			t.Fatal(err)
		}
	}
	shadow, err := f.Shadow(t.Context(), f.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := f.Divergences(t.Context(), f.Caller, id, "", 10)
	if err != nil || shadow.Value.Totals.Compared != 6 || shadow.Value.Totals.Differences[0].Amount != "-0.21" || len(rows) != 3 {
		t.Errorf("%+v, %d divergences, %v", shadow.Value.Totals, len(rows), err)
	}
}
