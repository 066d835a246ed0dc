package handlers_test

import (
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv/rules"
)

// Kinds of the parameters of rules.
const (
	citation    kindOf = "a rule's name and version"
	moduleText  kindOf = "a module in base64"
	goldenCases kindOf = "a list of golden cases"
	jws         kindOf = "a signature"
	place       kindOf = "a place in a rule set"
	future      kindOf = "a time to come"
	manyIDs     kindOf = "a list of at most 200 merchant accounts"
)

// ruleOperations are those of rules: a published one, a rule set with an
// activation to come and one with something to go back to.
func (w *world) ruleOperations() []*operation {
	w.t.Helper()
	p := w.newPublication("rule:shop_fee@v1", "1.5", "team")
	w.want(w.call("POST", "/v1/rules", p.body(w.t)), 201, "")
	w.publish("rule:other_fee@v1", "1")
	sets := func(account string) string { return "/v1/rule-sets/" + w.vars[account+"_rules"] }
	scheduled := w.get(w.want(w.call("POST", sets("wide")+"/activations", `{"rule":"rule:shop_fee@v1","adds":true,"at":"2027-01-01T00:00:00Z"}`), 201, ""), "id")
	w.want(w.call("POST", sets("gated")+"/activations", `{"rule":"rule:shop_fee@v1","adds":true}`), 201, "")
	w.want(w.call("POST", sets("limited")+"/activations", `{"rule":"rule:shop_fee@v1","adds":true}`), 201, "")
	w.activated()
	w.want(w.call("POST", sets("limited")+"/activations", `{"rule":"rule:other_fee@v1","adds":true,"at":"2027-01-01T00:00:00Z"}`), 201, "")
	raw := func(v any) string {
		text, err := json.Marshal(v)
		return string(must(w.t, text, err))
	}
	page := []queryParameter{
		{"limit", "10", []string{"0", "101", "-1", "1.0", "%2B1", "ten", "01"}},
		{"cursor", "", []string{"AAAA", "a%20b", "%3D%3D", "null", "0", "%2Fw"}},
	}
	publish := []member{
		{"rule", raw(p.Rule), citation, true},
		{"module", raw(p.Module), moduleText, true},
		{"golden", raw(p.Golden), goldenCases, true},
		{"signature", raw(p.Signature), jws, true},
	}
	accounts := func(name string) member {
		return member{"merchant_account_ids", `["` + w.vars[name] + `"]`, manyIDs, false}
	}
	activation := []member{
		{"rule", `"rule:shop_fee@v1"`, citation, true},
		{"replaces", `"rule:card_fee@v2"`, citation, false},
		{"adds", "false", flag, false},
		{"dry_run", "false", flag, false},
		{"position", "1", place, false},
		{"at", `"2026-12-01T00:00:00Z"`, future, false},
		accounts("eur"),
	}
	w.want(w.call("GET", "/v1/rules/rul_shop_fee_v1", ""), 200, "")
	start := []member{
		{"rule", `"rule:shop_fee@v1"`, citation, true},
		{"against", `"rule:card_fee@v2"`, citation, true},
		accounts("eur"),
	}
	shadow := func() string {
		return w.get(w.want(w.call("POST", "/v1/shadows", `{"rule":"rule:shop_fee@v1","against":"rule:card_fee@v2"}`), 201, ""), "id")
	}
	shadowed, stopped := shadow(), shadow()
	one := tollgate.Divergence{
		Object: "divergence", ID: w.store.NewID(tollgate.PrefixDivergence), CreatedAt: w.store.Now(), ShadowID: shadowed, MerchantAccountID: w.vars["eur"],
		Input: tollgate.EvaluationInput{Amount: tollgate.Money{Minor: 1, Currency: "EUR"}, Currency: "EUR", Payee: "shop.example"},
	}
	check(w.t, w.store.RecordComparison(w.t.Context(), w.vars["org"], shadowed, "ins_1", &rules.Comparison{Divergences: []tollgate.Divergence{one, one}}))
	const jsonMedia = "application/json"
	wide := w.vars["wide_rules"]
	return []*operation{
		{id: "publishRule", method: "POST", path: "/v1/rules", media: jsonMedia, body: publish, key: "accepted", limit: 512 << 10},
		{id: "listRules", method: "GET", path: "/v1/rules", query: append([]queryParameter{{"name", "shop_fee", []string{"a-b", "%22"}}}, page...)},
		{id: "readRule", method: "GET", path: "/v1/rules/rul_shop_fee_v1", pathID: "rul_shop_fee_v1"},
		{id: "readRuleModule", method: "GET", path: "/v1/rules/rul_shop_fee_v1/module", pathID: "rul_shop_fee_v1"},
		{id: "createActivation", method: "POST", path: sets("eur") + "/activations", pathID: w.vars["eur_rules"], media: jsonMedia, body: activation, key: "accepted"},
		{id: "listActivations", method: "GET", path: sets("limited") + "/activations", pathID: w.vars["limited_rules"], query: page},
		{id: "readActivation", method: "GET", path: sets("wide") + "/activations/" + scheduled, pathID: scheduled},
		{id: "readActivation", method: "GET", path: sets("wide") + "/activations/" + scheduled, pathID: wide},
		{id: "cancelActivation", method: "POST", path: sets("wide") + "/activations/" + scheduled + "/cancel", pathID: scheduled, key: "accepted"},
		{id: "startShadow", method: "POST", path: "/v1/shadows", media: jsonMedia, body: start, key: "accepted"},
		{id: "listShadows", method: "GET", path: "/v1/shadows", query: page},
		{id: "readShadow", method: "GET", path: "/v1/shadows/" + shadowed, pathID: shadowed},
		{id: "listDivergences", method: "GET", path: "/v1/shadows/" + shadowed + "/divergences", pathID: shadowed, query: page},
		{id: "stopShadow", method: "POST", path: "/v1/shadows/" + stopped + "/stop", pathID: stopped, key: "accepted"},
		{id: "rollBackRuleSet", method: "POST", path: sets("gated") + "/rollback", pathID: w.vars["gated_rules"], media: jsonMedia, optional: true, body: []member{accounts("gated")}, key: "accepted"},
	}
}

