package testkit

import (
	"testing"

	"tollgate/rediskv/checks"
	"tollgate/rediskv/store"
)

// Findings are those of everything that a Redis holds.
func Findings(t testing.TB, s *store.Store) (list []checks.Finding) {
	t.Helper()
	w := &checks.Walk{Found: func(f checks.Finding) { list = append(list, f) }}
	if err := s.CheckKeys(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for p := range s.Partitions() {
		if err := s.CheckPartition(t.Context(), p, checks.Place{}, w); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// Consistent fails where anything that a Redis holds does not agree with the rest.
func Consistent(t testing.TB, s *store.Store) {
	t.Helper()
	for _, f := range Findings(t, s) {
		t.Errorf("check: %s: %s %s: %s", f.Kind, f.Object, f.ID, f.Message)
	}
}
