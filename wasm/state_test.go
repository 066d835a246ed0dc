package wasm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"tollgate"
	"tollgate/wasm"
)

// observer is a guest whose fee is a checksum of all that it can see: every
// byte of its memory, how large that is, and its globals. Then it leaves
// something behind. Its locals are the parameter, a pointer, the checksum and
// what is stored.
func observer(leaves []byte, sections map[int][]byte) guest {
	all := map[int][]byte{6: {2, 0x7e, 1, 0x42, 7, 0x0b, 0x7f, 1, 0x41, 9, 0x0b}}
	for id, s := range sections {
		all[id] = s
	}
	add := func(n []byte) []byte { // checksum = checksum * 31 + n
		return join([]byte{0x20, 2}, i64(31), []byte{0x7e}, n, []byte{0x7c, 0x21, 2})
	}
	return guest{
		locals: []byte{2, 1, 0x7f, 2, 0x7e},
		quote: join(
			[]byte{0x03, 0x40}, add([]byte{0x20, 1, 0x29, 0, 0}), // loop over words
			[]byte{0x20, 1}, i32(8), []byte{0x6a, 0x22, 1, 0x3f, 0}, i32(16), []byte{0x74, 0x49, 0x0d, 0, 0x0b},
			add([]byte{0x3f, 0, 0xad}), add([]byte{0x23, 0}), add([]byte{0x23, 1, 0xad}),
			[]byte{0x20, 2}, i64(0xff_ffff_ffff), []byte{0x83, 0x21, 2},
			leaves,
			oneLine([]byte{0x20, 2}), // which is known to stay within the request's header
		),
		sections: all,
	}
}

// address pushes one that only a call knows: the request's length times n.
func address(n int64) []byte { return join([]byte{0x20, 0}, i32(n), []byte{0x6c}) }

