package wasm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm/compiler"
)

// refusedTables are tables that Build must refuse, with a piece of the reason.
var refusedTables = map[string]struct{ source, reason string }{
	"nothing":                 {``, "label"},
	"a label alone":           {`label = "Fee"`, "no [[fee]]"},
	"an empty label":          {"label = \"\"\n[[fee]]\npercentage = \"1\"", "label"},
	"a label with a tab":      {"label = \"a\\tb\"\n[[fee]]\npercentage = \"1\"", "label"},
	"a long label":            {"label = \"" + strings.Repeat("a", 65) + "\"\n[[fee]]\npercentage = \"1\"", "label"},
	"no TOML":                 {`{"label": "Fee"}`, "toml"},
	"an unknown key":          {fee(`percent = "1"`), "unknown key fee.percent"},
	"a key in capitals":       {fee(`Percentage = "1"`), "unknown key fee.Percentage"},
	"an unknown table":        {fee(`percentage = "1"`) + "\n[other]\nx = 1", "unknown key other"},
	"a citation":              {"rule = \"rule:card_fee@v1\"\n" + fee(`percentage = "1"`), "unknown key rule"},
	"a float":                 {fee(`percentage = 1.4`), "incompatible types"},
	"a percentage sign":       {fee(`percentage = "1%"`), "percentage"},
	"five places":             {fee(`percentage = "1.00001"`), "percentage"},
	"a negative percentage":   {fee(`percentage = "-1"`), "percentage"},
	"a percentage above 100":  {fee(`percentage = "100.0001"`), "above 100"},
	"a leading zero":          {fee(`percentage = "01"`), "percentage"},
	"an exponent":             {fee(`percentage = "1e1"`), "percentage"},
	"NaN":                     {fee(`percentage = "NaN"`), "percentage"},
	"other digits":            {fee(`percentage = "١"`), "percentage"},
	"a fee of nothing":        {fee(`currencies = ["EUR"]`), "charges nothing"},
	"a lower-case currency":   {fee(`currencies = ["eur"]` + "\n" + `fixed = "1"`), "currency"},
	"gold":                    {fee(`currencies = ["XAU"]` + "\n" + `fixed = "1"`), "currency"},
	"a currency twice":        {fee(`currencies = ["EUR", "EUR"]` + "\n" + `fixed = "1"`), "EUR has a fee already"},
	"half a yen":              {fee(`currencies = ["JPY"]` + "\n" + `fixed = "0.5"`), "JPY: fixed"},
	"an amount of 16 digits":  {fee(`currencies = ["EUR"]` + "\n" + `fixed = "99999999999999.00"`), "fixed"},
	"a negative amount":       {fee(`currencies = ["EUR"]` + "\n" + `minimum = "-1"`), "minimum"},
	"fixed for all":           {fee(`fixed = "1"`), "without currencies"},
	"minimum for all":         {fee(`percentage = "1"` + "\n" + `minimum = "1"`), "without currencies"},
	"tiers for all":           {fee(`tiers = [{ up_to = "1", percentage = "1" }, { percentage = "2" }]`), "without currencies"},
	"two for all":             {fee(`percentage = "1"`) + "\n[[fee]]\npercentage = \"2\"", "second fee"},
	"minimum above maximum":   {fee(`currencies = ["EUR"]` + "\n" + `minimum = "2"` + "\n" + `maximum = "1"`), "above maximum"},
	"tiers and a percentage":  {fee(`percentage = "1"` + "\n" + `tiers = [{ percentage = "1" }]`), "stand in the tiers"},
	"up_to without tiers":     {fee(`percentage = "1"` + "\n" + `up_to = "1"`), "up_to"},
	"a last tier with up_to":  {fee(`currencies = ["EUR"]` + "\n" + `tiers = [{ up_to = "1", percentage = "1" }]`), "but the last"},
	"a tier without up_to":    {fee(`currencies = ["EUR"]` + "\n" + `tiers = [{ percentage = "1" }, { percentage = "2" }]`), "but the last"},
	"tiers that do not rise":  {fee(`currencies = ["EUR"]` + "\n" + `tiers = [{ up_to = "1" }, { up_to = "1.00" }, { percentage = "2" }]`), "not above"},
	"17 tiers":                {fee(`tiers = [` + strings.Repeat(`{ percentage = "1" },`, 17) + `]`), "17 tiers"},
	"65 fees":                 {fee(`percentage = "1"`) + strings.Repeat("\n[[fee]]\npercentage = \"1\"", 64), "65 [[fee]]"},
	"refuse without a list":   {"label = \"x\"\n[[refuse]]\ncode = \"a\"\nmessage = \"b\"", "either currencies or except"},
	"refuse with two lists":   {"label = \"x\"\n[[refuse]]\ncurrencies = [\"EUR\"]\nexcept = [\"USD\"]\ncode = \"a\"\nmessage = \"b\"", "either currencies or except"},
	"refuse without a code":   {"label = \"x\"\n[[refuse]]\ncurrencies = [\"EUR\"]\nmessage = \"b\"", "code"},
	"refuse without words":    {"label = \"x\"\n[[refuse]]\ncurrencies = [\"EUR\"]\ncode = \"a\"", "message"},
	"refuse twice the same":   {"label = \"x\"\n[[refuse]]\ncurrencies = [\"EUR\", \"EUR\"]\ncode = \"a\"\nmessage = \"b\"", "stands twice"},
	"a payee in capitals":     {payee("Trap.test", "trap"), "name"},
	"a payee with a space":    {payee("trap test", "trap"), "name"},
	"a payee of 256":          {payee(strings.Repeat("a", 256), "trap"), "name"},
	"a payee without a name":  {payee("", "trap"), "name"},
	"a payee that pays":       {payee("a", "pay"), "then"},
	"a trap with a message":   {payee("a", "trap") + "\nmessage = \"no\"", "belong to refuse"},
	"a payee refused in vain": {payee("a", "refuse"), "code"},
	"too much":                {"# " + strings.Repeat("x", 70_000), "at most 65536"},
	"deep nesting":            {"x = " + strings.Repeat("[", 30_000), ""},
}

