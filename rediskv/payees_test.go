package rediskv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

// spendEarlier makes a payment as a release did that kept the payee's text and
// counted the host that it found in it.
func (f *fixture) spendEarlier(t *testing.T, key string, amount tollgate.Money, payee string) *tollgate.Payment {
	t.Helper()
	ch, ans := f.Draft(t, f.MerchantAccount(t), amount, payee, tollgate.CaptureManual)
	ch.Payment.Payee, ch.Payment.Counters = tollgate.KeptPayee(payee), nil
	for i := range ch.Transactions {
		if ch.Transactions[i].Payee != nil {
			ch.Transactions[i].Payee = &payee
		}
	}
	if n := len(ch.Reservations); n > 1 {
		if !ch.Reservations[n-1].Earlier {
			t.Fatalf("%+v", ch.Reservations)
		}
		ch.Reservations = ch.Reservations[n-1:]
		ch.Reservations[0].Earlier = false
	}
	for _, u := range ch.Reservations {
		ch.Payment.Counters = append(ch.Payment.Counters, u.Counter)
	}
	if _, err := f.CreatePayment(t.Context(), f.Caller, f.Key(key), f.MerchantAccount(t), ch, ans); err != nil {
		t.Fatal(err)
	}
	return ch.Payment
}

// Payments of earlier releases are found by the text that they keep and by the
// form of now.
func TestEarlierPayeesAreFound(t *testing.T) {
	f := newFixture(t)
	old := f.spendEarlier(t, "1", eur(100), "HTTPS://Shop.Example:443/a")
	now, _ := f.spend(t, "2", eur(100), "https://shop.example/a")
	f.spend(t, "3", eur(100), "shop.example")
	if old.Payee != "HTTPS://Shop.Example:443/a" || now.Payee != "https://shop.example/a" {
		t.Fatal(old.Payee, now.Payee)
	}
	for asked, want := range map[string]int{"https://shop.example/a": 2, "HTTPS://Shop.Example:443/a": 2, "shop.example": 1, "https://shop.example/b": 0} {
		found := f.allTransactions(t, ledger.TransactionQuery{Payee: asked, Limit: 10})
		if len(found) != want {
			t.Errorf("%s: %d transactions", asked, len(found))
		}
	}
}

// What an earlier release would have counted as somebody else gives that one
// nothing back that was never taken: the counter is another's, and came later.
func TestEarlierCountersGetNothingBack(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"3.00","per":"payee"}],"frequency":[{"window":"day","count":3,"per":"payee"}]}`)
	var open []*tollgate.Payment
	for _, payee := range []string{"acct:123456", "acct:1234567"} {
		p, reason := f.spend(t, payee, eur(300), payee)
		if p == nil {
			t.Fatal(reason)
		}
		open = append(open, p)
	}
	if p, reason := f.spend(t, "other", eur(100), "acct"); p == nil {
		t.Fatal(reason)
	}
	for _, p := range open {
		if err := f.Move(t.Context(), p.ID, tollgate.TriggerCancel); err != nil {
			t.Fatal(err)
		}
	}
	if p, reason := f.spend(t, "more", eur(201), "acct"); p != nil || reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("2.01 where 2.00 is left: %v %q", p, reason)
	}
	for i := range 3 {
		if p, reason := f.spend(t, fmt.Sprint(i), eur(1), "acct"); (p != nil) != (i < 2) {
			t.Errorf("payment %d of 3: %v %q", i+2, p, reason)
		}
	}
}

// A window that was running when payees got one form goes on under its counter
// until it ends; nothing else is counted under such a name.
func TestEarlierCountersGoOn(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"budgets":[{"window":"day","currency":"EUR","amount":"3.00","per":"payee"}]}`)
	const payee = "https://[2001:DB8::7]/"
	old := f.spendEarlier(t, "1", eur(200), payee)
	if reason := f.left(t, eur(101), payee); reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("a quote of 1.01 where 1.00 is left: %q", reason)
	}
	if p, reason := f.spend(t, "2", eur(101), payee); p != nil || reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("1.01 where 1.00 is left: %v %q", p, reason)
	}
	p, reason := f.spend(t, "3", eur(100), payee)
	if p == nil {
		t.Fatal(reason)
	}
	if reason := f.left(t, eur(1), payee); reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("all is spent: %q", reason)
	}
	for _, payment := range []*tollgate.Payment{p, old} { // both give back what they took
		if err := f.Move(t.Context(), payment.ID, tollgate.TriggerCancel); err != nil {
			t.Fatal(err)
		}
	}
	if reason := f.left(t, eur(300), payee); reason != "" {
		t.Errorf("nothing is spent: %q", reason)
	}

	raw := rawClient(t, f.URL)
	before := scanKeys(t, raw, "*"+f.Caller.Organization+":use:*")
	const other = "https://[2001:DB8::8]/"
	if p, reason := f.spend(t, "4", eur(100), other); p == nil || len(p.Counters) != 2 {
		t.Fatal(p, reason)
	}
	if after := scanKeys(t, raw, "*"+f.Caller.Organization+":use:*"); len(after) != len(before)+1 {
		t.Errorf("%d counters more", len(after)-len(before))
	}
	if reason := f.left(t, eur(201), "2001:db8::8"); reason != tollgate.ReasonBudgetExhausted {
		t.Errorf("2.01 where 2.00 is left: %q", reason)
	}
}

