package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/abi"
	"tollgate/wasm/compiler"
)

func refundOf(minor int64, c tollgate.Currency, payee string) tollgate.PricingInput {
	in := input(minor, c, payee)
	in.Refund = true
	return in
}

// participant is a guest that takes part in refunds.
func participant(g guest) []byte {
	g.custom = [][]byte{customSection("tollgate.manifest", goodManifest), customSection("tollgate.refund", "\x01")}
	return g.bytes()
}

// TestRefundRequest: a module sees the kind at 60, and the lines before it are
// those of the modules that take part in the refund. The others are not run.
func TestRefundRequest(t *testing.T) {
	at := func(offset int64) guest {
		return guest{quote: join(
			i32(1024+16), i32(1024+offset), []byte{0x29, 0, 0}, i64(1<<32-1), []byte{0x83, 0x37, 0, 0},
			put(two(0, 1), 0), i32(1024+24), i64(0), []byte{0x37, 0, 0}, i32(1024+32), i64(0), []byte{0x37, 0, 0}, i32(40),
		)}
	}
	for name, e := range engines(t) {
		cite := func(name string) tollgate.Citation { return tollgate.Citation{Name: name, Version: 1} }
		kind := load(t, e, cite("kind"), participant(at(60)))
		traps := load(t, e, cite("traps"), guest{quote: []byte{0x00}}.bytes())
		fifty := load(t, e, cite("fifty"), says(40, two(0, 1), 0, 50, 0, 0).bytes())
		five := load(t, e, cite("five"), participant(says(40, two(0, 1), 0, 5, 0, 0)))
		before := load(t, e, cite("before"), participant(at(44)))
		sum := load(t, e, cite("sum"), participant(at(48)))
		capture := load(t, e, cite("capture"), participant(at(56)))

		for _, k := range []struct {
			what  string
			rules []tollgate.RuleRef
			in    tollgate.PricingInput
			want  string
		}{
			{"a payment", []tollgate.RuleRef{kind, fifty}, input(100, "EUR", "x"), "[0.00 0.50]"},
			{"a capture", []tollgate.RuleRef{kind, capture}, tollgate.PricingInput{Amount: tollgate.Money{Minor: 1, Currency: "EUR"}, CaptureIndex: 7}, "[0.00 0.07]"},
			{"a refund", []tollgate.RuleRef{traps, fifty, kind, five, before, sum, capture}, refundOf(100, "EUR", "x"), "[0.01 0.05 0.02 0.08 0.00]"},
			{"a refund in which no rule takes part", []tollgate.RuleRef{traps, fifty}, refundOf(100, "EUR", "x"), "[]"},
		} {
			lines, err := e.Quote(nil, k.rules, k.in)
			got := []string{}
			for _, l := range lines {
				got = append(got, l.Amount.String())
			}
			if err != nil || fmt.Sprint(got) != k.want {
				t.Errorf("%s, %s: %v, %v, want %s", name, k.what, got, err, k.want)
			}
		}
		taking, err := e.Refunding([]tollgate.RuleRef{traps, kind, fifty, five})
		if err != nil || !slices.Equal(taking, []tollgate.RuleRef{kind, five}) {
			t.Errorf("%s: %v take part, %v", name, taking, err)
		}
		unknown := tollgate.RuleRef{Rule: cite("nothing")}
		if taking, err := e.Refunding([]tollgate.RuleRef{kind, unknown}); taking != nil || !errors.Is(err, wasm.ErrNotLoaded) || code(err) != tollgate.CodeRuleFailed {
			t.Errorf("%s: without a module %v, %v", name, taking, err)
		}
		if lines, err := e.Quote(nil, []tollgate.RuleRef{kind, unknown}, refundOf(100, "EUR", "x")); len(lines) > 0 || !errors.Is(err, wasm.ErrNotLoaded) {
			t.Errorf("%s: without a module %v, %v", name, lines, err)
		}
	}
}

