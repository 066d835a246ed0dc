package wasm_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
)

// turns is a guest that counts an i64 local down from n, six instructions a
// turn, after some instructions that do nothing.
func turns(n int64, nops int) []byte {
	return guest{
		locals: []byte{1, 1, 0x7e},
		quote: join(put(0, 0), repeat([]byte{0x01}, nops), i64(n), []byte{0x21, 1},
			[]byte{0x03, 0x40, 0x20, 1}, i64(1), []byte{0x7d, 0x22, 1, 0xa7, 0x0d, 0, 0x0b}, i32(16)),
	}.bytes()
}

// TestFuelExact counts by hand: 32 for the entry, 1 for each local and each
// instruction outside loops, the loop's instructions for each turn, 1 for each
// 8 bytes of a bulk operation.
func TestFuelExact(t *testing.T) {
	const entry = 32
	for name, e := range engines(t) {
		for i, f := range []struct {
			what   string
			module []byte
			want   int64
		}{
			{"a constant reply", says(16, 0, 0).bytes(), entry + 1 + 3 + 3 + 1 + 1},
			{"a loop of one turn", turns(1, 0), entry + 2 + 6 + 2 + 1 + 1 + 1 + 7},
			{"a loop of 1000 turns", turns(1000, 0), entry + 2 + 6 + 2 + 1 + 1 + 1 + 7*1000},
			{"a call", guest{quote: join(put(0, 0), []byte{0x10, 2}), more: []fn{{0, i32(16)}}}.bytes(), entry + 1 + 6 + 1 + 1 + entry + 1 + 1},
			{"both branches of an if", guest{quote: join(put(0, 0), []byte{0x20, 0, 0x04, 0x40, 0x01, 0x05, 0x01, 0x01, 0x0b}, i32(16))}.bytes(), entry + 1 + 6 + 7 + 2},
			{"memory.fill of 4000", guest{quote: join(i32(0), i32(0), i32(4000), []byte{0xfc, 11, 0}, put(0, 0), i32(16))}.bytes(), entry + 1 + 4 + 6 + 2 + 500},
			{"memory.copy of 15", guest{quote: join(i32(0), i32(0), i32(15), []byte{0xfc, 10, 0, 0}, put(0, 0), i32(16))}.bytes(), entry + 1 + 4 + 6 + 2 + 1},
			{"memory.grow", guest{quote: join(i32(1), []byte{0x40, 0, 0x1a}, put(0, 0), i32(16))}.bytes(), entry + 1 + 3 + 6 + 2 + 4096},
		} {
			c := tollgate.Citation{Name: "fuel", Version: i + 1}
			load(t, e, c, f.module)
			in := input(1, "EUR", "x")
			_, used, err := e.OneInstance(c, in, in, in)
			if err != nil || fmt.Sprint(used) != fmt.Sprint([]int64{f.want, f.want, f.want}) {
				t.Errorf("%s: %s: fuel %v, %v, want %d each time", name, f.what, used, err, f.want)
			}
		}
	}
}

// TestFuelLimit: the last unit may be used and not one more.
func TestFuelLimit(t *testing.T) {
	const fixed = 32 + 2 + 6 + 2 + 1 + 1 + 1
	n, nops := int64(1_000_000-fixed)/7, int(1_000_000-fixed)%7
	for name, e := range engines(t) {
		exact, over := tollgate.Citation{Name: "exact", Version: 1}, tollgate.Citation{Name: "over", Version: 1}
		load(t, e, exact, turns(n, nops))
		load(t, e, over, turns(n, nops+1))
		in := input(1, "EUR", "x")
		if _, used, err := e.OneInstance(exact, in, in); err != nil || used[0] != 1_000_000 || used[1] != used[0] {
			t.Errorf("%s: %v, %v", name, used, err)
		}
		if _, used, err := e.OneInstance(over, in); err == nil || !strings.Contains(err.Error(), "fuel") {
			t.Errorf("%s: %v, %v", name, used, err)
		}
	}
}

// TestFuelOfShipped: the count is the same compiled and interpreted, and far
// from the limit.
func TestFuelOfShipped(t *testing.T) {
	all := engines(t)
	for _, e := range all {
		if err := e.LoadBuiltin(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := wasm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		for _, c := range tableCurrencies {
			in := input(123_456, c, "shop.example")
			_, compiled, err := all["compiler"].OneInstance(r.Citation, in)
			if err != nil {
				t.Fatal(err)
			}
			_, interpreted, err := all["interpreter"].OneInstance(r.Citation, in)
			if err != nil || compiled[0] != interpreted[0] || compiled[0] > 2000 {
				t.Errorf("%s, %s: fuel %d compiled, %d interpreted, %v", r.Citation, c, compiled[0], interpreted[0], err)
			}
		}
	}
}

// TestInstrumentedIsBehindTheOriginal: counting changes no section but four,
// and two passes over the same bytes give the same module.
func TestInstrumentedIsBehindTheOriginal(t *testing.T) {
	rules, err := wasm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		first, err := wasm.Check(r.Module)
		if err != nil {
			t.Fatal(err)
		}
		second, err := wasm.Check(r.Module)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: two instrumented modules, %v", r.Citation, err)
		}
		if !bytes.Contains(first, []byte("tollgate.fuel")) || bytes.Contains(r.Module, []byte("tollgate.fuel")) {
			t.Errorf("%s: fuel is not only in the instrumented module", r.Citation)
		}
		if bytes.Contains(first, []byte("tollgate.manifest")) {
			t.Errorf("%s: a custom section was kept", r.Citation)
		}
	}
}
