package handlers_test

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// publishTable publishes a table as it is written.
func (w *world) publishTable(rule, source string) {
	w.t.Helper()
	module, _, err := compiler.Build([]byte(source))
	p := publication{Rule: rule, Module: must(w.t, module, err), Golden: []wasm.GoldenCase{
		{Amount: "100.00", Currency: "EUR", Lines: []wasm.GoldenLine{{Label: "Shop fee", Amount: "1.00"}}},
	}}
	w.sign(&p, "team", nil)
	w.want(w.call("POST", "/v1/rules", p.body(w.t)), 201, "")
}

// TestSilentRuleIsNotActivated: a rule that lacks a currency of the accounts would
// make it free. It is refused, with the currencies, in whatever way it is put
// there, unless it says that they are refused or free.
func TestSilentRuleIsNotActivated(t *testing.T) {
	w := newWorld(t)
	const eur = "[[fee]]\ncurrencies = [\"EUR\", \"BHD\"]\npercentage = \"1.00\"\n"
	w.publishTable("rule:shop_fee@v1", "label = \"Shop fee\"\n"+eur)
	w.publishTable("rule:shop_fee@v2", "label = \"Shop fee\"\notherwise = \"free\"\n"+eur)
	w.publishTable("rule:shop_fee@v3", "label = \"Shop fee\"\notherwise = \"refuse\"\n"+eur)
	w.publishTable("rule:shop_fee@v4", "label = \"Shop fee\"\n"+eur)
	at := "/v1/rule-sets/" + w.vars["eur_rules"] + "/activations"
	refused := func(body string) {
		t.Helper()
		before := dump(t, w.redis)
		r := w.want(w.call("POST", at, body, "Idempotency-Key", "silent"), 422, "rule_invalid")
		if got := fmt.Sprint(r.body["param"], r.body["currencies"]); got != "rule[CLF JPY USD]" {
			t.Errorf("%s: %s", body, r.text)
		}
		for _, change := range w.left(before, dump(t, w.redis), []trace{auditEntry}) {
			t.Errorf("%s: wrote %s", body, change)
		}
	}
	refused(`{"rule":"rule:shop_fee@v1","adds":true}`)
	refused(`{"rule":"rule:shop_fee@v1","adds":true,"dry_run":true}`)
	refused(`{"rule":"rule:shop_fee@v1","replaces":"card_fee"}`)
	refused(`{"rule":"rule:shop_fee@v1","replaces":"rule:card_fee@v2","at":"2026-03-02T10:00:00Z"}`)

	activate := func(body string) {
		t.Helper()
		w.want(w.call("POST", at, body), 201, "")
		w.activated()
		w.store.Refresh(w.vars["org"])
	}
	quote := func(want int, code string) {
		t.Helper()
		w.want(w.call("POST", "/v1/quotes", fmt.Sprintf(`{"merchant_account_id":%q,"amount":"100","currency":"JPY","payee":"shop.example"}`, w.vars["eur"])), want, code)
	}
	activate(`{"rule":"rule:shop_fee@v2","replaces":"card_fee"}`)
	quote(200, "")
	refused(`{"rule":"rule:shop_fee@v4"}`) // the next version of a name that is there
	activate(`{"rule":"rule:shop_fee@v3"}`)
	quote(422, "rule_rejected")
}

// TestSilentRuleInForceIsMarked: what is in force stays in force, and the account
// shows what it is silent about, alone and in the list.
func TestSilentRuleInForceIsMarked(t *testing.T) {
	w := newWorld(t)
	w.publishTable("rule:shop_fee@v1", "label = \"Shop fee\"\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"1.00\"\n")
	w.ruleSet("eur", []string{"card_fee@v2", "shop_fee@v1", "sandbox@v1"}) // as a build before would have let it
	w.store.Refresh(w.vars["org"])
	w.want(w.call("POST", "/v1/quotes", fmt.Sprintf(`{"merchant_account_id":%q,"amount":"100","currency":"JPY","payee":"shop.example"}`, w.vars["eur"])), 200, "")

	const want = `[{"rule":"rule:shop_fee@v1","currencies":["BHD","CLF","JPY","USD"]}]`
	type silentAbout struct {
		Rule       string   `json:"rule"`
		Currencies []string `json:"currencies"`
	}
	type account struct {
		ID     string        `json:"id"`
		Silent []silentAbout `json:"silent_rules"`
	}
	shown := func(a account) string {
		text, err := json.Marshal(a.Silent, json.Deterministic(true))
		return string(must(t, text, err))
	}
	var one account
	check(t, json.Unmarshal([]byte(w.want(w.call("GET", "/v1/merchant-accounts/"+w.vars["eur"], ""), 200, "").text), &one))
	if shown(one) != want {
		t.Errorf("read: %s", shown(one))
	}
	var list struct {
		Data []account `json:"data"`
	}
	check(t, json.Unmarshal([]byte(w.want(w.call("GET", "/v1/merchant-accounts?limit=100", ""), 200, "").text), &list))
	for _, a := range list.Data {
		if a.ID == w.vars["eur"] && shown(a) != shown(one) {
			t.Errorf("in the list: %s", shown(a))
		}
		if a.ID == w.vars["hours"] && shown(a) != "[]" {
			t.Errorf("an account without rules: %s", shown(a))
		}
	}
	// A new version of another rule of the set is not kept from being activated.
	w.want(w.call("POST", "/v1/rule-sets/"+w.vars["eur_rules"]+"/activations", `{"rule":"rule:card_fee@v1"}`), 201, "")
}

// TestSilenceIsNotGuessed: where a module could not be loaded just now, nobody
// says that it charges in every currency.
func TestSilenceIsNotGuessed(t *testing.T) {
	w := newWorld(t)
	w.publishTable("rule:shy_fee@v1", "label = \"Shop fee\"\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"1.00\"\n[[fee]]\ncurrencies = [\"NOK\"]\npercentage = \"1.03\"\n")
	w.ruleSet("eur", []string{"card_fee@v2", "shy_fee@v1", "sandbox@v1"})
	w.store.Refresh(w.vars["org"])
	i := w.alone()
	leave := i.server.UseUp(w.vars["org"], "")
	i.want(i.call("GET", "/v1/merchant-accounts/"+w.vars["eur"], ""), 429, "share_exhausted")
	i.want(i.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", `{"rule":"rule:shy_fee@v1","adds":true}`), 429, "share_exhausted")
	leave()
	i.want(i.call("GET", "/v1/merchant-accounts/"+w.vars["eur"], ""), 200, "")
	i.want(i.call("POST", "/v1/rule-sets/"+w.vars["wide_rules"]+"/activations", `{"rule":"rule:shy_fee@v1","adds":true}`), 422, "rule_invalid")
}
