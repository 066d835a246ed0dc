package rediskv_test

import (
	"context"
	"testing"
	"time"

	"tollgate"

	"tollgate/rediskv"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// Whatever an instance asks on its round and gets no answer to says that Redis is
// away, not only the look at what has changed: a Redis that hangs would make it
// wait at each of the others first.
func TestWhateverGetsNoAnswerIsDoubt(t *testing.T) {
	t.Parallel() // it waits most of its time
	for what, ask := range map[string]func(context.Context, *store.Store) error{
		"memory": func(ctx context.Context, s *store.Store) error { _, err := s.Memory(ctx); return err },
		"look": func(ctx context.Context, s *store.Store) error {
			_, err := s.Look(ctx, instances.Changes{}, instances.Instance{ID: "ins_1"}, false)
			return err
		},
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

// Who hears nothing of what changes reads again what it knows before it uses it,
// once in a while: an instance that slept knows what was.
func TestSilence(t *testing.T) {
	f := newFixture(t)
	quiet := testkit.Open(t, rediskv.Options{URL: f.URL, Clock: f.Clock.Now, Rules: []tollgate.RuleRef{testkit.CardFee}, Silence: 5 * time.Second})
	name := func() string {
		a, err := quiet.Account(t.Context(), f.Config.Organization.ID, f.Config.MerchantAccounts[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		return a.Name
	}
	was := name()
	f.Config.MerchantAccounts[0].Name = "another name"
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(4 * time.Second)
	if got := name(); got != was {
		t.Errorf("after 4 s of silence it was read again: %q", got)
	}
	if _, err := quiet.Poll(t.Context(), instances.Changes{}); err != nil { // which hears that all may have changed
		t.Fatal(err)
	}
	if got := name(); got != "another name" {
		t.Errorf("after a word of the change it is %q", got)
	}
	f.Config.MerchantAccounts[0].Name = "a third"
	if _, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(6 * time.Second)
	if got := name(); got != "a third" {
		t.Errorf("after 6 s of silence it is %q", got)
	}
}
