package wasm_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"tollgate"
	"tollgate/wasm"
)

// small is a rule of one page, large one of sixteen; each n is a module of its
// own.
func small(n int) []byte { return says(40, two(0, 1), 0, uint64(n), 0, 0).bytes() }

func large(n int) []byte {
	g := says(40, two(0, 1), 0, uint64(n), 0, 0)
	g.sections = map[int][]byte{5: {1, 0, 16}}
	return g.bytes()
}

// grown is a rule of one page whose tg_buf makes them sixteen.
func grown(n int) []byte {
	g := says(40, two(0, 1), 0, uint64(n), 0, 0)
	g.buffer = join(i32(15), []byte{0x40, 0, 0x1a}, i32(1024))
	return g.bytes()
}

func cite(name string, n int) tollgate.Citation { return tollgate.Citation{Name: name, Version: n} }

// TestRoomIsBytes: what counts is what rules take up, not how many there are.
func TestRoomIsBytes(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // idle instances stay
	const room = 24 << 20
	for what, c := range map[string]struct {
		module      func(int) []byte
		least, most int
	}{"small": {small, 100, 200}, "large": {large, 10, 24}, "grown": {grown, 10, 24}} {
		e := engines(t)["compiler"]
		if err := e.LoadBuiltin(context.Background()); err != nil {
			t.Fatal(err)
		}
		e.SetRoom(room, 1)
		for n := 1; n <= 250; n++ {
			load(t, e, cite(what+"_fee", n), c.module(n))
			if _, bytes := e.Held(); bytes > room {
				t.Fatalf("%s: %d bytes after %d rules", what, bytes, n)
			}
		}
		if rules, bytes := e.Held(); rules < c.least || rules > c.most || bytes < room/2 {
			t.Errorf("%s: %d rules of %d bytes are kept", what, rules, bytes)
		}
	}
}

// TestInForceStays: a rule that is in force stays while there is another, and
// goes when there is not. What was taken out can be loaded again.
func TestInForceStays(t *testing.T) {
	e := engines(t)["compiler"]
	e.SetRoom(1<<20, 2)
	inForce := map[tollgate.RuleRef]bool{}
	for n := 1; n <= 3; n++ {
		inForce[load(t, e, cite("fee", n), small(n))] = true
	}
	e.Prefer(func(ref tollgate.RuleRef) bool { return inForce[ref] })
	count := func() (n int) {
		for ref := range inForce {
			if e.Has(ref) {
				n++
			}
		}
		return n
	}
	for n := 10; n < 60; n++ {
		ref := load(t, e, cite("old", n), small(n))
		if lines, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(1, "EUR", "x")); err != nil || lines[0].Amount.Minor != int64(n) {
			t.Fatalf("%d: %v, %v", n, lines, err)
		}
		if count() != 3 {
			t.Fatalf("of what is in force %d are left after %d others", count(), n-9)
		}
	}
	for n := 60; n < 90; n++ {
		inForce[load(t, e, cite("fee", n), small(n))] = true
	}
	if _, bytes := e.Held(); bytes > 1<<20 || count() == 33 {
		t.Errorf("%d bytes, %d rules in force", bytes, count())
	}
	if e.Spacious() {
		t.Error("an engine full of rules in force would load more before anybody asks")
	}
	if first := load(t, e, cite("fee", 1), small(1)); !e.Has(first) {
		t.Error("it cannot be loaded again")
	}
}

// TestSpacious: what is in force leaves room for another rule, or does not; what
// is not in force counts for nothing, because it would go.
func TestSpacious(t *testing.T) {
	// An instance that nobody uses goes with any collection, and its rule is smaller.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	e := engines(t)["compiler"]
	e.SetRoom(12<<20, 0) // for the largest rule, and three of these beside it
	var loaded []tollgate.RuleRef
	for n := 1; n <= 6; n++ {
		loaded = append(loaded, load(t, e, cite("fee", n), large(n)))
	}
	for inForce := range 7 {
		e.Prefer(func(ref tollgate.RuleRef) bool { return slices.Contains(loaded[:inForce], ref) })
		if got, want := e.Spacious(), inForce <= 3; got != want {
			t.Errorf("%d rules in force, spacious: %t", inForce, got)
		}
	}
}

// TestRuleSetStays: however little room there is, rules that run together stay
// together, also beside others that are in force.
func TestRuleSetStays(t *testing.T) {
	e := engines(t)["compiler"]
	e.Limit(wasm.LeastRoom)
	inForce := map[tollgate.RuleRef]bool{}
	for n := 1; n <= 100; n++ {
		inForce[load(t, e, cite("fee", n), small(n))] = true
	}
	e.Prefer(func(ref tollgate.RuleRef) bool { return inForce[ref] })
	var set []tollgate.RuleRef
	for n := 1; n <= tollgate.MaxRules; n++ {
		set = append(set, load(t, e, cite("old", n), large(n)))
	}
	if lines, err := e.Quote(nil, set, input(1, "EUR", "x")); err != nil || len(lines) != tollgate.MaxRules {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// TestInstancesCount: an instance counts as long as it lives.
func TestInstancesCount(t *testing.T) {
	e := engines(t)["compiler"]
	ref := load(t, e, cite("fee", 1), large(1))
	_, one := e.Held()
	e.DropIdle(context.Background())
	if _, none := e.Held(); !raceEnabled && (one-none < 1<<20 || none <= 0) { // the race detector's pools lose instances
		t.Errorf("%d bytes with an instance, %d without", one, none)
	}
	for range 5 {
		if _, err := e.Quote(nil, []tollgate.RuleRef{ref}, input(1, "EUR", "x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, again := e.Held(); again != one && !raceEnabled {
		t.Errorf("%d bytes after five quotes, one instance is %d", again, one)
	}
	deadline := time.After(20 * time.Second)
	for {
		runtime.GC() // a pool drops what is idle
		if _, bytes := e.Held(); bytes < one {
			break
		}
		select {
		case <-deadline:
			t.Fatal("an instance that is gone still counts")
		case <-time.After(time.Millisecond):
		}
	}
	load(t, e, cite("fee", 2), small(2))
	e.SetRoom(0, 0)
	e.Prefer(nil)
	if rules, bytes := e.Held(); rules != 0 || bytes != 0 {
		t.Errorf("an empty engine has %d rules of %d bytes", rules, bytes)
	}
}
