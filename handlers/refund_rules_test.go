package handlers_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// refundTable charges 1 % of payments and 2 % of refunds.
const refundTable = "label = \"Shop fee\"\nrefunds = true\n[[fee]]\npercentage = \"1\"\n[refund]\nlabel = \"Shop refund\"\n[[refund.fee]]\npercentage = \"2\"\n"

func (w *world) refundPublication(rule string) publication {
	w.t.Helper()
	module, _, err := compiler.Build([]byte(refundTable))
	p := publication{Rule: rule, Module: must(w.t, module, err), Golden: []wasm.GoldenCase{
		{Amount: "100.00", Currency: "EUR", Lines: []wasm.GoldenLine{{Label: "Shop fee", Amount: "1.00"}}},
		{Kind: wasm.GoldenRefund, Amount: "100.00", Currency: "EUR", Lines: []wasm.GoldenLine{{Label: "Shop refund", Amount: "2.00"}}},
	}}
	w.sign(&p, "team", nil)
	return p
}

// TestPublishRuleOfRefunds: a module that takes part in refunds is published with
// cases of both kinds. One that a newer build alone understands is refused, and
// so is a refund's case of a module that takes no part in them.
func TestPublishRuleOfRefunds(t *testing.T) {
	w := newWorld(t)
	p := w.refundPublication("rule:shop_fee@v1")
	w.want(w.call("POST", "/v1/rules", p.body(t)), 201, "")
	r := w.want(w.call("GET", "/v1/rules/rul_shop_fee_v1", ""), 200, "")
	golden := r.body["golden"].([]any)
	if first, second := golden[0].(map[string]any), golden[1].(map[string]any); first["kind"] != nil || second["kind"] != "refund" {
		t.Errorf("golden cases: %v", golden)
	}
	section := []byte("tollgate.refund\x01")
	if !bytes.Contains(p.Module, section) {
		t.Fatalf("%q has no section", p.Module)
	}
	for what, k := range map[string]struct {
		module []byte
		want   string
	}{
		"a later version": {bytes.Replace(p.Module, section, []byte("tollgate.refund\x02"), 1), `section "tollgate.refund" is of version 2, and this build knows version 1`},
		"no section":      {bytes.Replace(p.Module, section, []byte("tollgate.Refund\x01"), 1), "golden case 2 (refund of 100.00 EUR): the module takes no part in refunds"},
		"another outcome": {bytes.Replace(p.Module, []byte("Shop refund"), []byte("Shop Refund"), 1), "golden case 2 (refund of 100.00 EUR): 2.00 (Shop Refund), want 2.00 (Shop refund)"},
	} {
		p := w.refundPublication("rule:shop_fee@v2")
		p.Module = k.module
		w.sign(&p, "team", nil)
		if r := w.want(w.call("POST", "/v1/rules", p.body(t)), 422, "rule_invalid"); !strings.Contains(r.text, strings.ReplaceAll(k.want, `"`, `\"`)) {
			t.Errorf("%s: %s, want %s", what, r.text, k.want)
		}
	}
}

// TestRefundIsPricedByThoseThatTakePart: a refund's pricing cites the rules that
// ran, of all that a payment began with; one that the instance does not have is
// fetched to know.
func TestRefundIsPricedByThoseThatTakePart(t *testing.T) {
	w := newWorld(t)
	plain := w.publish("rule:plain_fee@v1", "3.00")
	p := w.refundPublication("rule:shop_fee@v1")
	w.want(w.call("POST", "/v1/rules", p.body(t)), 201, "")
	shop := wasm.RefOf(tollgate.Citation{Name: "shop_fee", Version: 1}, p.Module)
	pinned := []tollgate.RuleRef{plain, shop}
	for _, c := range []tollgate.Citation{{Name: "card_fee", Version: 2}, {Name: "sandbox", Version: 2}} {
		at := slices.IndexFunc(builtinRefs(), func(ref tollgate.RuleRef) bool { return ref.Rule == c })
		pinned = append(pinned, builtinRefs()[at])
	}
	in := tollgate.PricingInput{Amount: tollgate.Money{Minor: 10_000, Currency: "EUR"}, Payee: "shop.example", Refund: true}
	if w.rules.Has(plain) || w.rules.Has(shop) {
		t.Fatal("the modules are loaded already")
	}
	for _, k := range []struct {
		in    tollgate.PricingInput
		rules []tollgate.RuleRef
		lines string
	}{
		{in, []tollgate.RuleRef{shop, pinned[3]}, "[{Shop refund 2.00 rule:shop_fee@v1} {Refund fee 0.25 rule:sandbox@v2}]"},
		{tollgate.PricingInput{Amount: in.Amount, Payee: in.Payee}, pinned, "[{Shop fee 3.00 rule:plain_fee@v1} {Shop fee 1.00 rule:shop_fee@v1} {Card fee 2.15 rule:card_fee@v2}]"},
	} {
		got, err := w.server.Priced(t.Context(), w.vars["org"], pinned, k.in)
		if err != nil || !slices.Equal(got.Rules, k.rules) || fmt.Sprint(got.Lines) != k.lines || got.Input != k.in {
			t.Errorf("refund %t: %v of %v, %v, want %s of %v", k.in.Refund, got.Lines, got.Rules, err, k.lines, k.rules)
		}
	}
	in.Payee = "keep-refund.test"
	_, err := w.server.Priced(t.Context(), w.vars["org"], pinned, in)
	if err == nil || !strings.Contains(err.Error(), "rule_rejected") {
		t.Errorf("a refund that a rule refuses: %v", err)
	}
	in.Payee = "trap-refund.test"
	for range 5 {
		_, err = w.server.Priced(t.Context(), w.vars["org"], pinned, in)
	}
	if err == nil || !strings.Contains(err.Error(), "rule_failed") {
		t.Errorf("a refund in which a rule fails: %v", err)
	}
	if r := w.call("GET", "/readyz", ""); r.body["failing_rules"] != 1.0 {
		t.Errorf("a rule that fails for refunds: %s", r.text)
	}
}
