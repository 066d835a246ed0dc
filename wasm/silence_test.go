package wasm_test

import (
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/abi"
	"tollgate/wasm/compiler"
)

// TestSilent: a currency in which a rule charges nothing without saying that
// this is meant is found by running it; what is refused, charged or declared
// free is not silence, nor is a rule that charges nobody.
func TestSilent(t *testing.T) {
	const eur = "label = \"Fee\"\n%s\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"1.00\"\n"
	table := func(top string) string { return strings.Replace(eur, "%s", top, 1) }
	others := len(tollgate.Currencies()) - 1
	for name, k := range map[string]struct {
		source string
		silent int
		free   []tollgate.Currency // not among the silent
	}{
		"one currency":              {table(""), others, []tollgate.Currency{"EUR"}},
		"the others refused":        {table(`otherwise = "refuse"`), 0, nil},
		"the others free":           {table(`otherwise = "free"`), 0, nil},
		"the others charged":        {table("") + "[[fee]]\npercentage = \"0.0001\"\n", 0, nil},
		"one free on purpose":       {table("") + "[[fee]]\ncurrencies = [\"CHF\", \"JPY\"]\npercentage = \"0\"\n", others - 2, []tollgate.Currency{"CHF", "EUR", "JPY"}},
		"a maximum of nothing":      {table("") + "[[fee]]\ncurrencies = [\"CHF\"]\npercentage = \"5\"\nmaximum = \"0.00\"\n", others - 1, []tollgate.Currency{"CHF", "EUR"}},
		"all but one refused":       {table("") + "[[refuse]]\nexcept = [\"EUR\", \"GBP\"]\ncode = \"no\"\nmessage = \"No.\"\n", 1, []tollgate.Currency{"EUR", "USD"}},
		"only large amounts":        {table("") + "[[fee]]\ncurrencies = [\"CHF\"]\ntiers = [{up_to = \"1000000.00\", percentage = \"0\"}, {percentage = \"1\"}]\n", others - 1, []tollgate.Currency{"CHF", "EUR"}},
		"a gate":                    {"label = \"Gate\"\n[[refuse]]\ncurrencies = [\"KPW\"]\ncode = \"no\"\nmessage = \"No.\"\n", 0, nil},
		"a gate that refuses all":   {"label = \"Gate\"\notherwise = \"refuse\"\n[[payee]]\nname = \"a.example\"\nthen = \"trap\"\n", 0, nil},
		"a payee that always traps": {table("") + "[[payee]]\nname = \"shop.example\"\nthen = \"trap\"\n", 0, nil},
	} {
		module, _, err := compiler.Build([]byte(k.source))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := tollgate.Citation{Name: "fee", Version: 1}
		engine, err := wasm.NewEngine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ref, err := engine.Load(t.Context(), c, module)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		silent := engine.Silent(ref)
		if len(silent) != k.silent || !slices.IsSorted(silent) {
			t.Errorf("%s: silent about %d: %v, want %d", name, len(silent), silent, k.silent)
		}
		for _, c := range k.free {
			if slices.Contains(silent, c) {
				t.Errorf("%s: silent about %s", name, c)
			}
		}
		report, err := wasm.Examine(t.Context(), c, module, nil)
		if err != nil || !slices.Equal(report.Silent, silent) {
			t.Errorf("%s: the examination says %v, %v", name, report.Silent, err)
		}
		if err := engine.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestOtherwiseRefuses: what a table has no fee for is refused by name.
func TestOtherwiseRefuses(t *testing.T) {
	for _, source := range []string{
		"label = \"Fee\"\notherwise = \"refuse\"\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"1.00\"\n",
		"label = \"Fee\"\notherwise = \"refuse\"\n[[payee]]\nname = \"a.example\"\nthen = \"trap\"\n",
	} {
		module, _, err := compiler.Build([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		trial, err := wasm.NewTrial(t.Context(), tollgate.Citation{Name: "fee", Version: 1}, module, true)
		if err != nil {
			t.Fatal(err)
		}
		o, err := trial.Run(t.Context(), tollgate.PricingInput{Amount: tollgate.Money{Minor: 100, Currency: "CHF"}, Payee: "shop.example"}, true)
		if err != nil || o.Refused != "Payments in this currency are not priced. (currency_not_priced)" {
			t.Errorf("%q: %+v, %v", source, o, err)
		}
		if err := trial.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, source := range []string{
		"label = \"Fee\"\notherwise = \"charge\"\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"1.00\"\n",
		"label = \"Fee\"\notherwise = \"refuse\"\n[[fee]]\npercentage = \"1.00\"\n",
	} {
		if _, _, err := compiler.Build([]byte(source)); err == nil || !strings.Contains(err.Error(), "otherwise") {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// TestPackKeepsWhatIsFree: a module of another compiler says in its section, or in
// its description, what it leaves free on purpose.
func TestPackKeepsWhatIsFree(t *testing.T) {
	plain, _, err := compiler.Build([]byte("label = \"Fee\"\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"1.00\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	described, ok, err := compiler.ParsePackage([]byte("module = \"x.wasm\"\nfree = [\"CHF\"]\n"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	packed, err := compiler.Pack(plain, "", described.Free)
	if err != nil {
		t.Fatal(err)
	}
	again, err := compiler.Pack(packed, "", abi.Free{})
	if err != nil || string(again) != string(packed) {
		t.Errorf("packed again it is %q, %v", again, err)
	}
	if _, err := compiler.Pack(packed, "", described.Free); err == nil {
		t.Error("a second section is taken")
	}
	report, err := wasm.Examine(t.Context(), tollgate.Citation{Name: "fee", Version: 1}, packed, nil)
	if err != nil || slices.Contains(report.Silent, "CHF") || !slices.Contains(report.Silent, "GBP") {
		t.Errorf("%v, %v", report.Silent, err)
	}
	for _, source := range []string{"module = \"x.wasm\"\nfree = [\"FOO\"]\n", "module = \"x.wasm\"\notherwise = \"refuse\"\n"} {
		if _, _, err := compiler.ParsePackage([]byte(source)); err == nil {
			t.Errorf("%q is taken", source)
		}
	}
}
