package tollgate_test

import (
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
		{`{"payees_blocked":["deny.test"]}`, "1", "deny.test:443", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "HTTPS://user:x@Deny.Test.:8443/pay?a=b", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "//deny.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "deny.test//x", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "deny.test?next=//x", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "deny.test:/x", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "https:deny.test", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", `https:\\deny.test`, "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["*.deny.test"]}`, "1", "a.deny.test:1/", "EUR", noon, "deny", "payee_blocked"},
		{`{"payees_blocked":["deny.test"]}`, "1", "shop.example/deny.test", "EUR", noon, "allow", ""},
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
		p, err := tollgate.PerimeterDocument{ID: "per_1", Version: 3, Constraints: jsontext.Value(c.constraints)}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		m, err := tollgate.ParseMoney(c.amount, c.currency)
		if err != nil {
			t.Fatal(err)
		}
		want := tollgate.PerimeterDecision{ID: "per_1", Version: 3, Decision: c.decision, Reason: c.reason}
		if got := p.Decide(m, c.payee, c.at); got != want {
			t.Errorf("%s %s %s %s: %+v, want %+v", c.constraints, m, c.currency, c.payee, got, want)
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
