package wasm_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollgate/wasm"
	"tollgate/wasm/abi"
	"tollgate/wasm/compiler"
)

func TestExamineShipped(t *testing.T) {
	all, err := wasm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	tick := time.Unix(0, 0)
	examine := wasm.NewExaminer(func() time.Time {
		tick = tick.Add(7 * time.Millisecond)
		return tick
	})
	for _, r := range all {
		report, err := examine(context.Background(), r.Citation, r.Module, r.Golden)
		if err != nil {
			t.Errorf("%s: %v", r.Citation, err)
			continue
		}
		if report.SHA256 != r.Ref().SHA256 || report.Bytes != len(r.Module) || report.Label == "" || report.CompileMicroseconds != 7000 {
			t.Errorf("%s: %+v", r.Citation, report)
		}
		if report.MaxFuel < 10 || report.MaxFuel > 1000 || len(report.Cases) != len(r.Golden) || len(report.Cases[0].Request) < 64 || report.Cases[0].Fuel <= 0 {
			t.Errorf("%s: fuel %d of %d cases", r.Citation, report.MaxFuel, len(report.Cases))
		}
	}
}

// oneLine replies with a line whose amount is on the stack.
func oneLine(amount []byte) []byte {
	return join(put(two(0, 1), 0), i32(1024+16), amount, []byte{0x37, 0, 0},
		i32(1024+24), i64(0), []byte{0x37, 0, 0}, i32(1024+32), i64(0), []byte{0x37, 0, 0}, i32(40))
}

// count adds one to global 0 and leaves its old value.
var count = join([]byte{0x23, 0, 0x23, 0}, i64(1), []byte{0x7c, 0x24, 0})

var oneGlobal = map[int][]byte{6: {1, 0x7e, 1, 0x42, 0, 0x0b}}

// stateful are modules whose second call may differ from the first. Each gives
// 0.00 or 0.01 on a fresh instance.
var stateful = map[string]guest{
	"a counter in a global": {quote: oneLine(count), sections: oneGlobal},
	"a counter in the memory": {quote: oneLine(join(
		i32(8), i32(8), []byte{0x29, 0, 0}, i64(1), []byte{0x7c, 0x37, 0, 0}, i32(8), []byte{0x29, 0, 0}, i64(1), []byte{0x7d}))},
	"a memory that grows": {quote: oneLine(join(i32(1), []byte{0x40, 0}, i32(1), []byte{0x6b, 0xad}))},
	"the last reply":      {quote: oneLine(join(i32(1024+2000), []byte{0x29, 0, 0}, i32(1024+2000), i64(1), []byte{0x37, 0, 0}))},
	"every third call":    {quote: oneLine(join(count, i64(3), []byte{0x82}, i64(2), []byte{0x51, 0xad})), sections: oneGlobal},
	// The reply is the same, but the work is not.
	"fuel by the call": {quote: oneLine(join(count, []byte{0x50, 0x45, 0x04, 0x40, 0x10, 2, 0x0b}, i64(0))), more: []fn{{2, nil}}, sections: oneGlobal},
	"a trap after ten": {quote: oneLine(join(count, i64(10), []byte{0x55, 0x04, 0x40, 0x00, 0x0b}, i64(0))), sections: oneGlobal},
	"a length by the call": {
		quote: join(put(0, 0), count, i64(0), []byte{0x52, 0xad, 0xa7}, i32(16), []byte{0x6a}), sections: oneGlobal,
	},
}

