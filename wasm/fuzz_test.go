package wasm_test

import (
	"context"
	"errors"
	"testing"
	"unicode"
	"unicode/utf8"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/abi"
	"tollgate/wasm/compiler"
)

// FuzzModule: whatever the bytes, Load returns; what it takes can be quoted
// with and does not hang.
func FuzzModule(f *testing.F) {
	all, err := wasm.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range all {
		f.Add(r.Module)
	}
	for _, h := range hostileCalls {
		f.Add(h.guest.bytes())
	}
	for _, h := range hostileLoads {
		if len(h.module) < 4096 {
			f.Add(h.module)
		}
	}
	f.Add(participant(says(40, two(0, 1), 0, 5, 0, 0)))
	for _, s := range refundSections {
		f.Add(says(16, 0, 0).refund(s.sections...))
	}
	f.Fuzz(func(t *testing.T, module []byte) {
		if _, err := wasm.Check(module); err != nil {
			return // refused before wazero
		}
		ctx := context.Background()
		e, err := wasm.NewEngine(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(ctx)
		if _, err := e.Load(ctx, hostile, module); err != nil {
			return
		}
		lines, err := e.Quote(nil, e.Refs(hostile), input(100, "EUR", "shop.example"))
		checkOutcome(t, lines, err)
		lines, err = e.Quote(nil, e.Refs(hostile), refundOf(100, "EUR", "shop.example"))
		checkOutcome(t, lines, err)
		if m, _ := abi.Parse(module); !m.Refunds && (len(lines) > 0 || err != nil) {
			t.Errorf("it takes no part in refunds: %v, %v", lines, err)
		}
	})
}

// FuzzReply: the reply parser takes any bytes and any length.
func FuzzReply(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x'}, int32(41), int64(0))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 'a', 'b'}, int32(34), int64(1))
	f.Add([]byte{}, int32(-1), int64(tollgate.MaxMinor))
	f.Fuzz(func(t *testing.T, reply []byte, n int32, sum int64) {
		if len(reply) > 4096 || sum < 0 || sum > tollgate.MaxMinor {
			return
		}
		window := make([]byte, 4096)
		copy(window, reply)
		lines, err := wasm.ReadReply(nil, window, n, "Label", "EUR", sum)
		if err != nil {
			return
		}
		checkOutcome(t, lines, nil)
		if total := sum + tollgate.FeeTotal(lines, "EUR").Minor; total > tollgate.MaxMinor {
			t.Errorf("total %d", total)
		}
	})
}

// FuzzTable: whatever the text, Build returns; what it builds can be loaded
// and quoted with.
func FuzzTable(f *testing.F) {
	all, err := wasm.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range all {
		f.Add(string(r.Source), int64(12345))
	}
	for _, r := range refusedTables {
		if len(r.source) < 4096 {
			f.Add(r.source, int64(1))
		}
	}
	f.Add(bothTables(fee("percentage = \"1\"\n"), fee("percentage = \"2\"")), int64(1))
	f.Fuzz(func(t *testing.T, source string, minor int64) {
		if minor < 0 || minor > tollgate.MaxMinor/4 {
			return
		}
		module, _, err := compiler.Build([]byte(source))
		if err != nil {
			return
		}
		ctx := context.Background()
		e, err := wasm.NewEngine(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(ctx)
		if _, err := e.Load(ctx, hostile, module); err != nil {
			t.Fatal(err)
		}
		for _, c := range tableCurrencies {
			lines, err := e.Quote(nil, e.Refs(hostile), input(minor, c, "shop.example"))
			checkOutcome(t, lines, err)
			lines, err = e.Quote(nil, e.Refs(hostile), refundOf(minor, c, "shop.example"))
			checkOutcome(t, lines, err)
		}
	})
}

func checkOutcome(t *testing.T, lines []tollgate.FeeLine, err error) {
	t.Helper()
	var te *tollgate.Error
	if err != nil && (!errors.As(err, &te) || te.Rule == nil || len(lines) > 0 || !shows(te.Message, 400)) {
		t.Errorf("%v, %v", lines, err)
	}
	if len(lines) > 16 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if l.Amount.Minor < 0 || l.Amount.Minor > tollgate.MaxMinor || !shows(l.Label, 64) {
			t.Errorf("line %+v", l)
		}
	}
}

func shows(s string, limit int) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return s != "" && len(s) <= limit && utf8.ValidString(s)
}
