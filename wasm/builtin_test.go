package wasm_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
)

// update: go test ./wasm -run TestShippedModules -update
var update = flag.Bool("update", false, "build rule.wasm of the rules that rules/SHA256SUMS does not name yet")

// released reads rules/SHA256SUMS, in the format of sha256sum.
func released(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("rules/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, file, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || sums[file] != "" {
			t.Fatalf("SHA256SUMS: %q", line)
		}
		sums[file] = sum
	}
	return sums
}

// TestShippedModules holds each module to its table and to the sum that it was
// released with.
func TestShippedModules(t *testing.T) {
	sums := released(t)
	tables, err := filepath.Glob("rules/*/*/rule.toml")
	if err != nil || len(tables) < 7 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	for _, file := range tables {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(file)
		name := strings.TrimPrefix(dir, "rules/") + "/rule.wasm"
		module, _ := build(t, string(source))
		if *update && sums[name] == "" {
			if err := os.WriteFile(dir+"/rule.wasm", module, 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%x  %s", sha256.Sum256(module), name)
			continue
		}
		stored, err := os.ReadFile(dir + "/rule.wasm")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(module, stored) {
			t.Errorf("%s: the table does not build the stored module", dir)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(stored)); sums[name] != sum {
			t.Errorf("%s: sum %s, released with %q", name, sum, sums[name])
		}
		if len(stored) > 1024 {
			t.Errorf("%s: %d bytes", name, len(stored))
		}
		delete(sums, name)
	}
	for name := range sums {
		t.Errorf("%s was released and is gone", name)
	}
}

type golden struct {
	citation tollgate.Citation
	wasm.GoldenCase
}

func (g golden) check(e *wasm.Engine) error {
	amount, err := tollgate.ParseMoney(g.Amount, g.Currency)
	if err != nil {
		return err
	}
	lines, err := e.Quote(nil, e.Refs(g.citation), tollgate.PricingInput{Amount: amount, Payee: g.Payee, Refund: g.Kind == wasm.GoldenRefund})
	var te *tollgate.Error
	if errors.As(err, &te) && (te.Rule == nil || *te.Rule != g.citation) {
		return fmt.Errorf("the error names %v", te.Rule)
	}
	switch {
	case g.Refused != "":
		if code(err) != tollgate.CodeRuleRejected || te.Message != g.Refused {
			return fmt.Errorf("%v, want the refusal %q", err, g.Refused)
		}
		return nil
	case g.Failed:
		if code(err) != tollgate.CodeRuleFailed {
			return fmt.Errorf("%v, want a failure", err)
		}
		return nil
	case err != nil:
		return err
	}
	var want []tollgate.FeeLine
	for _, l := range g.Lines {
		m, err := tollgate.ParseMoney(l.Amount, g.Currency)
		if err != nil {
			return err
		}
		want = append(want, tollgate.FeeLine{Label: l.Label, Amount: m, Rule: g.citation})
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		return fmt.Errorf("lines %v, want %v", lines, want)
	}
	return nil
}

// TestShippedGolden runs all golden cases in five orders, on instances that
// are used again and on fresh ones, compiled and interpreted. A module that
// keeps state from call to call cannot pass. The cases were worked out by a
// separate program with exact fractions, not by the modules.
func TestShippedGolden(t *testing.T) {
	ctx := context.Background()
	all, err := wasm.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	for _, r := range all {
		if len(r.Golden) < 10 {
			t.Errorf("%s has %d golden cases", r.Citation, len(r.Golden))
		}
		for _, g := range r.Golden {
			cases = append(cases, golden{r.Citation, g})
		}
	}
	for name, e := range engines(t) {
		if err := e.LoadBuiltin(ctx); err != nil {
			t.Fatal(err)
		}
		for _, fresh := range []bool{false, true} {
			for seed := range uint64(5) {
				r := rand.New(rand.NewPCG(seed, 7))
				r.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
				for _, g := range cases {
					if fresh {
						e.DropIdle(ctx)
					}
					if err := g.check(e); err != nil {
						t.Fatalf("%s, fresh %t, seed %d: %s of %s %s for %q: %v", name, fresh, seed, g.citation, g.Amount, g.Currency, g.Payee, err)
					}
				}
			}
		}
	}
}

// TestShippedInFive is a whole rule set: order, sums over rules, citations and
// a digest of released modules.
func TestShippedInFive(t *testing.T) {
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		t.Fatal(err)
	}
	five := e.Refs(fiveRules...)
	lines, err := e.Quote(nil, five, input(10_000, "EUR", "shop.example"))
	if err != nil {
		t.Fatal(err)
	}
	want := "[{Card fee 2.15 rule:card_fee@v2} {Platform fee 0.10 rule:platform_fee@v1} {Cross-border fee 0.65 rule:cross_border@v2}]"
	if got := fmt.Sprint(lines); got != want {
		t.Errorf("lines\n%s, want\n%s", got, want)
	}
	for i, c := range fiveRules {
		ref := five[i]
		if name := fmt.Sprintf("%s/v%d/rule.wasm", c.Name, c.Version); !e.Has(ref) || ref.SHA256 != released(t)[name] || ref.Rule != c {
			t.Errorf("ref of %s: %v", c, ref)
		}
		if e.Has(tollgate.RuleRef{Rule: tollgate.Citation{Name: c.Name, Version: 9}, SHA256: ref.SHA256}) {
			t.Error("a version that does not exist is there")
		}
	}
}

var fiveRules = []tollgate.Citation{
	{Name: "sandbox", Version: 1},
	{Name: "currency_gate", Version: 1},
	{Name: "card_fee", Version: 2},
	{Name: "platform_fee", Version: 1},
	{Name: "cross_border", Version: 2},
}