func TestExamineFindsState(t *testing.T) {
	for what, g := range stateful {
		module := g.bytes()
		fresh, err := wasm.NewTrial(context.Background(), hostile, module, false)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var golden []wasm.GoldenCase
		for _, amount := range []string{"1.00", "2.00", "3.00", "4.00", "5.00"} {
			c := wasm.GoldenCase{Amount: amount, Currency: "EUR", Payee: "shop.example"}
			in, err := c.Input()
			if err != nil {
				t.Fatal(err)
			}
			o, err := fresh.Run(context.Background(), in, true)
			if err != nil || o.Failed != nil {
				t.Fatalf("%s: %v, %v", what, err, o.Failed)
			}
			for _, l := range o.Lines {
				c.Lines = append(c.Lines, wasm.GoldenLine{Label: l.Label, Amount: l.Amount.String()})
			}
			golden = append(golden, c)
		}
		_, err = wasm.Examine(context.Background(), hostile, module, golden)
		var invalid *wasm.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, "used before") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestExamineRefuses(t *testing.T) {
	good := says(40, two(0, 1), 0, 7, 0, 0).bytes()
	line := []wasm.GoldenLine{{Label: "Guest", Amount: "0.07"}}
	one := wasm.GoldenCase{Amount: "1.00", Currency: "EUR", Lines: line}
	if _, err := wasm.Examine(context.Background(), hostile, good, []wasm.GoldenCase{one}); err != nil {
		t.Fatal(err)
	}
	change := func(f func(*wasm.GoldenCase)) []wasm.GoldenCase {
		c := one
		f(&c)
		return []wasm.GoldenCase{one, c}
	}
	for what, k := range map[string]struct {
		golden []wasm.GoldenCase
		reason string
	}{
		"another amount":       {change(func(c *wasm.GoldenCase) { c.Lines = []wasm.GoldenLine{{"Guest", "0.08"}} }), "0.07 (Guest), want 0.08 (Guest)"},
		"another label":        {change(func(c *wasm.GoldenCase) { c.Lines = []wasm.GoldenLine{{"Fee", "0.07"}} }), "want 0.07 (Fee)"},
		"no line":              {change(func(c *wasm.GoldenCase) { c.Lines = nil }), "want no line"},
		"a refusal":            {change(func(c *wasm.GoldenCase) { c.Lines, c.Refused = nil, "No." }), `want the refusal "No."`},
		"a failure":            {change(func(c *wasm.GoldenCase) { c.Lines, c.Failed = nil, true }), "want a failure"},
		"two outcomes":         {change(func(c *wasm.GoldenCase) { c.Failed = true }), "only one of"},
		"a wrong amount":       {change(func(c *wasm.GoldenCase) { c.Amount = "1,00" }), "golden case 2"},
		"too many places":      {change(func(c *wasm.GoldenCase) { c.Amount = "1.001" }), "golden case 2"},
		"a wrong currency":     {change(func(c *wasm.GoldenCase) { c.Currency = "eur" }), "golden case 2"},
		"a wrong line":         {change(func(c *wasm.GoldenCase) { c.Lines = []wasm.GoldenLine{{"Guest", "-1"}} }), "golden case 2"},
		"a long payee":         {change(func(c *wasm.GoldenCase) { c.Payee = strings.Repeat("a", 256) }), "golden case 2"},
		"more cases than fit":  {make([]wasm.GoldenCase, 2001), "2001 golden cases"},
		"a case of nothing":    {make([]wasm.GoldenCase, 1), "golden case 1"},
		"the first that fails": {append(change(func(c *wasm.GoldenCase) { c.Lines = nil }), wasm.GoldenCase{Amount: "2.00", Currency: "EUR"}), "golden case 2"},
	} {
		_, err := wasm.Examine(context.Background(), hostile, good, k.golden)
		var invalid *wasm.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, k.reason) {
			t.Errorf("%s: %v, want %q", what, err, k.reason)
		}
	}
	for what, h := range hostileLoads {
		_, err := wasm.Examine(context.Background(), hostile, h.module, nil)
		var invalid *wasm.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Reason, h.reason) {
			t.Errorf("%s: %v, want %q", what, err, h.reason)
		}
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := wasm.Examine(stopped, hostile, good, []wasm.GoldenCase{one})
	if !errors.Is(err, context.Canceled) || errors.As(err, new(*wasm.InvalidError)) {
		t.Errorf("an examination that was stopped: %v", err)
	}
}

