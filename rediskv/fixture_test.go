package rediskv_test

import (
	"context"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
)

// fixture is a shop with what these tests know of its Redis.
type fixture struct {
	*testkit.Shop
	tag string
}

var (
	layouts = []rediskv.Layout{rediskv.Together, rediskv.Apart}

	priced = []tollgate.Citation{testkit.CardFee.Rule}

	answer, code, eur, parsePayee, until = testkit.Answer, testkit.Code, testkit.EUR, testkit.Payee, testkit.Eventually
)

func open(t testing.TB, url string, c *testkit.Clock) *store.Store {
	t.Helper()
	return openWith(t, rediskv.Options{URL: url, Clock: c.Now})
}

func openWith(t testing.TB, o rediskv.Options) *store.Store {
	t.Helper()
	o.Rules = []tollgate.RuleRef{testkit.CardFee}
	return testkit.Open(t, o)
}

// ApplyConfig provisions as the command does.
func (f *fixture) ApplyConfig(ctx context.Context, want tollgate.Config, dryRun bool) ([]tollgate.ConfigChange, error) {
	return redistest.Provision(ctx, f.Store, want, dryRun)
}

// with is the fixture through a store of its own, with other options.
func (f *fixture) with(t testing.TB, o rediskv.Options) *fixture {
	t.Helper()
	o.Rules = []tollgate.RuleRef{testkit.CardFee}
	return &fixture{f.With(t, o), f.tag}
}

func newFixture(t testing.TB) *fixture { return newFixtureAt(t, redistest.URL(t)) }

func newFixtureAt(t testing.TB, url string) *fixture {
	t.Helper()
	return newFixtureBy(t, url, testkit.NewClock())
}

func newFixtureBy(t testing.TB, url string, c *testkit.Clock) *fixture {
	t.Helper()
	return &fixture{Shop: testkit.NewShop(t, rediskv.Options{URL: url, Rules: []tollgate.RuleRef{testkit.CardFee}}, c, nil)}
}