// refundSections are contents of the section that no build takes.
var refundSections = map[string]struct {
	sections []string
	reason   string
}{
	"a later version": {[]string{"\x02"}, `section "tollgate.refund" is of version 2, and this build knows version 1`},
	"version zero":    {[]string{"\x00"}, "version 0"},
	"nothing":         {[]string{""}, "has 0 bytes, not one with its version, 1"},
	"two bytes":       {[]string{"\x01\x00"}, "has 2 bytes"},
	"JSON":            {[]string{`{"version":1}`}, "has 13 bytes"},
	"two":             {[]string{"\x01", "\x01"}, `2 sections "tollgate.refund", at most 1 is allowed`},
}

func (g guest) refund(sections ...string) []byte {
	g.custom = [][]byte{customSection("tollgate.manifest", goodManifest)}
	for _, s := range sections {
		g.custom = append(g.custom, customSection("tollgate.refund", s))
	}
	return g.bytes()
}

// TestRefundSection: what cannot be understood is refused when it is published,
// and when it is loaded.
func TestRefundSection(t *testing.T) {
	e := engines(t)["compiler"]
	for what, k := range refundSections {
		module := says(16, 0, 0).refund(k.sections...)
		_, err := wasm.Examine(t.Context(), hostile, module, nil)
		var invalid *wasm.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, k.reason) {
			t.Errorf("%s: %v, want %q", what, err, k.reason)
		}
		if _, err := e.Load(t.Context(), hostile, module); err == nil || !strings.Contains(err.Error(), k.reason) {
			t.Errorf("%s: loaded, %v", what, err)
		}
	}
	for _, k := range []struct {
		module []byte
		takes  bool
	}{{says(16, 0, 0).bytes(), false}, {says(16, 0, 0).refund("\x01"), true}} {
		m, err := abi.Parse(k.module)
		if err != nil || m.Refunds != k.takes {
			t.Errorf("it takes part: %t, %v", m.Refunds, err)
		}
		if r, err := wasm.Examine(t.Context(), hostile, k.module, nil); err != nil || r.Refunds != k.takes {
			t.Errorf("it takes part: %t, %v", r.Refunds, err)
		}
	}
}

// TestPackKeepsRefunds: a module of another compiler says in its section, or in
// its description, that it takes part in refunds.
func TestPackKeepsRefunds(t *testing.T) {
	plain, said := says(16, 0, 0).bytes(), says(16, 0, 0).refund("\x01")
	described, ok, err := compiler.ParsePackage([]byte("module = \"x.wasm\"\nrefunds = true\n"))
	if err != nil || !ok || !described.Refunds {
		t.Fatal(described, ok, err)
	}
	packed, err := described.Pack(plain)
	if err != nil || string(packed) != string(said) {
		t.Errorf("packed %q, %v, want %q", packed, err, said)
	}
	kept, err := compiler.Pack(said, "", abi.Free{})
	if err != nil || string(kept) != string(said) {
		t.Errorf("packed %q, %v, want %q", kept, err, said)
	}
	if _, err := described.Pack(said); err == nil || !strings.Contains(err.Error(), "refunds is given") {
		t.Errorf("a second section: %v", err)
	}
	if _, err := compiler.Pack(says(16, 0, 0).refund("\x02"), "", abi.Free{}); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a later version: %v", err)
	}
}

// bothTables is a table for payments and one for refunds.
func bothTables(payments, refunds string) string {
	head, fees, _ := strings.Cut(payments, "\n")
	_, refunds, _ = strings.Cut(refunds, "\n")
	return head + "\nrefunds = true\n" + fees + "[refund]\nlabel = \"Refund fee\"\n" + strings.ReplaceAll(refunds, "[[fee]]", "[[refund.fee]]")
}