// TestExamineHostileCalls: a module that fails in every way still is examined
// to the end, for failing may be what its golden cases ask for.
func TestExamineHostileCalls(t *testing.T) {
	golden := []wasm.GoldenCase{{Amount: "1.00", Currency: "EUR", Failed: true}, {Amount: "2.00", Currency: "EUR", Failed: true}}
	for what, h := range hostileCalls {
		within(t, endless, func() {
			if _, err := wasm.Examine(context.Background(), hostile, h.guest.bytes(), golden); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

func TestPack(t *testing.T) {
	plain := guest{quote: i32(16), custom: [][]byte{customSection("name", "x"), customSection("producers", "y")}}.bytes()
	packed, err := compiler.Pack(plain, "My fee", abi.Free{})
	if err != nil || strings.Contains(string(packed), "producers") || !strings.Contains(string(packed), `"label":"My fee"`) {
		t.Fatalf("%q, %v", packed, err)
	}
	report, err := wasm.Examine(context.Background(), hostile, packed, nil)
	if err != nil || report.Label != "My fee" {
		t.Errorf("%+v, %v", report, err)
	}
	again, err := compiler.Pack(packed, "", abi.Free{})
	if err != nil || string(again) != string(packed) {
		t.Errorf("packed twice: %q, %v", again, err)
	}
	for what, k := range map[string]struct {
		module        []byte
		label, reason string
	}{
		"no label":        {plain, "", "no label is given"},
		"two labels":      {packed, "My fee", "a manifest already"},
		"a bad label":     {plain, "a\nb", "label"},
		"no module":       {[]byte("abc"), "Fee", "not a WebAssembly module"},
		"an import":       {hostileLoads["an import"].module, "", "imports"},
		"cut off":         {plain[:len(plain)-2], "Fee", "too early"},
		"a large section": {append(plain, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), "Fee", "too early"},
	} {
		if out, err := compiler.Pack(k.module, k.label, abi.Free{}); err == nil || out != nil || !strings.Contains(err.Error(), k.reason) {
			t.Errorf("%s: %v, want %q", what, err, k.reason)
		}
	}
}

func TestParsePackage(t *testing.T) {
	p, ok, err := compiler.ParsePackage([]byte("module = \"build/rule.wasm\"\nlabel = \"Fee\""))
	if err != nil || !ok || !reflect.DeepEqual(p, compiler.Package{Module: "build/rule.wasm", Label: "Fee"}) {
		t.Errorf("%+v, %t, %v", p, ok, err)
	}
	for _, table := range []string{"label = \"Fee\"", "", "module", fee(`percentage = "1"`)} {
		if _, ok, err := compiler.ParsePackage([]byte(table)); ok || err != nil {
			t.Errorf("%q: %t, %v", table, ok, err)
		}
	}
	for _, wrong := range []string{"module = \"\"", "module = \"a\"\n[[fee]]\npercentage = \"1\"", "module = \"a\"\nLabel2 = \"b\""} {
		if _, ok, err := compiler.ParsePackage([]byte(wrong)); !ok || err == nil {
			t.Errorf("%q: %t, %v", wrong, ok, err)
		}
	}
}

// TestExamineThrowsFailedInstancesAway, as the engine does: what a trap leaves
// behind is nobody's.
func TestExamineThrowsFailedInstancesAway(t *testing.T) {
	module := guest{
		quote: join(i32(1024+8), []byte{0x29, 0, 0}, i64(200), []byte{0x51, 0x04, 0x40}, i64(1), []byte{0x24, 0, 0x00, 0x0b},
			oneLine([]byte{0x23, 0})),
		sections: oneGlobal,
	}.bytes()
	zero := []wasm.GoldenLine{{Label: "Guest", Amount: "0.00"}}
	_, err := wasm.Examine(context.Background(), hostile, module, []wasm.GoldenCase{
		{Amount: "1.00", Currency: "EUR", Lines: zero},
		{Amount: "2.00", Currency: "EUR", Failed: true},
		{Amount: "3.00", Currency: "EUR", Lines: zero},
	})
	if err != nil {
		t.Error(err)
	}
}