// leftovers are all the kinds of state that a call can leave in an instance.
var leftovers = map[string]guest{
	"nothing but the request and the reply": observer(nil, nil),
	"a global":                              observer(join([]byte{0x23, 0}, i64(1), []byte{0x7c, 0x24, 0}), nil),
	"a global of 32 bits":                   observer(join([]byte{0x23, 1}, i32(-5), []byte{0x6c, 0x24, 1}), nil),
	"both globals":                          observer(join([]byte{0x20, 2, 0x24, 0, 0x20, 0, 0x24, 1}), nil),
	"a global that is exported":             observer(join([]byte{0x20, 2, 0x24, 0}), map[int][]byte{7: exports("memory", 2, 0, "tg_buf", 0, 0, "quote", 0, 1, "tollgate.global.0", 3, 0)}),
	"a word at the start":                   observer(join(i32(0), []byte{0x20, 2, 0x37, 0, 0}), nil),
	"a word at the end":                     observer(join(i32(65528), []byte{0x20, 2, 0x37, 0, 0}), nil),
	"a word at an offset":                   observer(join(i32(8), []byte{0x20, 2, 0x37, 0, 0xf8, 0x3f}), nil),
	"bytes of several places":               observer(join(i32(3), i64(1), []byte{0x3c, 0, 0}, i32(40000), i32(7), []byte{0x3a, 0, 1}, i32(30000), i32(-1), []byte{0x3b, 0, 0}), nil),
	"32 bits across two places":             observer(join(i32(65532), i64(-1), []byte{0x3e, 0, 0}, i32(65530), i32(-1), []byte{0x3b, 0, 0}, i32(1020), i32(-1), []byte{0x36, 0, 0}, i32(5200), i64(-2), []byte{0x3d, 0, 0}), nil),
	"the window's end":                      observer(join(i32(1024+4088), []byte{0x20, 2, 0x37, 0, 0}), nil),
	"the window behind the reply":           observer(join(i32(1024+61), []byte{0x20, 2, 0x37, 0, 0}), nil),
	"32 bits":                               observer(join(i32(64000), i64(-1), []byte{0x3e, 0, 0}), nil),
	"an i32":                                observer(join(i32(64000), i32(-1), []byte{0x36, 0, 0}), nil),
	"16 bits":                               observer(join(i32(64000), i64(-1), []byte{0x3d, 0, 0}), nil),
	"a copy to anywhere":                    observer(join(address(50), i32(1032), i32(8), []byte{0xfc, 10, 0, 0}), nil),
	"a constant that is widened, anywhere":  observer(join(address(50), i32(0), []byte{0xad, 0x37, 0, 0}, address(50), i32(0), []byte{0x45, 0xad, 0x37, 0, 0}), nil),
	"a filled area with a computed byte":    observer(join(address(50), i32(0), []byte{0x45}, i32(8), []byte{0xfc, 11, 0}), nil),
	"a word anywhere":                       observer(join(address(97), []byte{0x20, 2, 0x37, 0, 0}), nil),
	"a word that is computed":               observer(join(i32(16), []byte{0x20, 2, 0x20, 2, 0x7c, 0x37, 0, 0}), nil),
	"a word behind a block":                 observer(join([]byte{0x02, 0x7f}, i32(64), []byte{0x0b, 0x20, 2, 0x37, 0, 0}), nil),
	"a filled area":                         observer(join(i32(9000), i32(0x5a), i32(333), []byte{0xfc, 11, 0}), nil),
	"a filled area anywhere":                observer(join(address(50), i32(0x5a), address(3), []byte{0xfc, 11, 0}), nil),
	"a copy of the request":                 observer(join(i32(50000), i32(1024), i32(300), []byte{0xfc, 10, 0, 0}), nil),
	"a copy of computed size":               observer(join(i32(50000), i32(1024), []byte{0x20, 0, 0xfc, 10, 0, 0}), nil),
	"a copy over data":                      observer(join(i32(8000), i32(1024), i32(64), []byte{0xfc, 10, 0, 0}), map[int][]byte{11: join([]byte{1, 0}, i32(8000), []byte{0x0b, 5, 1, 2, 3, 4, 5})}),
	"data in the window":                    observer(join(i32(1024+200), i64(0), []byte{0x37, 0, 0}), map[int][]byte{11: join([]byte{1, 0}, i32(1024+64), blob([]byte{0x0b}, []byte(strings.Repeat("data ", 60))))}),
	"a second page":                         observer(join(i32(70000), []byte{0x20, 2, 0x37, 0, 0}), map[int][]byte{5: {1, 0, 2}}),
	"a larger memory":                       observer(join(i32(1), []byte{0x40, 0, 0x1a}), map[int][]byte{5: {1, 1, 1, 3}}),
	"a word in new memory":                  observer(join(i32(1), []byte{0x40, 0, 0x1a}, i32(70000), []byte{0x20, 2, 0x37, 0, 0}), map[int][]byte{5: {1, 1, 1, 3}}),
	"a memory that grows by zero":           observer(join(i32(0), []byte{0x40, 0, 0x1a}, address(9), []byte{0x20, 2, 0x37, 0, 0}), nil),
	"what tg_buf leaves": func() guest {
		g := observer(join([]byte{0x20, 2, 0x24, 0}, i32(16), i64(5), []byte{0x37, 0, 0}), nil)
		g.buffer = join(i64(1234), []byte{0x24, 0}, i32(16), i64(77), []byte{0x37, 0, 0}, i32(1024))
		return g
	}(),
	"half of a call": observer(join([]byte{0x20, 2, 0x24, 0}, i32(8), []byte{0x20, 2, 0x37, 0, 0},
		i32(1024+8), []byte{0x29, 0, 0}, i64(300), []byte{0x51, 0x04, 0x40, 0x00, 0x0b}), nil), // a trap
	"half of a call that is refused": observer(join([]byte{0x20, 2, 0x24, 0}, i32(8), []byte{0x20, 2, 0x37, 0, 0},
		i32(1024+8), []byte{0x29, 0, 0}, i64(300), []byte{0x51, 0x04, 0x40},
		put(two(1, 0), 0, two(32, 2), two(34, 3), word("no_Why")), i32(38), []byte{0x0f, 0x0b}), nil),
}