// TestRefundTableExact prices random payments and refunds with random tables for
// both, and compares every fee with math/big, and the compiler with the
// interpreter.
func TestRefundTableExact(t *testing.T) {
	tables, each := 120, 300
	if raceEnabled {
		tables = 20
	}
	all := engines(t)
	r := rand.New(rand.NewPCG(5, 6))
	for n := range tables {
		source := bothTables(randomTable(r), randomTable(r))
		if n%4 == 0 { // one table for both
			source = strings.Replace(randomTable(r), "\n", "\nrefunds = true\n", 1)
		}
		module, table := build(t, source)
		c := tollgate.Citation{Name: "random", Version: n + 1}
		rules := []tollgate.RuleRef{wasm.RefOf(c, module)}
		for _, e := range all {
			load(t, e, c, module)
		}
		for i := range each {
			currency := tableCurrencies[r.IntN(len(tableCurrencies))]
			of, label := table, "Fee"
			in := input(0, currency, "shop.example")
			if in.Refund = i%2 == 0; in.Refund {
				of = *table.ForRefunds()
				label = of.Label
			}
			in.Amount.Minor = randomAmount(r, of, currency)
			want := "[]"
			if fee := judge(t, of, in.Amount.Minor, currency); fee != nil && fee.Cmp(big.NewInt(tollgate.MaxMinor)) > 0 {
				want = string(tollgate.CodeRuleFailed)
			} else if fee != nil {
				want = fmt.Sprint([]tollgate.FeeLine{{Label: label, Amount: tollgate.Money{Minor: fee.Int64(), Currency: currency}, Rule: c}})
			}
			for name, e := range all {
				if name == "interpreter" && i%5 > 1 {
					continue
				}
				lines, err := e.Quote(nil, rules, in)
				got := fmt.Sprint(lines)
				if err != nil {
					got = string(code(err))
				}
				if got != want {
					t.Fatalf("%s: %v %s, refund %t: %s, want %s\n%s", name, in.Amount, currency, in.Refund, got, want, source)
				}
			}
		}
	}
}

// TestRefundTableKinds: a refund has refusals, payees and a label of its own, and
// a table that prices both alike has only the section more.
func TestRefundTableKinds(t *testing.T) {
	const payments = `label = "Fee"
otherwise = "refuse"
%s
[[fee]]
currencies = ["EUR"]
fixed = "1.00"
[[payee]]
name = "stop.test"
then = "refuse"
code = "stop"
message = "No payments."
`
	module, _ := build(t, fmt.Sprintf(payments, "refunds = true")+`
[refund]
otherwise = "refuse"
[[refund.fee]]
currencies = ["EUR"]
fixed = "0.25"
[[refund.fee]]
currencies = ["GBP"]
percentage = "1"
[[refund.refuse]]
currencies = ["USD"]
code = "no_dollars"
message = "No dollars back."
[[refund.payee]]
name = "back.test"
then = "refuse"
code = "back"
message = "Nothing back."
`)
	alike, _ := build(t, fmt.Sprintf(payments, "refunds = true"))
	plain, _ := build(t, fmt.Sprintf(payments, ""))
	section := append([]byte{0, 17, 15}, "tollgate.refund\x01"...)
	if want := append(slices.Clone(plain), section...); string(alike) != string(want) {
		t.Errorf("one table for both is %q, want %q", alike, want)
	}
	first, second, third := tollgate.Citation{Name: "both", Version: 1}, tollgate.Citation{Name: "both", Version: 2}, tollgate.Citation{Name: "both", Version: 3}
	for name, e := range engines(t) {
		load(t, e, first, module)
		load(t, e, second, alike)
		load(t, e, third, plain)
		for _, k := range []struct {
			rule tollgate.Citation
			in   tollgate.PricingInput
			want string
		}{
			{first, input(1000, "EUR", "shop"), "[{Fee 1.00 rule:both@v1}]"},
			{first, refundOf(1000, "EUR", "shop"), "[{Fee 0.25 rule:both@v1}]"},
			{first, refundOf(1000, "GBP", "shop"), "[{Fee 0.10 rule:both@v1}]"},
			{first, input(1000, "GBP", "shop"), "rule_rejected: Payments in this currency are not priced. (currency_not_priced)"},
			{first, refundOf(1000, "CHF", "shop"), "rule_rejected: Refunds in this currency are not priced. (currency_not_priced)"},
			{first, refundOf(1000, "USD", "shop"), "rule_rejected: No dollars back. (no_dollars)"},
			{first, input(1000, "EUR", "stop.test"), "rule_rejected: No payments. (stop)"},
			{first, refundOf(1000, "EUR", "stop.test"), "[{Fee 0.25 rule:both@v1}]"},
			{first, input(1000, "EUR", "back.test"), "[{Fee 1.00 rule:both@v1}]"},
			{first, refundOf(1000, "EUR", "Back.Test"), "rule_rejected: Nothing back. (back)"},
			{second, refundOf(1000, "EUR", "shop"), "[{Fee 1.00 rule:both@v2}]"},
			{second, refundOf(1000, "EUR", "stop.test"), "rule_rejected: No payments. (stop)"},
			{third, refundOf(1000, "EUR", "stop.test"), "[]"},
		} {
			lines, err := e.Quote(nil, e.Refs(k.rule), k.in)
			got := fmt.Sprint(lines)
			if err != nil {
				got = err.Error()
			}
			if got != k.want {
				t.Errorf("%s: %s, %s %s to %s, refund %t: %s, want %s", name, k.rule, k.in.Amount, k.in.Amount.Currency, k.in.Payee, k.in.Refund, got, k.want)
			}
		}
	}
}