// A version of a perimeter that an earlier release stored stays as it is when
// its file is applied again, and is listed where it is in force.
func TestEarlierPerimetersStay(t *testing.T) {
	f := newFixture(t)
	f.limited(t, `{"payees_allowed":[]}`)
	decide := func() tollgate.Reason {
		f.Refresh(f.Caller.Organization)
		return f.MerchantAccount(t).Perimeter.Decide(eur(1), parsePayee(t, "shop.example"), f.Clock.Now()).Reason
	}
	if reason := decide(); reason != tollgate.ReasonPayeeNotAllowed {
		t.Errorf("an empty list: %q", reason)
	}
	raw, per, account := rawClient(t, f.URL), f.Config.Perimeters[0].ID, f.Config.MerchantAccounts[0].ID
	// As an earlier release stored it, in the version and in the account.
	earlier := `{"id":"` + per + `","version":2,"constraints":{"payees_allowed":[]}}`
	for _, key := range scanKeys(t, raw, "*"+f.Caller.Organization+":*") {
		var err error
		switch {
		case strings.HasSuffix(key, ":"+per+":2"):
			err = raw.Set(t.Context(), key, earlier, 0).Err()
		case slices.ContainsFunc(f.Config.MerchantAccounts, func(a tollgate.MerchantAccount) bool { return strings.HasSuffix(key, ":"+a.ID) }):
			err = raw.HSet(t.Context(), key, "limits", earlier, rediskv.EnvelopeField, rediskv.Envelope).Err()
		case strings.HasSuffix(key, ":perimeters"):
			err = raw.Del(t.Context(), key).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if reason := decide(); reason != "" {
		t.Errorf("an empty list of an earlier release: %q", reason)
	}
	list := func() []tollgate.PerimeterRef {
		t.Helper()
		p, err := f.Perimeters(t.Context(), f.Caller)
		if err != nil || p.Active[account] != (tollgate.PerimeterRef{ID: per, Version: 2}) {
			t.Fatal(p, err)
		}
		return p.Versions
	}
	if got := list(); len(got) != 1 {
		t.Errorf("in force are %v", got)
	}
	if changes, err := f.ApplyConfig(t.Context(), f.Config, false); err != nil || len(changes) != 0 {
		t.Errorf("the same file: %+v %v", changes, err)
	}
	if got := list(); len(got) != 2 {
		t.Errorf("after the file there are %v", got)
	}
	if reason := decide(); reason != "" {
		t.Errorf("after the same file: %q", reason)
	}
	documents, err := f.PerimeterDocuments(t.Context(), f.Caller.Organization, []tollgate.PerimeterRef{{ID: per, Version: 1}, {ID: per, Version: 2}, {ID: per, Version: 3}})
	if err != nil || documents[0].Semantics != 2 || documents[1].Semantics != 0 || documents[2].PerimeterDocument != nil {
		t.Errorf("%+v %v", documents, err)
	}
	f.limited(t, `{"payees_allowed":[]}`)
	if reason := decide(); reason != tollgate.ReasonPayeeNotAllowed {
		t.Errorf("the next version: %q", reason)
	}
}
