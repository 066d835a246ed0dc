package wasm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm/abi"
)

// deep is a guest whose fee is the amount, counted by a function that calls
// itself so often: quote, the function, and one call more for each cent.
func deep(call []byte, sections map[int][]byte) guest {
	return guest{
		locals: []byte{1, 1, 0x7f},
		quote:  join(i32(1024+8), []byte{0x28, 0, 0, 0x21, 1}, oneLine(join([]byte{0x20, 1}, call, []byte{0xad}))),
		more: []fn{{1, join([]byte{0x20, 0, 0x45, 0x04, 0x7f}, i32(0), []byte{0x05},
			[]byte{0x20, 0}, i32(1), []byte{0x6b}, call, i32(1), []byte{0x6a, 0x0b})}},
		sections: sections,
	}
}

// TestDepth: calls may be nested equally deep compiled and interpreted, to the
// last one, and an instance counts anew for each quote.
func TestDepth(t *testing.T) {
	const deepest = 1998 // with quote and the first call 2000
	for what, g := range map[string]guest{
		"call": deep([]byte{0x10, 2}, nil),
		"call_indirect": deep(join(i32(0), []byte{0x11, 1, 0}),
			map[int][]byte{4: {1, 0x70, 0, 1}, 9: {1, 0, 0x41, 0, 0x0b, 1, 2}}),
	} {
		for name, e := range engines(t) {
			ref := load(t, e, tollgate.Citation{Name: "deep", Version: 1}, g.bytes())
			for range 3 {
				lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(deepest, "EUR", "x"))
				if err != nil || lines[0].Amount.Minor != deepest {
					t.Errorf("%s, %s: %v, %v", what, name, lines, err)
				}
			}
			for _, n := range []int64{deepest + 1, 3000, 15000} {
				_, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(n, "EUR", "x"))
				if err == nil || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "nested") {
					t.Errorf("%s, %s, %d deep: %v", what, name, n, errors.Unwrap(err))
				}
			}
		}
	}
}

// TestMemoryHasAMaximum: an engine with another limit than this one must stop
// memory.grow where this one does.
func TestMemoryHasAMaximum(t *testing.T) {
	for _, c := range []struct{ own, want []byte }{
		{[]byte{1, 0, 1}, []byte{1, 1, 1, 16}},
		{[]byte{1, 0, 16}, []byte{1, 1, 16, 16}},
		{[]byte{1, 1, 2, 3}, []byte{1, 1, 2, 3}},
		{[]byte{1, 1, 2, 16}, []byte{1, 1, 2, 16}},
	} {
		module, err := abi.Instrumented(guest{quote: i32(16), sections: map[int][]byte{5: c.own}}.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if section := blob([]byte{5}, c.want); !strings.Contains(string(module), string(section)) {
			t.Errorf("limits %v have not become %v", c.own, c.want)
		}
	}
}