// TestRefundAlone: a rule may charge for refunds only. It makes no line of
// payments, and is silent about no currency.
func TestRefundAlone(t *testing.T) {
	module, table := build(t, "label = \"Fee\"\nrefunds = true\n[refund]\n[[refund.fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1\"\n"+
		"[[refund.payee]]\nname = \"keep.test\"\nthen = \"refuse\"\ncode = \"no\"\nmessage = \"No.\"")
	report, err := wasm.Examine(t.Context(), hostile, module, []wasm.GoldenCase{
		{Amount: "5.00", Currency: "EUR"},
		{Kind: wasm.GoldenRefund, Amount: "5.00", Currency: "EUR", Lines: []wasm.GoldenLine{{Label: "Fee", Amount: "1.00"}}},
		{Kind: wasm.GoldenRefund, Amount: "5.00", Currency: "USD"},
		{Amount: "5.00", Currency: "EUR", Payee: "keep.test"},
		{Kind: wasm.GoldenRefund, Amount: "5.00", Currency: "EUR", Payee: "keep.test", Refused: "No. (no)"},
	})
	if err != nil || len(report.Silent) > 0 || !report.Refunds {
		t.Errorf("%+v, %v", report, err)
	}
	for kind, s := range map[string]*compiler.Table{"payments": &table, "refunds": table.ForRefunds(), "no refunds": (&compiler.Table{}).ForRefunds()} {
		shape, err := s.Shape("EUR")
		if err != nil || len(shape.Tiers) != 1 || len(s.Fees) != map[string]int{"refunds": 1}[kind] {
			t.Errorf("%s: %+v, %v", kind, shape, err)
		}
	}
}

func TestBuildRefusesRefunds(t *testing.T) {
	const refunds = "label = \"Fee\"\nrefunds = true\n[[fee]]\npercentage = \"1\"\n[refund]\n"
	for what, r := range map[string]struct{ source, reason string }{
		"a table without the word":  {"label = \"Fee\"\n[[fee]]\npercentage = \"1\"\n[refund]\n[[refund.fee]]\npercentage = \"1\"", "does not say refunds = true"},
		"the word without a fee":    {"label = \"Fee\"\nrefunds = true", "it has no [[fee]]"},
		"an empty table":            {refunds, "refund: it has no [[fee]]"},
		"a table in the table":      {refunds + "[refund.refund]\n[[refund.refund.fee]]\npercentage = \"1\"", "do not stand in [refund]"},
		"the word in the table":     {refunds + "refunds = true\n[[refund.fee]]\npercentage = \"1\"", "do not stand in [refund]"},
		"an unknown key":            {refunds + "[[refund.fee]]\npercent = \"1\"", "unknown key refund.fee.percent"},
		"a key in capitals":         {refunds + "[[refund.Fee]]\npercentage = \"1\"", "unknown key refund.Fee"},
		"a bad percentage":          {refunds + "[[refund.fee]]\npercentage = \"101\"", "refund: fee 1: percentage 101 is above 100"},
		"a bad label":               {refunds + "label = \"a\\tb\"\n[[refund.fee]]\npercentage = \"1\"", "refund: manifest: a label"},
		"a word that is no boolean": {"label = \"Fee\"\nrefunds = \"yes\"\n[[fee]]\npercentage = \"1\"", "incompatible types"},
		"otherwise that is unknown": {refunds + "otherwise = \"charge\"\n[[refund.fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1\"", "refund: otherwise"},
		"two fees for one currency": {refunds + strings.Repeat("[[refund.fee]]\ncurrencies = [\"EUR\"]\nfixed = \"1\"\n", 2), "refund: fee 2: EUR has a fee already"},
	} {
		module, _, err := compiler.Build([]byte(r.source))
		if err == nil || module != nil || !strings.Contains(err.Error(), r.reason) {
			t.Errorf("%s: error %v, want %q", what, err, r.reason)
		}
	}
}