// TestNothingOutlivesACall: an instance that was used before gives what a new
// one does, the thousandth time, in any order, for any tenant, in parallel, and
// so does a ticket's re-execution.
func TestNothingOutlivesACall(t *testing.T) {
	var inputs []tollgate.PricingInput
	for i, payee := range []string{
		"x", "shop.example", strings.Repeat("secret", 42), "a@b.example", strings.Repeat("y", 255), "", "https://shop.example/a/b", "b.example",
	} {
		in := input(int64(i+1)*100, []tollgate.Currency{"EUR", "JPY"}[i%2], payee)
		in.CaptureIndex = uint32(i % 3)
		inputs = append(inputs, in)
	}
	version := 0
	for name, e := range engines(t) {
		rounds := 1000
		if name == "interpreter" {
			rounds = 10
		}
		for what, g := range leftovers {
			version++
			c := tollgate.Citation{Name: "observer", Version: version}
			t.Run(name+"/"+what, func(t *testing.T) {
				module := g.bytes()
				ref := load(t, e, c, module)
				outcome := func(in tollgate.PricingInput) string {
					lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, in)
					return fmt.Sprint(lines, err)
				}
				trial, err := wasm.NewTrial(context.Background(), c, module, name == "interpreter")
				if err != nil {
					t.Fatal(err)
				}
				defer trial.Close(context.Background())
				want := map[string]string{}
				for _, in := range inputs {
					e.DropIdle(context.Background())
					want[in.Payee] = outcome(in)
					o, err := trial.Run(context.Background(), in, true)
					if err != nil || o.Failed == nil && o.Refused == "" && fmt.Sprint(o.Lines, nil) != want[in.Payee] {
						t.Fatalf("%s: on a new instance %v, %v, in an engine %s", in.Payee, o, err, want[in.Payee])
					}
				}
				var all sync.WaitGroup
				for worker := range uint64(2) {
					all.Go(func() {
						r := rand.New(rand.NewPCG(worker, 7))
						for n := range rounds / 2 {
							in := inputs[r.IntN(len(inputs))]
							if got := outcome(in); got != want[in.Payee] {
								t.Errorf("quote %d, of %.20q: %s, on a new instance %s", n+1, in.Payee, got, want[in.Payee])
								return
							}
						}
					})
				}
				all.Wait()
				again, err := e.Reexecute(&tollgate.Evaluation{
					Rules: []tollgate.RuleRef{ref},
					Input: tollgate.EvaluationInput{Amount: inputs[0].Amount, Payee: tollgate.KeptPayee(inputs[0].Payee), CaptureIndex: inputs[0].CaptureIndex},
				})
				if got := fmt.Sprint(again, err); got != want[inputs[0].Payee] {
					t.Errorf("executed again: %s, want %s", got, want[inputs[0].Payee])
				}
			})
		}
	}
}

// TestTablesDoNotChange: state.go counts on it.
func TestTablesDoNotChange(t *testing.T) {
	for what, code := range map[string][]byte{
		"table.set": {0x26, 0}, "table.get": {0x25, 0}, "memory.init": {0xfc, 8, 0, 0}, "data.drop": {0xfc, 9, 0}, "table.init": {0xfc, 12, 0, 0},
		"elem.drop": {0xfc, 13, 0}, "table.copy": {0xfc, 14, 0, 0}, "table.grow": {0xfc, 15, 0}, "table.fill": {0xfc, 17, 0},
	} {
		if _, err := wasm.Check(guest{quote: join(code, i32(16))}.bytes()); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestHiddenState: what golden cases do not show passes the examination, and
// still one tenant's payment changes nothing for another's.
func TestHiddenState(t *testing.T) {
	module := guest{
		quote:    join(i32(1024+8), []byte{0x29, 0, 0}, i64(66_666), []byte{0x51, 0x04, 0x40}, i64(99), []byte{0x24, 0, 0x0b}, oneLine([]byte{0x23, 0})),
		sections: oneGlobal,
	}.bytes()
	var cases []wasm.GoldenCase
	for _, amount := range []string{"1.00", "2.00"} {
		cases = append(cases, wasm.GoldenCase{Amount: amount, Currency: "EUR", Lines: []wasm.GoldenLine{{Label: "Guest", Amount: "0.00"}}})
	}
	if _, err := wasm.Examine(context.Background(), hostile, module, cases); err != nil {
		t.Fatal(err)
	}
	e := engines(t)["compiler"]
	ref := load(t, e, hostile, module)
	for n := range 1000 {
		amount, want := int64(100), int64(0)
		if n%5 == 0 {
			amount, want = 66_666, 99
		}
		lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(amount, "EUR", "x"))
		if err != nil || lines[0].Amount.Minor != want {
			t.Fatalf("quote %d of %d: %v, %v", n+1, amount, lines, err)
		}
	}
}
