package compiler_test

import (
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// What is explained is what the module charges, in every golden case of the rules that
// are tables.
func TestWorkingIsWhatTheModuleCharges(t *testing.T) {
	all, err := wasm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, r := range all {
		_, table, err := compiler.Build(r.Source)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Golden {
			in, err := c.Input()
			if err != nil {
				t.Fatal(err)
			}
			steps, fee, ok := table.Working(in)
			charged := "no line"
			if ok && fee.Minor > 0 {
				charged = fee.String()
			}
			want := c.Outcome()
			if c.Refused != "" || c.Failed {
				want = "no line"
			}
			if !strings.HasPrefix(want, charged) {
				t.Errorf("%s %s: %v, %s; the module: %s", r.Citation, c.Name(), steps, charged, want)
			}
			looked++
		}
	}
	if looked < 20 {
		t.Errorf("looked at %d cases", looked)
	}
}

// The steps are those of the table's description.
func TestWorkingSteps(t *testing.T) {
	_, table, err := compiler.Build([]byte(`label = "Fee"
[[fee]]
currencies = ["EUR"]
tiers = [{ up_to = "100.00", percentage = "1.4", fixed = "0.25" }, { percentage = "1.2345" }]
minimum = "0.30"
maximum = "50.00"`))
	if err != nil {
		t.Fatal(err)
	}
	for amount, want := range map[string]string{
		"100.00":  "tier 1 of 2; 1.40 % of 100.00 is 1.40; plus 0.25 fixed is 1.65",
		"1.00":    "tier 1 of 2; 1.40 % of 1.00 is 0.01; plus 0.25 fixed is 0.26; raised to the minimum of 0.30",
		"9999.99": "tier 2 of 2; 1.2345 % of 9999.99 is 123.45; lowered to the maximum of 50.00",
	} {
		money, err := tollgate.ParseMoney(amount, "EUR")
		if err != nil {
			t.Fatal(err)
		}
		if steps, _, _ := table.Working(tollgate.PricingInput{Amount: money, Payee: "shop.example"}); strings.Join(steps, "; ") != want {
			t.Errorf("%s: %s", amount, strings.Join(steps, "; "))
		}
	}
}
