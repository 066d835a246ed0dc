package rediskv_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// clock is a clock that tests move.
type clock struct{ milli atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.milli.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.milli.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.milli.Add(d.Milliseconds()) }

// fixture is a store with one provisioned organization.
type fixture struct {
	*store.Store
	url    string
	tag    string
	clock  *clock
	config tollgate.Config
	caller rediskv.Caller
}

var priced = []tollgate.Citation{{Name: "card_fee", Version: 2}}

func open(t testing.TB, url string, c *clock) *store.Store {
	t.Helper()
	return openWith(t, rediskv.Options{URL: url, Clock: c.now})
}

func openWith(t testing.TB, o rediskv.Options) *store.Store {
	t.Helper()
	o.Entropy, o.Timeout = rand.Reader, cmp.Or(o.Timeout, redistest.Patience)
	o.Rules = []tollgate.RuleRef{{Rule: priced[0], SHA256: fmt.Sprintf("%064d", 2)}}
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ApplyConfig provisions as the command does.
func (f *fixture) ApplyConfig(ctx context.Context, want tollgate.Config, dryRun bool) ([]tollgate.ConfigChange, error) {
	return redistest.Provision(ctx, f.Store, want, dryRun)
}

// with is the fixture through a store of its own, with other options.
func (f *fixture) with(t testing.TB, o rediskv.Options) *fixture {
	t.Helper()
	o.Clock, o.URL = f.clock.now, cmp.Or(o.URL, f.url)
	other := *f
	other.Store = openWith(t, o)
	return &other
}

func newFixture(t testing.TB) *fixture { return newFixtureAt(t, redistest.URL(t)) }

func newFixtureAt(t testing.TB, url string) *fixture {
	t.Helper()
	return newFixtureBy(t, url, newClock())
}

func newFixtureBy(t testing.TB, url string, c *clock) *fixture {
	t.Helper()
	s := open(t, url, c)
	f := &fixture{Store: s, url: url, clock: c, config: configuration(s)}
	if _, err := redistest.Provision(t.Context(), s, f.config, false); err != nil {
		t.Fatal(err)
	}
	f.caller = rediskv.Caller{
		Organization: f.config.Organization.ID, GrantVersion: 1,
		Actor:   tollgate.Actor{ClientID: f.config.Clients[0].ID, GrantID: f.config.Grants[0].ID, KeyID: "k1"},
		Request: tollgate.AuditRequest{ID: s.NewID(tollgate.PrefixRequest), Method: "POST", Route: "/test", Status: 201},
	}
	return f
}

func configuration(s *store.Store) tollgate.Config {
	org, le, cli := s.NewID(tollgate.PrefixOrganization), s.NewID(tollgate.PrefixLegalEntity), s.NewID(tollgate.PrefixClient)
	per, rs, grt := s.NewID(tollgate.PrefixPerimeter), s.NewID(tollgate.PrefixRuleSet), s.NewID(tollgate.PrefixGrant)
	account := func(name string, c tollgate.Currency) tollgate.MerchantAccount {
		return tollgate.MerchantAccount{
			ID: s.NewID(tollgate.PrefixMerchantAccount), LegalEntityID: le, Name: name, Status: "active",
			Currencies: []tollgate.Currency{c, "JPY", "BHD", "CLF"}, DefaultCurrency: c,
			Cutoff:    tollgate.Cutoff{CutoffTime: "17:00", TimeZone: "Europe/Berlin", SettlementDelayDays: 2, Calendar: "target", Interval: "daily"},
			Perimeter: tollgate.PerimeterRef{ID: per, Version: 1}, RuleSet: tollgate.RuleSet{ID: rs, Version: 1}, CaptureWindowHours: 168,
		}
	}
	return tollgate.Config{
		Organization:     tollgate.Organization{ID: org, Name: "Test", Status: "active", HomeRegion: "fra"},
		LegalEntities:    []tollgate.LegalEntity{{ID: le, LegalName: "Test GmbH", Country: "DE", Type: "company", Status: "verified"}},
		MerchantAccounts: []tollgate.MerchantAccount{account("Europe", "EUR"), account("America", "USD")},
		Clients:          []tollgate.Client{{ID: cli, Name: "shop", Status: "active", GrantIDs: []string{grt}}},
		Grants:           []tollgate.Grant{{ID: grt, ClientID: cli, Scopes: []string{"payments:write"}, Status: "active"}},
		Perimeters:       []tollgate.PerimeterDocument{{ID: per, Version: 1, Constraints: jsontext.Value(`{"payees_blocked":["deny.test"]}`)}},
		RuleSets:         []tollgate.RuleSet{{ID: rs, Version: 1, Rules: priced}},
	}
}

// account is the first account as it is cached now.
func (f *fixture) account(t testing.TB) *accounts.Account {
	t.Helper()
	a, err := f.Account(t.Context(), f.caller.Organization, f.config.MerchantAccounts[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (f *fixture) origin() tollgate.Origin {
	return tollgate.Origin{Organization: f.caller.Organization, RequestID: f.caller.Request.ID, At: f.Now()}
}

// price stands for the rule engine: one line of one percent.
func price(amount tollgate.Money, capture int) tollgate.Pricing {
	fee := tollgate.Money{Minor: max(amount.Minor/100, 1), Currency: amount.Currency}
	return tollgate.Pricing{
		Input: tollgate.PricingInput{Amount: amount, Payee: "shop.example", CaptureIndex: uint32(capture)},
		Rules: []tollgate.RuleRef{{Rule: priced[0], SHA256: fmt.Sprintf("%064d", 2)}},
		Lines: []tollgate.FeeLine{{Label: "Card fee", Amount: fee, Rule: priced[0]}},
	}
}

// draft computes a payment as a handler does.
func (f *fixture) draft(t testing.TB, a *accounts.Account, amount tollgate.Money, payee string, method tollgate.CaptureMethod) (*tollgate.PaymentChange, rediskv.Answer) {
	t.Helper()
	whom := parsePayee(t, payee)
	n := tollgate.NewPayment{
		MerchantAccountID: a.ID, Amount: amount, Payee: whom.String(), CaptureMethod: method, CaptureWindowHours: a.CaptureWindowHours,
		SalesDay:     a.Cutoffs.SalesDay(f.Now(), a.Closed),
		Metadata:     tollgate.Metadata{"order": "7"},
		Reservations: a.Perimeter.Reservations(a.ID, amount, whom, f.clock.now()),
	}
	authorized, captured := price(amount, 0), price(amount, 1)
	authorized.Input.Payee, captured.Input.Payee = n.Payee, n.Payee
	ch, err := tollgate.CreatePayment(f.NewID, f.origin(), n, a.Perimeter.Decide(amount, whom, f.clock.now()), authorized, &captured)
	if err != nil {
		t.Fatal(err)
	}
	return ch, answer(t, 201, ch.Payment)
}

func parsePayee(t testing.TB, text string) tollgate.Payee {
	t.Helper()
	p, err := tollgate.ParsePayee(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func answer(t testing.TB, status int, of any) rediskv.Answer {
	t.Helper()
	body, err := json.Marshal(of, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return rediskv.Answer{Status: status, Location: "/v1/x", Body: body}
}

func (f *fixture) key(name string) rediskv.Idempotency {
	return rediskv.Idempotency{Scope: f.config.MerchantAccounts[0].ID + ":payments.create", Key: name, Fingerprint: fmt.Sprintf("%064d", 1)}
}

func eur(minor int64) tollgate.Money { return tollgate.Money{Minor: minor, Currency: "EUR"} }

// create commits a payment under a fresh key and returns it as it is stored.
func (f *fixture) create(t testing.TB, amount tollgate.Money, method tollgate.CaptureMethod) *tollgate.Payment {
	t.Helper()
	key := f.key(f.NewID(""))
	for tries := 0; ; tries++ {
		a := f.account(t)
		ch, ans := f.draft(t, a, amount, "shop.example", method)
		_, err := f.CreatePayment(t.Context(), f.caller, key, a, ch, ans)
		if errors.Is(err, rediskv.ErrStale) && tries < 10 { // as a handler does; another Store may have changed the account just now
			f.Refresh(f.caller.Organization)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p, _ := f.read(t, ch.Payment.ID)
		return p
	}
}

func (f *fixture) read(t testing.TB, id string) (*tollgate.Payment, *tollgate.Ticket) {
	t.Helper()
	p, ticket, err := f.Payment(t.Context(), f.caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return p, ticket
}

// capture reads, computes and commits once, as a handler does in its loop.
func (f *fixture) capture(ctx context.Context, id string, minor int64, final bool) error {
	p, ticket, err := f.Payment(ctx, f.caller, id)
	if err != nil {
		return err
	}
	amount := tollgate.Money{Minor: minor, Currency: p.Currency}
	a, err := f.Account(ctx, f.caller.Organization, p.MerchantAccountID)
	if err != nil {
		return err
	}
	priced := price(amount, p.Captures+1)
	priced.Input.Payee = p.Payee
	ch, err := tollgate.CapturePayment(f.NewID, f.origin(), p, ticket, tollgate.CaptureRequest{
		Amount: amount, Final: final, SalesDay: a.Cutoffs.SalesDay(f.Now(), a.Closed),
	}, priced)
	if code(err) == string(tollgate.CodeAuthorizationExpired) {
		return f.Lapse(ctx, f.caller, p)
	}
	if err != nil {
		return err
	}
	_, err = f.Transition(ctx, f.caller, nil, a, ch, rediskv.Answer{Status: 201, Body: []byte("{}")})
	return err
}

// refund reads, computes and commits once, as a handler does in its loop; restore
// is what the perimeter says.
func (f *fixture) refund(ctx context.Context, id string, minor int64, restore bool) error {
	p, ticket, err := f.Payment(ctx, f.caller, id)
	if err != nil {
		return err
	}
	a, err := f.Account(ctx, f.caller.Organization, p.MerchantAccountID)
	if err != nil {
		return err
	}
	amount := tollgate.Money{Minor: minor, Currency: p.Currency}
	priced := price(amount, 0)
	priced.Input.Payee, priced.Input.Refund = p.Payee, true
	ch, err := tollgate.RefundPayment(f.NewID, f.origin(), p, ticket, tollgate.RefundRequest{
		Amount: amount, Account: a.Status, Restore: restore, SalesDay: a.Cutoffs.SalesDay(f.Now(), a.Closed),
	}, priced)
	if err != nil {
		return err
	}
	_, err = f.Transition(ctx, f.caller, nil, a, ch, rediskv.Answer{Status: 201, Body: []byte("{}")})
	return err
}

func (f *fixture) move(ctx context.Context, id string, trigger tollgate.Trigger) error {
	p, ticket, err := f.Payment(ctx, f.caller, id)
	if err != nil {
		return err
	}
	ch, err := tollgate.TransitionPayment(f.NewID, f.origin(), p, ticket, trigger, nil)
	if code(err) == string(tollgate.CodeAuthorizationExpired) {
		return f.Lapse(ctx, f.caller, p)
	}
	if err != nil {
		return err
	}
	_, err = f.Transition(ctx, f.caller, nil, nil, ch, rediskv.Answer{Status: 200, Body: []byte("{}")})
	return err
}

// code is the code of an error meant for a client, or its text.
func code(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := err.(*tollgate.Error); ok {
		return string(e.Code)
	}
	return err.Error()
}

// until waits for what has to come.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}