func fee(lines string) string { return "label = \"Fee\"\n[[fee]]\n" + lines }

func payee(name, then string) string {
	return fmt.Sprintf("label = \"Fee\"\n[[payee]]\nname = %q\nthen = %q", name, then)
}

func TestBuildRefuses(t *testing.T) {
	for what, r := range refusedTables {
		module, _, err := compiler.Build([]byte(r.source))
		if err == nil || module != nil || !strings.Contains(err.Error(), r.reason) || !strings.HasPrefix(err.Error(), "table: ") {
			t.Errorf("%s: error %v, want %q", what, err, r.reason)
		}
	}
}

// TestTableKinds runs what the random tables do not have: refusals, payees,
// lists of exceptions, free tiers.
func TestTableKinds(t *testing.T) {
	source := `
label = "Kinds"
[[fee]]
currencies = ["EUR", "JPY"]
tiers = [{ up_to = "10" }, { percentage = "10" }]
[[refuse]]
currencies = ["USD"]
code = "no_dollars"
message = "No dollars."
[[refuse]]
except = ["EUR", "JPY", "USD", "GBP"]
code = "unknown"
message = "Only EUR, JPY and GBP."
[[payee]]
name = "a-longer-name.refuse.test"
then = "refuse"
code = "payee"
message = "Not this one."
[[payee]]
name = "12345678"
then = "trap"
[[payee]]
name = "x"
then = "loop"
`
	module, _ := build(t, source)
	c := tollgate.Citation{Name: "kinds", Version: 1}
	for name, e := range engines(t) {
		load(t, e, c, module)
		for _, k := range []struct {
			minor    int64
			currency tollgate.Currency
			payee    string
			want     string
		}{
			{1000, "EUR", "shop", "[]"},
			{1001, "EUR", "shop", "[{Kinds 1.00 rule:kinds@v1}]"},
			{10, "JPY", "shop", "[]"},
			{15, "JPY", "shop", "[{Kinds 2 rule:kinds@v1}]"}, // 1.5 to even
			{25, "JPY", "shop", "[{Kinds 2 rule:kinds@v1}]"}, // 2.5 to even
			{35, "JPY", "shop", "[{Kinds 4 rule:kinds@v1}]"}, // 3.5 to even
			{9999, "GBP", "shop", "[]"},
			{1000, "USD", "shop", "rule_rejected: No dollars. (no_dollars)"},
			{1000, "SEK", "shop", "rule_rejected: Only EUR, JPY and GBP. (unknown)"},
			{1000, "EUR", "a-longer-name.refuse.test", "rule_rejected: Not this one. (payee)"},
			{1000, "USD", "A-Longer-Name.REFUSE.test", "rule_rejected: Not this one. (payee)"},
			{1000, "EUR", "a-longer-name.refuse.tesT", "rule_rejected: Not this one. (payee)"},
			{1000, "EUR", "a\rlonger-name.refuse.test", "[]"}, // \r with a bit set is -
			{1000, "EUR", "a-longer-name.refuse.tes", "[]"},
			{1000, "EUR", "b-longer-name.refuse.test", "[]"},
			{1000, "EUR", "a-longer-name.refuse.tast", "[]"},
			{1000, "EUR", "12345678", "rule_failed: The pricing rule rule:kinds@v1 could not be evaluated."},
			{1000, "EUR", "\x112345678", "[]"},
			{1000, "EUR", "X", "rule_failed: The pricing rule rule:kinds@v1 could not be evaluated."},
			{1000, "EUR", "y", "[]"},
			{1000, "EUR", "", "[]"},
		} {
			lines, err := e.Quote(nil, e.Refs(c), input(k.minor, k.currency, k.payee))
			got := fmt.Sprint(lines)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, k.want) {
				t.Errorf("%s: %d %s to %q: %s, want %s", name, k.minor, k.currency, k.payee, got, k.want)
			}
		}
	}
}

// TestLargestTable: a fee for each of 64 sets of currencies with all tiers
// still is a module within the limits.
func TestLargestTable(t *testing.T) {
	all := slices.Sorted(slices.Values(tollgate.Currencies()))
	var b strings.Builder
	b.WriteString("label = \"Large\"\n")
	for i := range 64 {
		fmt.Fprintf(&b, "[[fee]]\ncurrencies = [%q, %q]\ntiers = [", all[2*i], all[2*i+1])
		for tier := range 7 {
			fmt.Fprintf(&b, "{ up_to = \"%d\", percentage = \"1.0%d\", fixed = \"%d\" },", 1000+tier, tier, i)
		}
		b.WriteString("{ percentage = \"2\" }]\n")
	}
	module, _ := build(t, b.String())
	e := engines(t)["compiler"]
	c := tollgate.Citation{Name: "large", Version: 1}
	load(t, e, c, module)
	lines, fuel, err := e.OneInstance(c, input(1, all[127], "x"))
	if err != nil || len(lines) != 1 {
		t.Errorf("%v, %v", lines, err)
	}
	t.Logf("%d bytes, %d units of fuel", len(module), fuel)
}
