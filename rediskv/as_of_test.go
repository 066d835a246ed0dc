package rediskv_test

import (
	"context"
	"testing"

	"tollgate/rediskv/instances"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// Whatever an instance asks on its round and gets no answer to says that Redis is
// away, not only the look at what has changed: a Redis that hangs would make it
// wait at each of the others first.
func TestWhateverGetsNoAnswerIsDoubt(t *testing.T) {
	t.Parallel() // it waits most of its time
	for what, ask := range map[string]func(context.Context, *store.Store) error{
		"memory":   func(ctx context.Context, s *store.Store) error { _, err := s.Memory(ctx); return err },
		"upcoming": func(ctx context.Context, s *store.Store) error { _, err := s.Upcoming(ctx); return err },
		"changes": func(ctx context.Context, s *store.Store) error {
			_, err := s.Poll(ctx, instances.Changes{})
			return err
		},
	} {
		server := redistest.Single(t)
		wire := redistest.Proxy(t, server.Addr)
		f := newFixtureAt(t, wire.URL)
		org, grant, account := f.Config.Organization.ID, f.Config.Grants[0].ID, f.Config.MerchantAccounts[0].ID
		if _, err := f.Poll(t.Context(), instances.Changes{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Grant(t.Context(), org, grant); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Account(t.Context(), org, account); err != nil {
			t.Fatal(err)
		}
		if _, current := f.AsOf(org, grant, account); !current {
			t.Fatalf("%s: what was just read is not current", what)
		}
		wire.Refuse()
		wire.Cut()
		if err := ask(t.Context(), f.Store); err == nil {
			t.Fatalf("%s: there was an answer", what)
		}
		if _, current := f.AsOf(org, grant, account); current {
			t.Errorf("%s: without an answer, it counts as current", what)
		}
	}
}
