package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
)

// CardFee is the rule that an organization has; to its Store its module is only a
// sum.
var CardFee = tollgate.RuleRef{Rule: tollgate.Citation{Name: "card_fee", Version: 2}, SHA256: fmt.Sprintf("%064d", 2)}

// Organization is the configuration of a new organization: two accounts under one
// perimeter and one rule set, and a client with one grant.
func Organization(newID tollgate.NewIDFunc) tollgate.Config {
	org, le, cli := newID(tollgate.PrefixOrganization), newID(tollgate.PrefixLegalEntity), newID(tollgate.PrefixClient)
	per, rs, grt := newID(tollgate.PrefixPerimeter), newID(tollgate.PrefixRuleSet), newID(tollgate.PrefixGrant)
	account := func(name string, c tollgate.Currency) tollgate.MerchantAccount {
		return tollgate.MerchantAccount{
			ID: newID(tollgate.PrefixMerchantAccount), LegalEntityID: le, Name: name, Status: "active",
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
		RuleSets:         []tollgate.RuleSet{{ID: rs, Version: 1, Rules: []tollgate.Citation{CardFee.Rule}}},
	}
}

// Shop is an organization that makes payments through a Store.
type Shop struct {
	*store.Store
	URL    string
	Clock  *Clock
	Config tollgate.Config
	Caller rediskv.Caller // its client, if it has one
}

// NewShop provisions an organization on a Redis. change, if it is not nil, changes
// its configuration before; options need no clock.
func NewShop(t testing.TB, o rediskv.Options, c *Clock, change func(*tollgate.Config)) *Shop {
	t.Helper()
	o.Clock = c.Now
	return (&Shop{Store: Open(t, o), URL: o.URL, Clock: c}).Another(t, change)
}

// Another provisions another organization on the same Store.
func (s *Shop) Another(t testing.TB, change func(*tollgate.Config)) *Shop {
	t.Helper()
	s = s.Through(s.Store)
	s.Config = Organization(s.NewID)
	if change != nil {
		change(&s.Config)
	}
	if _, err := redistest.Provision(t.Context(), s.Store, s.Config, false); err != nil {
		t.Fatal(err)
	}
	s.Caller = rediskv.Caller{Organization: s.Config.Organization.ID}
	if len(s.Config.Grants) > 0 {
		s.Caller.GrantVersion, s.Caller.Actor = 1, tollgate.Actor{ClientID: s.Config.Clients[0].ID, GrantID: s.Config.Grants[0].ID, KeyID: "k1"}
		s.Caller.Request = tollgate.AuditRequest{ID: s.NewID(tollgate.PrefixRequest), Method: "POST", Route: "/test", Status: 201}
	}
	return s
}

// Through is the shop through another Store.
func (s *Shop) Through(store *store.Store) *Shop {
	other := *s
	other.Store = store
	return &other
}

// With is the shop through a Store of its own, with other options.
func (s *Shop) With(t testing.TB, o rediskv.Options) *Shop {
	t.Helper()
	o.Clock, o.URL = s.Clock.Now, cmp.Or(o.URL, s.URL)
	return s.Through(Open(t, o))
}

// MerchantAccount is the first account as it is cached now.
func (s *Shop) MerchantAccount(t testing.TB) *accounts.Account {
	t.Helper()
	a, err := s.Account(t.Context(), s.Caller.Organization, s.Config.MerchantAccounts[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Price stands for the rule engine: one line of one percent, where the
// organization has a rule.
func (s *Shop) Price(amount tollgate.Money, capture int) tollgate.Pricing {
	priced := tollgate.Pricing{Input: tollgate.PricingInput{Amount: amount, Payee: "shop.example", CaptureIndex: uint32(capture)}}
	if len(s.Config.RuleSets[0].Rules) > 0 {
		fee := tollgate.Money{Minor: max(amount.Minor/100, 1), Currency: amount.Currency}
		priced.Rules, priced.Lines = []tollgate.RuleRef{CardFee}, []tollgate.FeeLine{{Label: "Card fee", Amount: fee, Rule: CardFee.Rule}}
	}
	return priced
}

// Draft computes a payment as a handler does.
func (s *Shop) Draft(t testing.TB, a *accounts.Account, amount tollgate.Money, payee string, method tollgate.CaptureMethod) (*tollgate.PaymentChange, rediskv.Answer) {
	t.Helper()
	whom, now := Payee(t, payee), s.Clock.Now()
	n := tollgate.NewPayment{
		MerchantAccountID: a.ID, Amount: amount, Payee: whom.String(), CaptureMethod: method, CaptureWindowHours: a.CaptureWindowHours,
		SalesDay: a.Cutoffs.SalesDay(s.Now(), a.Closed), Reservations: a.Perimeter.Reservations(a.ID, amount, whom, now),
		Numbered: s.Layout() >= rediskv.Together,
	}
	if amount.Minor%7 != 0 { // some have none
		n.Metadata = tollgate.Metadata{"order": "7"}
	}
	authorized, captured := s.Price(amount, 0), s.Price(amount, 1)
	authorized.Input.Payee, captured.Input.Payee = n.Payee, n.Payee
	ch, err := tollgate.CreatePayment(s.NewID, s.Origin(s.Caller), n, a.Perimeter.Decide(amount, whom, now), authorized, &captured)
	if err != nil {
		t.Fatal(err)
	}
	ans := Answer(t, 201, ch.Payment)
	ans.Shows = true
	return ch, ans
}

// Key is a key of requests that create payments.
func (s *Shop) Key(name string) rediskv.Idempotency {
	return rediskv.Idempotency{Scope: s.Config.MerchantAccounts[0].ID + ":payments.create", Key: name, Fingerprint: fmt.Sprintf("%064d", 1)}
}

// Given is the body of an answer, as it was given or as it is given again.
func (s *Shop) Given(ctx context.Context, r rediskv.Result) ([]byte, error) {
	if r.Shown == "" {
		return r.Body, nil
	}
	body, _, err := s.Shown(ctx, s.Caller, r.Shown)
	return body, err
}

// Pay commits a payment under a fresh key and returns it as it is stored.
func (s *Shop) Pay(t testing.TB, amount tollgate.Money, method tollgate.CaptureMethod) *tollgate.Payment {
	t.Helper()
	key := s.Key(s.NewID(""))
	for tries := 0; ; tries++ {
		a := s.MerchantAccount(t)
		ch, ans := s.Draft(t, a, amount, "shop.example", method)
		_, err := s.CreatePayment(t.Context(), s.Caller, key, a, ch, ans)
		if errors.Is(err, rediskv.ErrStale) && tries < 10 { // as a handler does; another Store may have changed the account just now
			s.Refresh(s.Caller.Organization)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p, _ := s.Read(t, ch.Payment.ID)
		return p
	}
}

// Read is a payment with its ticket.
func (s *Shop) Read(t testing.TB, id string) (*tollgate.Payment, *tollgate.Ticket) {
	t.Helper()
	p, ticket, err := s.Payment(t.Context(), s.Caller, id)
	if err != nil {
		t.Fatal(err)
	}
	return p, ticket
}

// Capture reads, computes and commits once, as a handler does in its loop.
func (s *Shop) Capture(ctx context.Context, id string, minor int64, final bool) error {
	p, ticket, err := s.Payment(ctx, s.Caller, id)
	if err != nil {
		return err
	}
	amount := tollgate.Money{Minor: minor, Currency: p.Currency}
	a, err := s.Account(ctx, s.Caller.Organization, p.MerchantAccountID)
	if err != nil {
		return err
	}
	priced := s.Price(amount, p.Captures+1)
	priced.Input.Payee = string(p.Payee)
	ch, err := tollgate.CapturePayment(s.NewID, s.Origin(s.Caller), p, ticket, tollgate.CaptureRequest{
		Amount: amount, Final: final, SalesDay: a.Cutoffs.SalesDay(s.Now(), a.Closed),
	}, priced)
	return s.change(ctx, p, a, ch, err)
}

// GiveBack reads, computes and commits a refund once, as a handler does in its loop;
// restore is what the perimeter says.
func (s *Shop) GiveBack(ctx context.Context, id string, minor int64, restore bool) error {
	p, ticket, err := s.Payment(ctx, s.Caller, id)
	if err != nil {
		return err
	}
	a, err := s.Account(ctx, s.Caller.Organization, p.MerchantAccountID)
	if err != nil {
		return err
	}
	amount := tollgate.Money{Minor: minor, Currency: p.Currency}
	priced := s.Price(amount, 0)
	priced.Input.Payee, priced.Input.Refund = string(p.Payee), true
	ch, err := tollgate.RefundPayment(s.NewID, s.Origin(s.Caller), p, ticket, tollgate.RefundRequest{
		Amount: amount, Account: a.Status, Restore: restore, SalesDay: a.Cutoffs.SalesDay(s.Now(), a.Closed),
	}, priced)
	return s.change(ctx, p, a, ch, err)
}

// Move is Capture for the other triggers.
func (s *Shop) Move(ctx context.Context, id string, trigger tollgate.Trigger) error {
	p, ticket, err := s.Payment(ctx, s.Caller, id)
	if err != nil {
		return err
	}
	ch, err := tollgate.TransitionPayment(s.NewID, s.Origin(s.Caller), p, ticket, trigger, nil)
	return s.change(ctx, p, nil, ch, err)
}

func (s *Shop) change(ctx context.Context, p *tollgate.Payment, a *accounts.Account, ch *tollgate.PaymentChange, err error) error {
	if Code(err) == string(tollgate.CodeAuthorizationExpired) {
		return s.Lapse(ctx, s.Caller, p)
	}
	if err != nil {
		return err
	}
	_, err = s.Transition(ctx, s.Caller, nil, a, ch, rediskv.Answer{Status: 200, Body: []byte("{}")})
	return err
}

// Died ends all leases of the shop's deliveries, as if the workers had died a lease
// ago: by Redis' time, which tests do not move, and then by the clock, which has
// workers look.
func (s *Shop) Died(t testing.TB, lease time.Duration) {
	t.Helper()
	s.NextMilli(t) // the next lease ends later
	hooks, _, err := s.Webhooks(t.Context(), s.Caller, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range hooks {
		key := s.Space(s.Caller.Organization).Leases(hook.ID)
		leases, err := s.Redis.ZRange(t.Context(), key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range leases {
			if err := s.Redis.ZAddXX(t.Context(), key, redis.Z{Score: 1, Member: id}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Clock.Advance(lease)
}

// NextMilli waits for the next millisecond of Redis: events of one are trimmed together.
func (s *Shop) NextMilli(t testing.TB) {
	t.Helper()
	began := s.now(t)
	Eventually(t, "the next millisecond", func() bool { return s.now(t) > began })
}

// now is the time of Redis, in milliseconds.
func (s *Shop) now(t testing.TB) int64 {
	now, err := s.Redis.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMilli()
}

// DiedPaying is Died for the worker that asks for a payout now.
func (s *Shop) DiedPaying(t testing.TB, payout string, lease time.Duration) {
	t.Helper()
	if err := s.Redis.Del(t.Context(), s.Space(s.Caller.Organization).Paying(payout)).Err(); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(lease)
}
