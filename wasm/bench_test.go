package wasm_test

import (
	"context"
	"fmt"
	"testing"

	"tollgate"
	"tollgate/wasm"
)

// BenchmarkQuote5Rules is the hot path of a quote: five built-in rules, fuel
// counted, lines appended to a slice that has room. The aim is under 2 µs and
// no allocation.
func BenchmarkQuote5Rules(b *testing.B) {
	e := engines(b)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		b.Fatal(err)
	}
	benchmarkQuote(b, e)
}

// BenchmarkQuote5RulesBare is the same without fuel: what counting costs.
func BenchmarkQuote5RulesBare(b *testing.B) {
	e := engines(b)["compiler"]
	all, err := wasm.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range all {
		if err := e.LoadBare(context.Background(), r.Citation, r.Module); err != nil {
			b.Fatal(err)
		}
	}
	benchmarkQuote(b, e)
}

func benchmarkQuote(b *testing.B, e *wasm.Engine) {
	lines := make([]tollgate.FeeLine, 0, 16)
	in, five := input(123_456, "EUR", "shop.example"), e.Refs(fiveRules...)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if lines, err = e.Quote(lines[:0], five, in); err != nil {
			b.Fatal(err)
		}
	}
	if len(lines) != 3 {
		b.Fatal(lines)
	}
}

// BenchmarkQuote5RulesParallel has every core quote with the same rules.
func BenchmarkQuote5RulesParallel(b *testing.B) {
	e := engines(b)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		b.Fatal(err)
	}
	five := e.Refs(fiveRules...)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		lines := make([]tollgate.FeeLine, 0, 16)
		in := input(123_456, "EUR", "shop.example")
		for pb.Next() {
			var err error
			if lines, err = e.Quote(lines[:0], five, in); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkQuote5RulesNative is the same work as plain Go: the floor.
func BenchmarkQuote5RulesNative(b *testing.B) {
	lines := make([]tollgate.FeeLine, 0, 16)
	in := input(123_456, "EUR", "shop.example")
	b.ReportAllocs()
	for b.Loop() {
		lines = native(lines[:0], &in)
	}
	if len(lines) != 3 {
		b.Fatal(lines)
	}
}

// native is what fiveRules do for EUR, each step behind the comparisons with
// currencies that the modules make too.
func native(dst []tollgate.FeeLine, in *tollgate.PricingInput) []tollgate.FeeLine {
	switch in.Payee {
	case "refuse.test", "trap.test", "loop.test":
		return nil
	}
	switch in.Amount.Currency {
	case "KPW", "IRR", "SYP", "CUP":
		return nil
	}
	amount := in.Amount.Minor
	line := func(label string, fee int64, c tollgate.Citation) {
		dst = append(dst, tollgate.FeeLine{Label: label, Amount: tollgate.Money{Minor: fee, Currency: in.Amount.Currency}, Rule: c})
	}
	switch in.Amount.Currency {
	case "EUR", "USD", "CHF", "CAD", "AUD", "NZD", "SGD":
		rate := int64(10_500)
		switch {
		case amount <= 10_000:
			rate = 19_000
		case amount <= 100_000:
			rate = 15_000
		case amount <= 1_000_000:
			rate = 12_500
		}
		line("Card fee", min(max(share(amount, rate)+25, 30), 250_000), fiveRules[2])
	}
	switch in.Amount.Currency {
	case "EUR", "USD", "GBP", "CHF", "CAD", "AUD", "NZD", "SGD":
		line("Platform fee", 10, fiveRules[3])
	}
	switch in.Amount.Currency {
	case "EUR", "USD", "GBP", "CHF", "CAD", "AUD", "NZD", "SGD":
		line("Cross-border fee", min(max(share(amount, 6_500), 15), 9_500), fiveRules[4])
	}
	return dst
}

func share(amount, rate int64) int64 {
	high, low := amount/1e6, amount%1e6*rate
	fee := high*rate + low/1e6
	if low%1e6*2+fee&1 > 1e6 {
		fee++
	}
	return fee
}

func TestQuoteDoesNotAllocate(t *testing.T) {
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		t.Fatal(err)
	}
	lines := make([]tollgate.FeeLine, 0, 16)
	in, five := input(123_456, "EUR", "shop.example"), e.Refs(fiveRules...)
	if raceEnabled {
		t.Skip("pools lose instances under the race detector")
	}
	if n := testing.AllocsPerRun(100, func() {
		var err error
		if lines, err = e.Quote(lines[:0], five, in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a quote", n)
	}
	if want := native(nil, &in); len(want) != len(lines) || want[0] != lines[0] || want[2] != lines[2] {
		t.Errorf("the yardstick of the benchmark says %v, the modules %v", want, lines)
	}
}

// BenchmarkQuoteReset is one rule that a compiler made: it keeps a stack in
// its memory, so all of that is made new for each quote.
func BenchmarkQuoteReset(b *testing.B) {
	for _, pages := range []byte{1, 2, 16} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			e := engines(b)["compiler"]
			stack := join([]byte{0x23, 0}, i32(16), []byte{0x6b, 0x24, 0, 0x23, 0}, i64(7), []byte{0x37, 0, 0}, oneLine(i64(5)), []byte{0x23, 0}, i32(16), []byte{0x6a, 0x24, 0})
			c := tollgate.Citation{Name: "stack", Version: 1}
			load(b, e, c, guest{quote: stack, sections: map[int][]byte{5: {1, 0, pages}, 6: {1, 0x7f, 1, 0x41, 0x80, 0x10, 0x0b}}}.bytes())
			lines, in, refs := make([]tollgate.FeeLine, 0, 16), input(123_456, "EUR", "shop.example"), e.Refs(c)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if lines, err = e.Quote(lines[:0], refs, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