// TestGoldenKinds: a case says what it prices. One of a payment may say so, and
// has the same digest.
func TestGoldenKinds(t *testing.T) {
	digest := func(text string) string {
		cases, err := wasm.ParseGolden([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		kept, sum, err := wasm.GoldenDigest(cases)
		if err != nil {
			t.Fatal(err)
		}
		return string(kept) + " " + sum
	}
	plain := digest(`[{"amount":"1.00","currency":"EUR"}]`)
	if want := `[{"amount":"1.00","currency":"EUR"}] c571f7ebd0bea3623ea6f4b706053733c0e99034ee9625b0b1b743ff970d823f`; plain != want {
		t.Errorf("%s, want %s", plain, want)
	}
	if said := digest(`[{"kind":"payment","amount":"1.00","currency":"EUR"}]`); said != plain {
		t.Errorf("%s, want %s", said, plain)
	}
	if refund := digest(`[{"kind":"refund","amount":"1.00","currency":"EUR"}]`); !strings.HasPrefix(refund, `[{"kind":"refund","amount":"1.00","currency":"EUR"}] `) {
		t.Error(refund)
	}
	for _, kind := range []string{`"capture"`, `""`, `1`, `"Refund"`} {
		if _, err := wasm.ParseGolden([]byte(`[{"kind":` + kind + `,"amount":"1.00","currency":"EUR"}]`)); err == nil {
			t.Errorf("the kind %s is taken", kind)
		}
	}
	one := wasm.GoldenCase{Kind: wasm.GoldenRefund, Amount: "1.00", Currency: "EUR"}
	if one.Name() != "refund of 1.00 EUR" {
		t.Error(one.Name())
	}
	_, err := wasm.Examine(t.Context(), hostile, says(16, 0, 0).bytes(), []wasm.GoldenCase{one})
	if want := `golden case 1 (refund of 1.00 EUR): the module takes no part in refunds: it has no section "tollgate.refund"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := wasm.Examine(t.Context(), hostile, says(16, 0, 0).refund("\x01"), []wasm.GoldenCase{one}); err != nil {
		t.Error(err)
	}
}

// TestRefundAgain: a refund's evaluation gives the same lines again from the
// rules that it cites, and from all that the payment was created with.
func TestRefundAgain(t *testing.T) {
	e := engines(t)["compiler"]
	table, _ := build(t, "label = \"Fee\"\nrefunds = true\n[[fee]]\npercentage = \"1\"\n[refund]\n[[refund.fee]]\npercentage = \"2\"")
	pinned := []tollgate.RuleRef{
		load(t, e, tollgate.Citation{Name: "fifty", Version: 1}, says(40, two(0, 1), 0, 50, 0, 0).bytes()),
		load(t, e, tollgate.Citation{Name: "both", Version: 1}, table),
	}
	for kind, want := range map[tollgate.EvaluationKind]string{
		tollgate.EvaluationAuthorization: "[{Guest 0.50 rule:fifty@v1} {Fee 0.01 rule:both@v1}]",
		tollgate.EvaluationCapture:       "[{Guest 0.50 rule:fifty@v1} {Fee 0.01 rule:both@v1}]",
		tollgate.EvaluationRefund:        "[{Fee 0.02 rule:both@v1}]",
	} {
		ev := &tollgate.Evaluation{Kind: kind, Input: tollgate.EvaluationInput{Amount: tollgate.Money{Minor: 100, Currency: "EUR"}, Currency: "EUR", Payee: "x"}, Rules: pinned}
		for range 2 {
			lines, err := e.Reexecute(ev)
			if err != nil || fmt.Sprint(lines) != want {
				t.Errorf("%s: %v, %v, want %s", kind, lines, err, want)
			}
			if kind == tollgate.EvaluationRefund {
				ev.Rules, _ = e.Refunding(pinned)
			}
		}
	}
}

// TestBacktestRefunds: a candidate is run for refunds if it takes part in them,
// whether the rule in whose place it stands did or not.
func TestBacktestRefunds(t *testing.T) {
	e := engines(t)["compiler"]
	percent := func(name, payments, refunds string) tollgate.RuleRef {
		source := "label = \"Fee\"\n[[fee]]\npercentage = \"" + payments + "\"\n"
		if refunds != "" {
			source = "refunds = true\n" + source + "[refund]\n[[refund.fee]]\npercentage = \"" + refunds + "\"\n"
		}
		module, _ := build(t, source)
		return load(t, e, tollgate.Citation{Name: name, Version: 1}, module)
	}
	with, without := percent("with", "1", "2"), percent("without", "1", "")
	dearer, none := percent("dearer", "1", "5"), percent("none", "1", "")
	pinned := []tollgate.RuleRef{with, without}
	amount := tollgate.Money{Minor: 10_000, Currency: "EUR"}
	ticket := &tollgate.Ticket{ID: "tkt_1", MerchantAccountID: "ma_1", Amount: amount, Currency: "EUR", Payee: "x", Total: tollgate.Money{Currency: "EUR"}}
	evaluate := func(kind tollgate.EvaluationKind, in tollgate.PricingInput, rules []tollgate.RuleRef) {
		lines, err := e.Quote(nil, rules, in)
		if err != nil {
			t.Fatal(err)
		}
		ticket.Evaluate(kind, in, rules, lines, "evt_1", tollgate.Instant(0))
	}
	taking, err := e.Refunding(pinned)
	if err != nil {
		t.Fatal(err)
	}
	evaluate(tollgate.EvaluationAuthorization, input(10_000, "EUR", "x"), pinned)
	evaluate(tollgate.EvaluationCapture, input(10_000, "EUR", "x"), pinned)
	evaluate(tollgate.EvaluationRefund, refundOf(4_000, "EUR", "x"), taking)
	for _, k := range []struct {
		reference, candidate tollgate.RuleRef
		before, after        string
	}{
		{with, dearer, "0.80", "2.00"},
		{with, none, "0.80", "0.00"},
		{without, dearer, "0.80", "2.80"},
		{without, none, "0.80", "0.80"},
	} {
		b := &wasm.Backtest{Engine: e, Reference: k.reference.Rule, Candidate: k.candidate}
		r, err := b.Run(sequence([]*tollgate.Ticket{ticket}))
		if err != nil || r.Affected != 3 || r.Broken != 0 || len(r.Missing) != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		g := r.Groups[wasm.BacktestKey{MerchantAccountID: "ma_1", Currency: "EUR", Kind: tollgate.EvaluationRefund}]
		if g == nil || g.Count != 1 || g.Before.In("EUR") != k.before || g.After.In("EUR") != k.after {
			t.Errorf("%s for %s: %+v, want %s and then %s", k.candidate.Rule, k.reference.Rule, g, k.before, k.after)
		}
	}
}

// TestRefundFuel: a refund's pricing ends as a payment's does, and leaves nothing
// for the next call.
func TestRefundFuel(t *testing.T) {
	module, _ := build(t, "label = \"Fee\"\nrefunds = true\n[[fee]]\npercentage = \"1\"\n[refund]\nlabel = \""+strings.Repeat("R", 64)+"\"\n[[refund.fee]]\npercentage = \"2\"")
	golden := []wasm.GoldenCase{
		{Amount: "1.00", Currency: "EUR", Payee: strings.Repeat("p", 255), Lines: []wasm.GoldenLine{{Label: "Fee", Amount: "0.01"}}},
		{Kind: wasm.GoldenRefund, Amount: "1.00", Currency: "EUR", Lines: []wasm.GoldenLine{{Label: strings.Repeat("R", 64), Amount: "0.02"}}},
		{Kind: wasm.GoldenRefund, Amount: "1.00", Currency: "EUR", Payee: "x", Lines: []wasm.GoldenLine{{Label: strings.Repeat("R", 64), Amount: "0.02"}}},
	}
	report, err := wasm.Examine(context.Background(), hostile, module, golden)
	if err != nil || report.MaxFuel == 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
