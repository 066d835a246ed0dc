package builds_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv/testkit"
)

func checkRules(t *testing.T, p pair) {
	name := "fee_" + strings.ToLower(rand.Text()[:8])
	citation := p.a.publish(t, name)
	same(t, "/v1/rules?name="+name, p.a, p.b)
	same(t, "/v1/rules/"+p.b.get(t, "/v1/rules?name="+name).at("data.0.id"), p.a, p.b)
	set := "/v1/rule-sets/" + p.ids[tollgate.PrefixRuleSet]
	quote := `{"amount":"100.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + p.account() + `"}`
	without := p.b.do(t, "POST", "/v1/quotes", "", quote)
	body := `{"rule":"` + citation + `","adds":true,"merchant_account_ids":["` + p.account() + `"]}`
	x, y := p.a.do(t, "POST", set+"/activations", "", strings.Replace(body, `{`, `{"dry_run":true,`, 1)), p.b.do(t, "POST", set+"/activations", "", strings.Replace(body, `{`, `{"dry_run":true,`, 1))
	if x.at("comparison.samples.0") == "" || x.at("comparison.samples.0") != y.at("comparison.samples.0") {
		t.Errorf("%s\n%s", x.Text, y.Text)
	}
	made := p.b.post(t, set+"/activations", body)
	// It is in force once every instance has it, wherever it was asked for.
	testkit.Eventually(t, "both price with it", func() bool {
		return p.a.do(t, "POST", "/v1/quotes", "", quote).at("lines.2.rule") == citation && p.b.do(t, "POST", "/v1/quotes", "", quote).at("lines.2.rule") == citation
	})
	same(t, set+"/activations/"+made.at("id"), p.a, p.b)
	payment := p.a.pay(t, "100.00", "")
	p.b.post(t, "/v1/payments/"+payment.at("id")+"/captures", ``)
	p.b.verify(t, p.a, payment.at("ticket_id"))
	shadow := p.a.post(t, "/v1/shadows", `{"rule":"rule:card_fee@v1","against":"rule:card_fee@v2","merchant_account_ids":["`+p.account()+`"]}`)
	testkit.Eventually(t, "the other compares with it", func() bool {
		p.b.do(t, "POST", "/v1/quotes", "", quote)
		return p.a.get(t, "/v1/shadows/"+shadow.at("id")).at("totals.compared") > "0"
	})
	p.b.post(t, "/v1/shadows/"+shadow.at("id")+"/stop", ``)
	same(t, "/v1/shadows/"+shadow.at("id"), p.a, p.b)
	same(t, "/v1/shadows/"+shadow.at("id")+"/divergences", p.a, p.b)
	p.a.post(t, set+"/rollback", ``)
	testkit.Eventually(t, "both price as before", func() bool {
		return p.a.do(t, "POST", "/v1/quotes", "", quote).at("total") == without.at("total") && p.b.do(t, "POST", "/v1/quotes", "", quote).at("total") == without.at("total")
	})
	same(t, set+"/activations", p.a, p.b)
}

// publish makes a rule of a table, of half a percent, and publishes it.
func (in *instance) publish(t *testing.T, name string) (citation string) {
	t.Helper()
	citation = "rule:" + name + "@v1"
	in.publishRule(t, citation, `[[fee]]
percentage = "0.5"
`, "")
	return citation
}

// publishRule builds and publishes a rule with the command of the build at its own
// instance; cases are further golden ones.
func (in *instance) publishRule(t *testing.T, citation, table, cases string) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "rule.toml"), []byte("label = \"Site fee\"\n"+table), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "golden.json"), []byte(`[{"amount":"100.00","currency":"EUR","payee":"shop.example","lines":[{"label":"Site fee","amount":"0.50"}]}`+cases+`]`), 0o600))
	in.build.Run(t, nil, "rule", "build", dir)
	in.build.Run(t, in.environment(), "rule", "publish", dir, "--rule", citation)
}
