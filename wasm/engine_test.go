package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/experimental"

	"tollgate"
	"tollgate/wasm"
)

// TestLoad: a citation may stand for the bytes of several organizations.
func TestLoad(t *testing.T) {
	ctx := context.Background()
	e := engines(t)["compiler"]
	c := tollgate.Citation{Name: "fee", Version: 1}
	first, second := says(16, 0, 0).bytes(), says(40, two(0, 1), 0, 1, 0, 0).bytes()
	none := load(t, e, c, first)
	if again := load(t, e, c, first); again != none || !e.Has(none) {
		t.Errorf("the same module again: %v, was %v", again, none)
	}
	one := load(t, e, c, second)
	if one == none || one.Rule != c || one != wasm.RefOf(c, second) {
		t.Errorf("other bytes: %v beside %v", one, none)
	}
	for ref, want := range map[tollgate.RuleRef]int{none: 0, one: 1} {
		if lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(1, "EUR", "x")); err != nil || len(lines) != want {
			t.Errorf("%v: %v, %v, want %d lines", ref, lines, err, want)
		}
	}
	if ref, err := e.Load(ctx, c, second[:20]); err == nil || ref != (tollgate.RuleRef{}) {
		t.Errorf("half a module: %v, %v", ref, err)
	}
}

// TestEviction: what nobody has used for the longest makes room, the built-in
// rules never do, a quote under way keeps what it runs, and what was evicted
// can be loaded again.
func TestEviction(t *testing.T) {
	ctx := context.Background()
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(ctx); err != nil {
		t.Fatal(err)
	}
	e.SetRoom(0, 3)
	module := func(n uint64) []byte { return says(40, two(0, 1), 0, n, 0, 0).bytes() }
	at := func(n int) tollgate.Citation { return tollgate.Citation{Name: "old", Version: n} }
	var refs []tollgate.RuleRef
	for n := 1; n <= 3; n++ {
		refs = append(refs, load(t, e, at(n), module(uint64(n))))
	}
	quote := func(ref tollgate.RuleRef) error {
		_, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(1, "EUR", "x"))
		return err
	}
	if err := quote(refs[0]); err != nil { // now the second is the oldest
		t.Fatal(err)
	}
	refs = append(refs, load(t, e, at(4), module(4)))
	for i, want := range []bool{true, false, true, true} {
		if e.Has(refs[i]) != want {
			t.Errorf("%s is loaded: %t", refs[i].Rule, !want)
		}
	}
	if err := quote(refs[1]); !errors.Is(err, wasm.ErrNotLoaded) || code(err) != tollgate.CodeRuleFailed {
		t.Errorf("an evicted rule: %v", err)
	}
	for _, ref := range e.Refs(fiveRules...) {
		if !e.Has(ref) {
			t.Errorf("%s was evicted", ref.Rule)
		}
	}
	var all sync.WaitGroup
	for worker := range 4 { // loads evict what others quote
		all.Go(func() {
			for n := range 40 {
				v := 10 + (n+worker)%7
				ref := load(t, e, at(v), module(uint64(v)))
				if err := quote(ref); err != nil && !errors.Is(err, wasm.ErrNotLoaded) {
					t.Error(err)
				}
				if n%8 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
}

// field is a guest that replies with one line whose amount is 8 bytes of the
// request.
func field(offset int64, mask int64) []byte {
	return guest{quote: join(
		i32(1024+16), i32(1024+offset), []byte{0x29, 0, 0}, i64(mask), []byte{0x83, 0x37, 0, 0},
		put(two(0, 1), 0), i32(1024+24), i64(0), []byte{0x37, 0, 0}, i32(1024+32), i64(0), []byte{0x37, 0, 0}, i32(40),
	)}.bytes()
}

// TestRequest reads every number of a request through the eyes of a module.
func TestRequest(t *testing.T) {
	const low = 1<<32 - 1
	in := tollgate.PricingInput{
		Amount: tollgate.Money{Minor: tollgate.MaxMinor, Currency: "BHD"}, Payee: "shop.example", CaptureIndex: 7,
	}
	for name, e := range engines(t) {
		fifty := tollgate.Citation{Name: "fifty", Version: 1}
		load(t, e, fifty, says(64, two(0, 2), 0, 20, 0, 0, 30, 0, 0).bytes())
		for i, f := range []struct {
			what         string
			offset, mask int64
			want         int64
		}{
			{"version and header", 0, low, 1 | 64<<16},
			{"total", 4, low, 64 + 12},
			{"amount", 8, -1, tollgate.MaxMinor - 50},
			{"currency", 16, -1, int64(word("BHD"))},
			{"exponent", 24, low, 3},
			{"payee offset", 28, low, 64},
			{"payee length", 32, low, 12},
			{"parameters offset", 36, low, 76},
			{"parameters length", 40, low, 0},
			{"lines before", 44, low, 2},
			{"sum before", 48, -1, 50},
			{"capture index", 56, low, 7},
			{"zero", 60, low, 0},
			{"payee", 68, low, int64(word(".exa"))},
		} {
			if f.what == "amount" { // leaves room for the lines before
				in.Amount.Minor -= 50
			} else {
				in.Amount.Minor = tollgate.MaxMinor
			}
			c := tollgate.Citation{Name: "field", Version: i + 1}
			load(t, e, c, field(f.offset, f.mask))
			lines, err := e.Quote(nil, e.Refs(fifty, c), in)
			if err != nil || len(lines) != 3 || lines[2].Amount.Minor != f.want || lines[2].Rule != c || lines[2].Label != "Guest" {
				t.Errorf("%s: %s: %v, %v, want %d", name, f.what, lines, err, f.want)
			}
		}
	}
}

// TestLabels: a line may bring its own label, which need not be the manifest's.
func TestLabels(t *testing.T) {
	e := engines(t)["compiler"]
	c := tollgate.Citation{Name: "labels", Version: 1}
	load(t, e, c, says(16+3*24+16, two(0, 3), 0,
		1, two(88, 8), 0, 2, 0, 0, 3, two(96, 6), 0, word("Visa fee"), word("äöü")).bytes())
	want := "[{Visa fee 0.01 rule:labels@v1} {Guest 0.02 rule:labels@v1} {äöü 0.03 rule:labels@v1}]"
	for range 3 {
		lines, err := e.Quote(nil, e.Refs(c), input(1, "EUR", "x"))
		if got := fmt.Sprint(lines); err != nil || got != want {
			t.Fatalf("%s, %v, want %s", got, err, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	for name, e := range engines(t) {
		c := tollgate.Citation{Name: "no", Version: 3}
		load(t, e, c, says(48, two(1, 0), 0, two(32, 7), two(39, 9), word("blockedN"), word("ot here.")).bytes())
		lines, err := e.Quote(nil, e.Refs(c), input(1, "EUR", "x"))
		var te *tollgate.Error
		if !errors.As(err, &te) || te.Code != tollgate.CodeRuleRejected || *te.Rule != c ||
			te.Message != "Not here. (blocked)" || te.Cause != nil || lines != nil {
			t.Errorf("%s: %v, %v", name, lines, err)
		}
	}
}

func TestQuoteRefusesInput(t *testing.T) {
	e := engines(t)["compiler"]
	for want, in := range map[tollgate.Code]tollgate.PricingInput{
		tollgate.CodeAmountInvalid:       input(-1, "EUR", "x"),
		tollgate.CodeCurrencyUnsupported: input(1, "EURO", "x"),
		tollgate.CodePayeeInvalid:        input(1, "EUR", strings.Repeat("x", 256)),
	} {
		if _, err := e.Quote(nil, nil, in); code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	missing := tollgate.Citation{Name: "missing", Version: 1}
	_, err := e.Quote(nil, e.Refs(missing), input(1, "EUR", "x"))
	var te *tollgate.Error
	if !errors.As(err, &te) || te.Code != tollgate.CodeRuleFailed || *te.Rule != missing {
		t.Errorf("a rule that is not loaded: %v", err)
	}
}

// TestTotal: the lines of all rules together stay within an amount.
func TestTotal(t *testing.T) {
	e := engines(t)["compiler"]
	half := tollgate.Citation{Name: "half", Version: 1}
	load(t, e, half, says(40, two(0, 1), 0, tollgate.MaxMinor/2, 0, 0).bytes())
	one := tollgate.Citation{Name: "one", Version: 1}
	load(t, e, one, says(40, two(0, 1), 0, 1, 0, 0).bytes())
	lines, err := e.Quote(nil, e.Refs(half, half, one), input(1, "JPY", "x"))
	if err != nil || tollgate.FeeTotal(lines, "JPY").Minor != tollgate.MaxMinor {
		t.Errorf("%v, %v", lines, err)
	}
	_, err = e.Quote(nil, e.Refs(half, half, one, one), input(1, "JPY", "x"))
	if code(err) != tollgate.CodeRuleFailed {
		t.Errorf("a total above the largest amount: %v", err)
	}
}

func TestObserve(t *testing.T) {
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	e.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
	var seen []string
	e.Observe = func(ref tollgate.RuleRef, d time.Duration, err error) {
		seen = append(seen, fmt.Sprintf("%s %s %s", ref.Rule, d, code(err)))
	}
	rules := []tollgate.Citation{{Name: "currency_gate", Version: 1}, {Name: "sandbox", Version: 1}, {Name: "card_fee", Version: 1}}
	_, _ = e.Quote(nil, e.Refs(rules...), input(1, "EUR", "trap.test"))
	if got, want := fmt.Sprint(seen), "[rule:currency_gate@v1 1ms  rule:sandbox@v1 1ms rule_failed]"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
	var shadows []string
	seen, e.ObserveShadow = nil, func(ref tollgate.RuleRef, d time.Duration, err error) {
		shadows = append(shadows, fmt.Sprintf("%s %s %s", ref.Rule, d, code(err)))
	}
	lines, err := e.Shadow(e.Refs(rules[0], rules[2]), input(1000, "EUR", "shop.example"))
	again, _ := e.Quote(nil, e.Refs(rules[0], rules[2]), input(1000, "EUR", "shop.example"))
	if err != nil || len(lines) == 0 || fmt.Sprint(lines) != fmt.Sprint(again) {
		t.Errorf("a shadow's lines are %v, %v, not %v", lines, err, again)
	}
	if got, want := fmt.Sprint(shadows), "[rule:currency_gate@v1 1ms  rule:card_fee@v1 1ms ]"; got != want || len(seen) != 2 {
		t.Errorf("seen of a shadow %s, want %s; of payments %v", got, want, seen)
	}
}

// TestConcurrentQuotes has many goroutines share rules, while more are loaded;
// every answer is compared with the one given alone.
func TestConcurrentQuotes(t *testing.T) {
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		t.Fatal(err)
	}
	five, want := e.Refs(fiveRules...), map[int64]string{}
	for n := range int64(200) {
		lines, err := e.Quote(nil, five, input(n*977, "EUR", "shop.example"))
		if err != nil {
			t.Fatal(err)
		}
		want[n*977] = fmt.Sprint(lines)
	}
	var all sync.WaitGroup
	for worker := range uint64(8) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(worker, 1))
			for i := range 400 {
				n := r.Int64N(200) * 977
				payee := "shop.example"
				if i%7 == 0 {
					payee = "trap.test" // throws an instance away
				}
				lines, err := e.Quote(nil, five, input(n, "EUR", payee))
				if i%7 == 0 {
					if code(err) != tollgate.CodeRuleFailed {
						t.Errorf("%v, %v", lines, err)
					}
				} else if got := fmt.Sprint(lines); err != nil || got != want[n] {
					t.Errorf("amount %d: %s, %v, want %s", n, got, err, want[n])
				}
			}
			load(t, e, tollgate.Citation{Name: "late", Version: 1 + int(worker)}, says(16, 0, 0).bytes())
		})
	}
	all.Wait()
}

// TestFailedInstanceIsThrownAway: this module traps on the first call of an
// instance and would answer the second, so it must fail for ever.
func TestFailedInstanceIsThrownAway(t *testing.T) {
	e := engines(t)["compiler"]
	c := tollgate.Citation{Name: "second_try", Version: 1}
	load(t, e, c, guest{quote: join(
		i32(0), []byte{0x29, 0, 8, 0x50, 0x04, 0x40}, // if the word at 8 is zero
		i32(0), i64(1), []byte{0x37, 0, 8, 0x00, 0x0b}, // set it and trap
		put(0, 0), i32(16))}.bytes())
	for range 5 {
		if lines, err := e.Quote(nil, e.Refs(c), input(1, "EUR", "x")); code(err) != tollgate.CodeRuleFailed {
			t.Fatalf("%v, %v", lines, err)
		}
	}
}

// TestIdleInstancesAreFreed: an instance that the pool drops is closed, or it
// would stay in wazero's list of modules for as long as the engine lives.
func TestIdleInstancesAreFreed(t *testing.T) {
	e := engines(t)["compiler"]
	closed := make(chan struct{}, 1)
	ctx := experimental.WithCloseNotifier(context.Background(),
		experimental.CloseNotifyFunc(func(context.Context, uint32) { closed <- struct{}{} }))
	c := tollgate.Citation{Name: "idle", Version: 1}
	if _, err := e.Load(ctx, c, says(16, 0, 0).bytes()); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	for {
		runtime.GC()
		select {
		case <-closed:
			return
		case <-deadline:
			t.Fatal("the idle instance is still open")
		case <-time.After(time.Millisecond):
		}
	}
}

// usedUp is a guest that would work seven times on an instance and then trap.
var usedUp = guest{quote: oneLine(join(count, i64(7), []byte{0x59, 0x04, 0x40, 0x00, 0x0b}, i64(5))), sections: oneGlobal}

// TestUsedUpInstance: no instance is ever used up, and none is thrown away.
func TestUsedUpInstance(t *testing.T) {
	c := tollgate.Citation{Name: "used_up", Version: 1}
	for name, e := range engines(t) {
		ref := load(t, e, c, usedUp.bytes())
		in := input(1, "EUR", "x")
		if lines, fuel, err := e.OneInstance(c, in, in, in, in, in, in, in, in, in); err != nil || len(fuel) != 9 || len(lines) != 9 {
			t.Fatalf("%s: one instance is used up by %d calls: %v, %v", name, len(fuel), lines, err)
		}
		for n := range 50 {
			lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, in)
			if err != nil || len(lines) != 1 || lines[0].Amount.Minor != 5 {
				t.Fatalf("%s: quote %d: %v, %v", name, n+1, lines, err)
			}
		}
	}
}
