package fees

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tollgate"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/rediskv/redistest"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// randomTable is a table for EUR whose fees bend and step below 200.00.
func randomTable(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("label = \"Fee\"\n[[fee]]\ncurrencies = [\"EUR\"]\n")
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "minimum = \"0.%02d\"\n", 1+r.IntN(90))
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "maximum = \"%d.%02d\"\n", 1+r.IntN(3), r.IntN(100))
	}
	b.WriteString("tiers = [\n")
	upTo := 0
	for range r.IntN(4) {
		upTo += 1 + r.IntN(4000)
		fmt.Fprintf(&b, "  { up_to = \"%d.%02d\", percentage = \"%d.%02d\", fixed = \"0.%02d\" },\n", upTo/100, upTo%100, r.IntN(3), r.IntN(100), r.IntN(40))
	}
	fmt.Fprintf(&b, "  { percentage = \"%d.%04d\", fixed = \"0.%02d\" },\n]\n", r.IntN(3), r.IntN(10000), r.IntN(40))
	if r.IntN(12) == 0 {
		b.WriteString("[[refuse]]\ncurrencies = [\"EUR\"]\ncode = \"no\"\nmessage = \"No.\"\n")
	}
	return b.String()
}

func feesOf(t *testing.T, engine *wasm.Engine, text string, from, to int64, sampled bool) *feeFunction {
	t.Helper()
	module, table, err := compiler.Build([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	f, err := newFeeFunction(context.Background(), engine, &source.Rule{Citation: examine.UnderTest, Module: module, Table: &table}, "EUR", "shop.example")
	if err != nil {
		t.Fatal(err)
	}
	if sampled {
		f.sample(from, to)
		return f
	}
	shape, err := table.Shape("EUR")
	if err != nil {
		t.Fatal(err)
	}
	f.read(shape, from, to)
	return f
}

// TestCompareIsExact compares random tables, and some that differ little, and
// looks at every single amount. Tables that are sampled as modules must come to
// the same here, where fees have no steps that go back between two samples.
func TestCompareIsExact(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(11, 12))
	const from, to = 1, 12_000
	mixtures, pairs := 0, 16
	if redistest.RaceDetector {
		pairs = 1
	}
	for i := range pairs {
		engine, err := wasm.NewEngine(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first, second := randomTable(r), randomTable(r)
		if i%3 == 0 { // a little dearer
			second = strings.Replace(first, "label", "# almost the same\nlabel", 1)
			at := strings.LastIndex(second, "percentage = \"") + len("percentage = \"")
			second = second[:at] + fmt.Sprintf("%d.%04d", r.IntN(3), r.IntN(10000)) + second[strings.Index(second[at:], "\"")+at:]
		}
		for _, sampled := range []bool{false, true} {
			a, b := feesOf(t, engine, first, from, to, sampled), feesOf(t, engine, second, from, to, sampled)
			next := int64(from)
			for _, s := range compareRules(a, b, from, to) {
				if s.from != next || s.to < s.from {
					t.Fatalf("a stretch from %d to %d, and %d is next", s.from, s.to, next)
				}
				next = s.to + 1
				var same, dearer, cheaper int64
				for n := s.from; n <= s.to; n++ {
					sign := compareFees(a.at(n), b.at(n))
					if s.sign != mixed && sign != s.sign {
						t.Fatalf("sampled %t: at %d the sign is %d, not %d of %d to %d:\nA %s\nB %s", sampled, n, sign, s.sign, s.from, s.to, first, second)
					}
					switch sign {
					case equal:
						same++
					case 1:
						dearer++
					case -1:
						cheaper++
					}
				}
				if s.sign == mixed {
					mixtures++
					if s.same != same || s.dearer != dearer || s.cheaper != cheaper {
						t.Fatalf("%d to %d: %d, %d, %d amounts, not %d, %d, %d", s.from, s.to, s.same, s.dearer, s.cheaper, same, dearer, cheaper)
					}
				}
			}
			if next != to+1 {
				t.Fatalf("the stretches end at %d", next-1)
			}
		}
		if err := engine.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if mixtures == 0 && !redistest.RaceDetector {
		t.Error("nothing was mixed")
	}
}

// TestCompareFar: ends of the range of amounts, where fees leave it.
func TestCompareFar(t *testing.T) {
	engine, err := wasm.NewEngine(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close(context.Background())
	const whole = "label = \"Fee\"\n[[fee]]\ncurrencies = [\"EUR\"]\npercentage = \"100\"\nfixed = \"1.00\""
	a := feesOf(t, engine, whole, 1, tollgate.MaxMinor, false)
	b := feesOf(t, engine, strings.Replace(whole, "1.00", "2.00", 1), 1, tollgate.MaxMinor, false)
	all := compareRules(a, b, 1, tollgate.MaxMinor)
	if len(all) != 3 || all[0].sign != 1 || all[0].to != tollgate.MaxMinor-200 || all[1].sign != unlike || all[2].sign != equal {
		t.Errorf("%+v", all)
	}
}
