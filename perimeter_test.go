package tollgate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

func TestPerimeterDecides(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // a Friday
	for _, c := range []struct {
		constraints, amount, payee string
		currency                   tollgate.Currency
		at                         time.Time
		decision                   tollgate.Decision
		reason                     tollgate.Reason
	}{
		{`{}`, "1", "a.test", "EUR", noon, "allow", ""},
		{`{"currencies":["EUR","JPY"]}`, "1", "a.test", "JPY", noon, "allow", ""},
		{`{"currencies":["EUR"]}`, "1", "a.test", "USD", noon, "deny", "currency_not_allowed"},
		{`{"payees_blocked":["deny.test"]}`, "1", "deny.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["Deny.Test."]}`, "1", "deny.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["acct-7"]}`, "1", "ACCT-7", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "sub.deny.test", "EUR", noon, "allow", ""},
		{`{"payees_blocked":["*.deny.test"]}`, "1", "a.sub.deny.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["*.deny.test"]}`, "1", "deny.test", "EUR", noon, "allow", ""},
		{`{"payees_blocked":["deny.test"]}`, "1", "HTTPS://Deny.Test.:8443/pay?a=b", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "user@DENY.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["*.deny.test"]}`, "1", "https://a.deny.test:1/", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["*.deny.test"]}`, "1", "x@a.deny.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test","*.deny.test"]}`, "1", "https://shop.example/a.deny.test", "EUR", noon, "allow", ""},
		{`{"payees_blocked":["127.0.0.1"]}`, "1", "https://127.0.0.1:8443/", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["2001:DB8:0::7"]}`, "1", "https://[2001:db8::7]/", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["localhost"]}`, "1", "https://LOCALHOST/", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["*@bank"]}`, "1", "a@Bank", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["*@bank"]}`, "1", "bank", "EUR", noon, "allow", ""},
		{`{"payees_blocked":["shop.example:443"]}`, "1", "shop.example", "EUR", noon, "allow", ""}, // as it was stored, and never matched a host
		{`{"payees_allowed":["*.suppliers.example"]}`, "1", "https://evil.example/a.suppliers.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["*.suppliers.example"]}`, "1", "https://evil.example/#.suppliers.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["*.suppliers.example"]}`, "1", "https://A.suppliers.example/x", "EUR", noon, "allow", ""},
		{`{"payees_allowed":["*.suppliers.example"]}`, "1", "x@a.suppliers.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["*.suppliers.example"]}`, "1", "suppliers.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["*.suppliers.example"]}`, "1", "acct:a.suppliers.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["*@Bank.example"]}`, "1", "x@bank.example", "EUR", noon, "allow", ""},
		{`{"payees_allowed":["*@bank.example"]}`, "1", "x@a.bank.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["*@bank.example"]}`, "1", "bank.example", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["HTTPS://A.test"]}`, "1", "https://a.test:443/", "EUR", noon, "allow", ""},
		{`{"payees_allowed":["acct:A"]}`, "1", "ACCT:a", "EUR", noon, "allow", ""}, // of an earlier release; see TestPerimeterSemantics
		{`{"payees_allowed":["a.test"]}`, "1", "https://a.test", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_blocked":["*.deny.test"]}`, "1", "xdeny.test", "EUR", noon, "allow", ""},
		{`{"payees_allowed":["a.test","*.b.test"]}`, "1", "x.b.test", "EUR", noon, "allow", ""},
		{`{"payees_allowed":["a.test"]}`, "1", "b.test", "EUR", noon, "deny", "payee_not_allowed"},
		{`{"payees_allowed":["a.test"],"payees_blocked":["a.test"]}`, "1", "a.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"minimum_amount":"5.00"}`, "4.99", "a.test", "EUR", noon, "deny", "amount_below_minimum"},
		{`{"minimum_amount":"5"}`, "5", "a.test", "JPY", noon, "allow", ""},
		{`{"maximum_amount":"5.00"}`, "5.01", "a.test", "EUR", noon, "deny", "amount_above_maximum"},
		{`{"maximum_amount":"5.00"}`, "5.000", "a.test", "BHD", noon, "allow", ""},
		{`{"maximum_amount":"999999999999999"}`, "999999999999999", "a.test", "JPY", noon, "allow", ""},
		{`{"review_above":"100.00"}`, "100.00", "a.test", "EUR", noon, "allow", ""},
		{`{"review_above":"100.00"}`, "100.01", "a.test", "EUR", noon, "review", "amount_needs_review"},
		{`{"review_above":"100.00","maximum_amount":"100.00"}`, "100.01", "a.test", "EUR", noon, "deny", "amount_above_maximum"},
		{`{"currencies":[],"payees_allowed":[],"schedule":{"time_zone":"UTC","days":[],"from":"00:00","to":"00:00"}}`, "1", "a.test", "EUR", noon, "allow", ""},
		{`{"budgets":[{"window":"day","currency":"EUR","amount":"1","per":"payee"}]}`, "1", "a.test", "GBP", noon, "allow", ""},
		{`{"unbudgeted_currencies":"allow"}`, "1", "a.test", "EUR", noon, "deny", "unknown_constraint"},
		{`{"refunds_restore_budget":true}`, "1", "a.test", "EUR", noon, "deny", "unknown_constraint"},
		{`{"velocity":[]}`, "1", "a.test", "EUR", noon, "deny", "unknown_constraint"},
		{`{"budgets":[],"frequency":null}`, "1", "a.test", "EUR", noon, "allow", ""},
		{`{"budgets":[{"window":"day","currency":"EUR","amount":"1","per":"payee","carry_over":true}]}`, "1", "a.test", "EUR", noon, "deny", "unknown_constraint"},
		{`{"frequency":[{"window":"day","count":1,"per":"payee","burst":2}]}`, "1", "a.test", "EUR", noon, "deny", "unknown_constraint"},
		{`{"Currencies":["EUR"]}`, "1", "a.test", "EUR", noon, "deny", "unknown_constraint"},
		{`{"schedule":{"time_zone":"Europe/Berlin","days":["fri"],"from":"13:00","to":"14:00"}}`, "1", "a.test", "EUR", noon, "allow", ""},
		{`{"schedule":{"time_zone":"Europe/Berlin","days":["fri"],"from":"08:00","to":"13:00"}}`, "1", "a.test", "EUR", noon, "deny", "outside_schedule"},
		{`{"schedule":{"time_zone":"UTC","days":["sat"],"from":"00:00","to":"23:59"}}`, "1", "a.test", "EUR", noon, "deny", "outside_schedule"},
		{`{"schedule":{"time_zone":"UTC","days":["fri"],"from":"22:00","to":"02:00"}}`, "1", "a.test", "EUR", noon.Add(13 * time.Hour), "allow", ""},
		{`{"schedule":{"time_zone":"UTC","days":["sat"],"from":"22:00","to":"02:00"}}`, "1", "a.test", "EUR", noon.Add(13 * time.Hour), "deny", "outside_schedule"},
	} {
		p := compiled(t, 0, c.constraints)
		m, err := tollgate.ParseMoney(c.amount, c.currency)
		if err != nil {
			t.Fatal(err)
		}
		want := tollgate.PerimeterDecision{ID: "per_1", Version: 3, Decision: c.decision, Reason: c.reason}
		if got := p.Decide(m, payee(t, c.payee), c.at); got != want {
			t.Errorf("%s %s %s %s: %+v, want %+v", c.constraints, m, c.currency, c.payee, got, want)
		}
	}
}

// What a version that is stored now says with an empty list, and of currencies
// beside its budgets.
func TestPerimeterSemantics(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const budget = `"budgets":[{"window":"day","currency":"EUR","amount":"1","per":"payee"}]`
	for _, c := range []struct {
		semantics            int64
		constraints, payee   string
		currency             tollgate.Currency
		reason, withoutThese tollgate.Reason
	}{
		{2, `{}`, "a.test", "EUR", "", ""},
		{2, `{"payees_allowed":[]}`, "a.test", "EUR", "payee_not_allowed", ""},
		{2, `{"currencies":[]}`, "a.test", "EUR", "currency_not_allowed", ""},
		{2, `{"schedule":{"time_zone":"UTC","days":[],"from":"00:00","to":"00:00"}}`, "a.test", "EUR", "outside_schedule", ""},
		{2, `{"schedule":{"time_zone":"UTC","from":"00:00","to":"00:00"}}`, "a.test", "EUR", "", ""},
		{2, `{"payees_blocked":[],"budgets":[],"frequency":[]}`, "a.test", "EUR", "", ""},
		{2, `{` + budget + `}`, "a.test", "EUR", "", ""},
		{2, `{` + budget + `}`, "a.test", "GBP", "budget_currency_missing", ""},
		{2, `{` + budget + `,"unbudgeted_currencies":"deny"}`, "a.test", "GBP", "budget_currency_missing", "unknown_constraint"},
		{2, `{` + budget + `,"unbudgeted_currencies":"allow"}`, "a.test", "GBP", "", "unknown_constraint"},
		{2, `{` + budget + `,"review_above":"0"}`, "a.test", "GBP", "budget_currency_missing", "amount_needs_review"},
		{2, `{` + budget + `,"payees_blocked":["a.test"]}`, "a.test", "GBP", "payee_blocked", "payee_blocked"},
		{2, `{"frequency":[{"window":"day","count":1,"per":"payee"}]}`, "a.test", "GBP", "", ""},
		{2, `{"refunds_restore_budget":true}`, "a.test", "EUR", "", "unknown_constraint"},
		{2, `{"payees_allowed":["acct:A"]}`, "acct:a", "EUR", "payee_not_allowed", ""},
		{2, `{"payees_blocked":["acct:A"]}`, "acct:a", "EUR", "payee_blocked", "payee_blocked"},
		{3, `{}`, "a.test", "EUR", "unknown_constraint", ""},
	} {
		m := tollgate.Money{Minor: 1, Currency: c.currency}
		if got := compiled(t, c.semantics, c.constraints).Decide(m, payee(t, c.payee), noon); got.Reason != c.reason {
			t.Errorf("semantics %d %s %s %s: %q, want %q", c.semantics, c.constraints, c.payee, c.currency, got.Reason, c.reason)
		}
		if got := compiled(t, 0, c.constraints).Decide(m, payee(t, c.payee), noon); got.Reason != c.withoutThese {
			t.Errorf("no semantics %s %s %s: %q, want %q", c.constraints, c.payee, c.currency, got.Reason, c.withoutThese)
		}
	}
	for _, constraints := range []string{
		`{"payees_allowed":null}`, `{"currencies":null}`, `{"schedule":{"time_zone":"UTC","days":null,"from":"00:00","to":"00:00"}}`,
		`{"unbudgeted_currencies":null}`, `{"unbudgeted_currencies":"maybe"}`, `{"unbudgeted_currencies":true}`, `{"refunds_restore_budget":"true"}`,
		`{"payees_allowed":["shop.example:443"]}`, `{"payees_blocked":["https:deny.test"]}`, `{"payees_blocked":["0x7f.1"]}`, `{"payees_blocked":["*.0.0.1"]}`,
		`{"payees_blocked":["*.a_b"]}`, `{"payees_allowed":["*@"]}`, `{"payees_allowed":["*@a:1"]}`, `{"payees_allowed":["a*@b"]}`,
	} {
		d := tollgate.PerimeterDocument{ID: "per_1", Version: 1, Semantics: 2, Constraints: jsontext.Value(constraints)}
		if _, err := d.Compile(); err == nil {
			t.Errorf("%s is accepted", constraints)
		}
		if strings.Contains(constraints, "@") { // earlier releases refused these, too
			continue
		}
		d.Semantics = 0
		if _, err := d.Compile(); err != nil {
			t.Errorf("%s is stored and does not compile: %v", constraints, err)
		}
	}
}

func TestPerimeterRefusesNonsense(t *testing.T) {
	for _, constraints := range []string{
		`[]`, `{"currencies":["eur"]}`, `{"currencies":"EUR"}`, `{"minimum_amount":5}`, `{"minimum_amount":"-5"}`, `{"maximum_amount":"NaN"}`,
		`{"payees_blocked":["*"]}`, `{"payees_blocked":["a*b.test"]}`, `{"payees_blocked":["*deny.test"]}`, `{"payees_allowed":[""]}`,
		`{"schedule":{"time_zone":"Mars/Base","from":"00:00","to":"01:00"}}`, `{"schedule":{"time_zone":"Local","from":"00:00","to":"01:00"}}`,
		`{"schedule":{"time_zone":"UTC","from":"25:00","to":"01:00"}}`, `{"schedule":{"time_zone":"UTC","from":"00:00","to":"1:00"}}`,
		`{"schedule":{"time_zone":"UTC","days":["Friday"],"from":"00:00","to":"01:00"}}`, `{"currencies":["EUR"],"currencies":[]}`,
		`{"budgets":{}}`, `{"budgets":[{}]}`, `{"budgets":[{"window":"week","currency":"EUR","amount":"1","per":"payee"}]}`,
		`{"budgets":[{"window":"day","currency":"eur","amount":"1","per":"payee"}]}`, `{"budgets":[{"window":"day","currency":"EUR","amount":1,"per":"payee"}]}`,
		`{"budgets":[{"window":"day","currency":"EUR","amount":"1.001","per":"payee"}]}`, `{"budgets":[{"window":"day","currency":"EUR","amount":"-1","per":"payee"}]}`,
		`{"budgets":[{"window":"day","currency":"EUR","amount":"1","per":"everybody"}]}`, `{"budgets":[{"window":"day","currency":"EUR","amount":"1"}]}`,
		`{"budgets":[{"window":"day","time_zone":"Mars/Base","currency":"EUR","amount":"1","per":"payee"}]}`,
		`{"budgets":[{"window":"day","currency":"EUR","amount":"1","per":"payee"},{"window":"day","time_zone":"UTC","currency":"EUR","amount":"2","per":"payee"}]}`,
		`{"frequency":[{"window":"day","count":0,"per":"payee"}]}`, `{"frequency":[{"window":"day","count":1.5,"per":"payee"}]}`,
		`{"frequency":[{"window":"day","count":"1","per":"payee"}]}`, `{"frequency":[{"window":"day","count":2000000000,"per":"payee"}]}`,
	} {
		if _, err := (tollgate.PerimeterDocument{ID: "per_1", Version: 1, Constraints: jsontext.Value(constraints)}).Compile(); err == nil {
			t.Errorf("%s is accepted", constraints)
		}
	}
}