// wrongForRules are wrong values of these kinds.
func wrongForRules(kind kindOf) (list []wrongValue) {
	add := func(status int, code string, raws ...string) {
		for _, raw := range raws {
			list = append(list, wrongValue{raw, status, code, ""})
		}
	}
	long := strings.Repeat("x", 60000)
	switch kind {
	case citation:
		for _, text := range []string{
			"", " ", "shop_fee", "shop_fee@v1", "rule:shop_fee", "rule:shop_fee@v", "rule:shop_fee@1", "rule:shop_fee@v0", "rule:shop_fee@v01", "rule:shop_fee@v1000000",
			"rule:shop_fee@v-1", "rule:Shop@v1", "rule:1shop@v1", "rule:shop-fee@v1", "rule:@v1", "rule:shop fee@v1", " rule:shop_fee@v1", "rule:shop_fee@v1 ", `rule:shop_fee@v1\u0000`,
			"rule:ünicode@v1", "rule:" + strings.Repeat("a", 49) + "@v1", "rule:../x@v1", "rule:shop_fee@v1@v2", long,
		} {
			add(400, "parameter_invalid", quotedJSON(text))
		}
	case moduleText:
		for _, text := range []string{" ", "A", "AGFzbQEAAAA", "AGFz bQEAAAA=", `AGFzbQEAAAA=\n`, "AGFzbQEAAAB=", "AGFzbQEAAA-=", "ünicode=", "====", long + "="} {
			add(400, "parameter_invalid", quotedJSON(text))
		}
	case goldenCases:
		for _, raw := range []string{
			"[]", "[1]", "[null]", "[[]]", `["10.00"]`, "[{}]", `[{"amount":"1"}]`, `[{"amount":"1","currency":"eur"}]`, `[{"amount":1,"currency":"EUR"}]`,
			`[{"amount":"1.001","currency":"EUR"}]`, `[{"amount":"-1","currency":"EUR"}]`, `[{"amount":"1","currency":"EUR","other":1}]`, `[{"amount":"1","currency":"EUR","failed":"yes"}]`,
			`[{"amount":"1","currency":"EUR","failed":true,"refused":"No."}]`, `[{"amount":"1","currency":"EUR","lines":[{"label":"a","amount":"x"}]}]`,
			"[" + strings.Repeat(`{"amount":"1","currency":"EUR"},`, 2000) + `{"amount":"1","currency":"EUR"}]`,
		} {
			add(422, "rule_invalid", raw)
		}
	case jws:
		for _, text := range []string{
			"", " ", "nonsense", "a.b", "a.b.c", "a.b.c.d", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJub25lIn0.e30.YQ", `a\u0000.b.c`, "ü.ü.ü", long,
		} {
			add(422, "rule_signature_invalid", quotedJSON(text))
		}
	case place:
		add(400, "parameter_invalid", "-1", "0", "33", "1.5", "1e1", "-0", "99999999999999999999", "5") // there are three rules
	case future:
		for _, text := range []string{
			"", "tomorrow", "2026-12-01", "2026-12-01T09:00:00", "2026-02-30T09:00:00Z", "1969-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "2026-03-02T08:59:59Z", long,
		} {
			add(400, "parameter_invalid", quotedJSON(text))
		}
	case manyIDs:
		for _, item := range []string{`""`, `"a-b"`, `"ü"`, "1", "null", "{}", quotedJSON(strings.Repeat("a", 65)), quotedJSON(long)} {
			add(400, "parameter_invalid", "["+item+"]")
		}
		add(400, "parameter_invalid", "["+strings.Repeat(`"ma_x",`, 200)+`"ma_x"]`)
	}
	return list
}
