package handlers_test

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// charged is what an answer charges: a quote, or one side of a sample.
type charged struct {
	Total *string
	Lines []struct{ Label, Amount, Rule string }
	Error *struct{ Code, Rule string }
}

type feeSamples struct {
	Comparison struct {
		Payee   string
		Before  []string
		After   []string
		Samples []struct {
			Amount, Currency string
			Before, After    charged
		}
	}
}

func (r reply) samples(t *testing.T) feeSamples {
	t.Helper()
	var s feeSamples
	if err := json.Unmarshal([]byte(r.text), &s, json.MatchCaseInsensitiveNames(true)); err != nil || len(s.Comparison.Samples) == 0 {
		t.Fatal(err, r.text)
	}
	return s
}

// quoted prices the samples of an answer as they are charged now.
func (w *world) quoted(account string, s feeSamples, wanted func(i int) charged) {
	w.t.Helper()
	for i, one := range s.Comparison.Samples {
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":%q,"currency":%q,"payee":%q}`, w.vars[account], one.Amount, one.Currency, s.Comparison.Payee)
		r := w.call("POST", "/v1/quotes", body)
		var got charged
		check(w.t, json.Unmarshal([]byte(r.text), &got, json.MatchCaseInsensitiveNames(true)))
		want := wanted(i)
		if r.StatusCode != 200 {
			if want.Error == nil || want.Error.Code != r.body["code"] || want.Error.Rule != r.body["rule"] {
				w.t.Errorf("%s: %s, and the comparison says %+v", body, r.text, want)
			}
			continue
		}
		if a, b := fmt.Sprint(*got.Total, got.Lines), fmt.Sprint(*want.Total, want.Lines); a != b {
			w.t.Errorf("%s: %s, and the comparison says %s", body, a, b)
		}
	}
}

// TestActivationSaysWhatItChanges: a rule of a new name never charges beside the
// others without being told to; what an activation shows of before and after is
// what is charged before and after; and asking writes nothing at all, but an
// audit entry where it is refused.
func TestActivationSaysWhatItChanges(t *testing.T) {
	w := newWorld(t)
	w.publish("rule:shop_fee@v1", "1.5")
	path := "/v1/rule-sets/" + w.vars["wide_rules"] + "/activations"
	at := `"at":"2026-03-02T10:00:00Z"`

	before := dump(t, w.redis)
	for _, body := range []string{
		`{"rule":"rule:shop_fee@v1"}`, `{"rule":"rule:shop_fee@v1","position":1}`, `{"rule":"rule:shop_fee@v1","adds":false}`,
		`{"rule":"rule:shop_fee@v1","replaces":null,"adds":null}`, `{"rule":"rule:shop_fee@v1",` + at + `}`,
		`{"rule":"rule:shop_fee@v1","merchant_account_ids":["` + w.vars["wide"] + `"]}`, `{"rule":"rule:shop_fee@v1","dry_run":true}`,
	} {
		r := w.want(w.call("POST", path, body, "Idempotency-Key", "unsaid"), 400, "parameter_missing")
		if got := fmt.Sprint(r.body["param"], r.body["rules_in_force"]); got != "replaces[rule:card_fee@v1 rule:cross_border@v2 rule:platform_fee@v1]" {
			t.Errorf("%s: %s", body, r.text)
		}
	}
	asked := w.want(w.call("POST", path, `{"rule":"rule:shop_fee@v1","replaces":"card_fee","dry_run":true}`, "Idempotency-Key", "asked"), 200, "")
	if changes := w.left(before, dump(t, w.redis), make([]trace, 7)); len(changes) > 0 {
		t.Errorf("asking has written %v", changes)
	}
	preview := asked.samples(t)
	w.quoted("wide", preview, func(i int) charged { return preview.Comparison.Samples[i].Before })

	made := w.want(w.call("POST", path, `{"rule":"rule:shop_fee@v1","replaces":"card_fee"}`, "Idempotency-Key", "asked"), 201, "")
	if got := made.samples(t); fmt.Sprint(got.Comparison.After) != "[rule:shop_fee@v1 rule:cross_border@v2 rule:platform_fee@v1]" {
		t.Error(got.Comparison.After)
	}
	again := w.call("POST", path, `{"rule":"rule:shop_fee@v1","replaces":"card_fee"}`, "Idempotency-Key", "asked")
	if again.text != made.text || again.StatusCode != 201 {
		t.Errorf("repeated: %s", again.text)
	}
	w.activated()
	w.store.Refresh(w.vars["org"])
	shown := made.samples(t)
	w.quoted("wide", shown, func(i int) charged { return shown.Comparison.Samples[i].After })
}

// TestActivationOfRuleThatFails: a rule that refuses a sample or traps shows so,
// and is not counted as failing before it is in force.
func TestActivationOfRuleThatFails(t *testing.T) {
	w := newWorld(t)
	for _, rule := range []struct{ name, then string }{
		{"no_fee", "then = \"refuse\"\ncode = \"not_here\"\nmessage = \"Not here.\""},
		{"trap_fee", `then = "trap"`},
	} {
		name, then := rule.name, rule.then
		module, _, err := compiler.Build([]byte("label = \"Shop fee\"\n[[payee]]\nname = \"shop.example\"\n" + then + "\n[[fee]]\npercentage = \"1.00\"\n"))
		p := publication{Rule: "rule:" + name + "@v1", Module: must(t, module, err), Golden: []wasm.GoldenCase{
			{Amount: "100.00", Currency: "EUR", Payee: "other.example", Lines: []wasm.GoldenLine{{Label: "Shop fee", Amount: "1.00"}}},
		}}
		w.sign(&p, "team", nil)
		w.want(w.call("POST", "/v1/rules", p.body(t)), 201, "")
		path := "/v1/rule-sets/" + w.vars["eur_rules"] + "/activations"
		made := w.want(w.call("POST", path, `{"rule":"rule:`+name+`@v1","adds":true}`), 201, "").samples(t)
		for _, one := range made.Comparison.Samples {
			want := map[string]tollgate.Code{"no_fee": tollgate.CodeRuleRejected, "trap_fee": tollgate.CodeRuleFailed}[name]
			if e := one.After.Error; e == nil || e.Code != string(want) || e.Rule != p.Rule || one.After.Total != nil || one.Before.Error != nil {
				t.Errorf("%s: %+v", name, one)
			}
		}
		if r := w.call("GET", "/readyz", ""); r.body["failing_rules"] != 0.0 {
			t.Errorf("%s: readiness is %s", name, r.text)
		}
		w.activated()
		w.store.Refresh(w.vars["org"])
		w.quoted("eur", made, func(i int) charged { return made.Comparison.Samples[i].After })
		w.want(w.call("POST", "/v1/rule-sets/"+w.vars["eur_rules"]+"/rollback", ""), 201, "")
	}
}
