package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// engines are the compiler and the interpreter: each table test asks both.
func engines(t testing.TB) map[string]*wasm.Engine {
	t.Helper()
	ctx := context.Background()
	compiler, err := wasm.NewEngine(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*wasm.Engine{"compiler": compiler, "interpreter": wasm.NewInterpreter(ctx)}
	t.Cleanup(func() {
		for _, e := range all {
			if err := e.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	return all
}

func build(t testing.TB, source string) ([]byte, compiler.Table) {
	t.Helper()
	module, table, err := compiler.Build([]byte(source))
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return module, table
}

func load(t testing.TB, e *wasm.Engine, c tollgate.Citation, module []byte) tollgate.RuleRef {
	t.Helper()
	ref, err := e.Load(context.Background(), c, module)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func input(minor int64, c tollgate.Currency, payee string) tollgate.PricingInput {
	return tollgate.PricingInput{Amount: tollgate.Money{Minor: minor, Currency: c}, Payee: payee}
}

// judge computes a fee from the table's text with math/big, along none of the
// compiler's ways: rationals instead of millionths, amounts instead of minor
// units. nil is "no line".
func judge(t testing.TB, table compiler.Table, minor int64, c tollgate.Currency) *big.Int {
	t.Helper()
	var fee *compiler.TableFee
	for i := range table.Fees {
		f := &table.Fees[i]
		if slices.Contains(f.Currencies, c) || (len(f.Currencies) == 0 && fee == nil) {
			fee = f
		}
	}
	if fee == nil {
		return nil
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.Exponent())), nil))
	rat := func(s string) *big.Rat {
		if s == "" {
			return new(big.Rat)
		}
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("not a number: %q", s)
		}
		return r
	}
	amount := new(big.Rat).SetInt64(minor)
	rate := fee.TableRate
	for _, tier := range fee.Tiers {
		rate = tier
		if tier.UpTo != "" && new(big.Rat).Mul(rat(tier.UpTo), scale).Cmp(amount) >= 0 {
			break
		}
	}
	exact := new(big.Rat).Mul(amount, new(big.Rat).Quo(rat(rate.Percentage), big.NewRat(100, 1)))
	whole, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
	switch rest.Lsh(rest, 1).Cmp(exact.Denom()) {
	case 1:
		whole.Add(whole, big.NewInt(1))
	case 0:
		whole.Add(whole, new(big.Int).And(whole, big.NewInt(1)))
	}
	result := new(big.Rat).SetInt(whole)
	result.Add(result, new(big.Rat).Mul(rat(rate.Fixed), scale))
	if low := new(big.Rat).Mul(rat(fee.Minimum), scale); fee.Minimum != "" && result.Cmp(low) < 0 {
		result = low
	}
	if high := new(big.Rat).Mul(rat(fee.Maximum), scale); fee.Maximum != "" && result.Cmp(high) > 0 {
		result = high
	}
	if !result.IsInt() {
		t.Fatalf("fee %s is not in minor units", result)
	}
	if result.Sign() == 0 {
		return nil
	}
	return result.Num()
}

var tableCurrencies = []tollgate.Currency{"JPY", "KRW", "EUR", "USD", "CHF", "BHD", "KWD", "CLF", "UYW"}

// money is a random amount of c that is at most so many digits long.
func money(r *rand.Rand, c tollgate.Currency, digits int) string {
	limit := int64(1)
	for range digits {
		limit *= 10
	}
	return tollgate.Money{Minor: r.Int64N(limit), Currency: c}.String()
}

func percentage(r *rand.Rand) string {
	n := r.IntN(1_000_001)
	if r.IntN(2) == 0 { // the usual ones, and round ones, which make ties
		n = r.IntN(1000) * 100
	}
	return fmt.Sprintf("%d.%04d", n/10_000, n%10_000)
}

// randomTable writes a table with a fee for some currencies and perhaps one
// for the rest.
func randomTable(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("label = \"Fee\"\n")
	rate := func(c tollgate.Currency) string {
		s := fmt.Sprintf("percentage = %q", percentage(r))
		if r.IntN(2) == 0 {
			s += fmt.Sprintf(", fixed = %q", money(r, c, 4))
		}
		return s
	}
	for i, c := range tableCurrencies {
		if i > 0 && r.IntN(3) == 0 {
			continue
		}
		fmt.Fprintf(&b, "[[fee]]\ncurrencies = [%q]\n", c)
		if n := r.IntN(5); n > 1 {
			b.WriteString("tiers = [")
			bound := int64(0)
			for range n - 1 {
				bound += 1 + r.Int64N([]int64{1e3, 1e6, 1e12, 2e14}[r.IntN(4)])
				fmt.Fprintf(&b, "{ up_to = %q, %s },\n", tollgate.Money{Minor: bound, Currency: c}, rate(c))
			}
			fmt.Fprintf(&b, "{ %s }]\n", rate(c))
		} else {
			b.WriteString(strings.ReplaceAll(rate(c), ", ", "\n") + "\n")
		}
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "minimum = %q\n", money(r, c, 3))
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "maximum = \"%d\"\n", 1000+r.Int64N(1e9))
			}
		}
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "[[fee]]\npercentage = %q\n", percentage(r))
	}
	return b.String()
}

// amounts that matter for a table: small, everyday, around its tiers, and the
// largest allowed.
func randomAmount(r *rand.Rand, table compiler.Table, c tollgate.Currency) int64 {
	switch r.IntN(8) {
	case 0:
		return r.Int64N(200)
	case 1:
		return 1e14 + r.Int64N(tollgate.MaxMinor-1e14+1)
	case 2:
		return tollgate.MaxMinor - r.Int64N(3)
	case 3, 4:
		f := table.Fees[r.IntN(len(table.Fees))]
		if len(f.Tiers) > 1 && slices.Contains(f.Currencies, c) {
			if m, err := tollgate.ParseMoney(f.Tiers[r.IntN(len(f.Tiers)-1)].UpTo, c); err == nil {
				return m.Minor - 1 + r.Int64N(3)
			}
		}
		return r.Int64N(1e6) * 50
	}
	return r.Int64N([]int64{1e4, 1e6, 1e9, 1e12}[r.IntN(4)])
}

// TestTableExact prices 120,000 random amounts with random tables and compares
// every fee with math/big, in all currency exponents and up to the largest
// amount. Every tenth goes through the interpreter as well.
func TestTableExact(t *testing.T) {
	tables, each := 240, 500
	if raceEnabled { // ten times slower, and about goroutines, not numbers
		tables = 40
	}
	all := engines(t)
	r := rand.New(rand.NewPCG(1, 2))
	var lines []tollgate.FeeLine
	for n := range tables {
		source := randomTable(r)
		module, table := build(t, source)
		if len(module) > 4096 {
			t.Errorf("a module of %d bytes", len(module))
		}
		c := tollgate.Citation{Name: "random", Version: n + 1}
		rules := []tollgate.RuleRef{wasm.RefOf(c, module)}
		for _, e := range all {
			load(t, e, c, module)
		}
		for i := range each {
			currency := tableCurrencies[r.IntN(len(tableCurrencies))]
			in := input(randomAmount(r, table, currency), currency, "shop.example")
			want := judge(t, table, in.Amount.Minor, currency)
			for name, e := range all {
				if name == "interpreter" && i%10 != 0 {
					continue
				}
				var err error
				lines, err = e.Quote(lines[:0], rules, in)
				if want != nil && want.Cmp(big.NewInt(tollgate.MaxMinor)) > 0 {
					// More than an amount can hold: the rule fails.
					if code(err) != tollgate.CodeRuleFailed {
						t.Fatalf("%s: %v of fee %s: %v, %v\n%s", name, in.Amount, want, lines, err, source)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v\n%s", name, err, source)
				}
				var got *big.Int // nil: no line
				if len(lines) == 1 {
					got = big.NewInt(lines[0].Amount.Minor)
				}
				if len(lines) > 1 || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s: %v %s: lines %v, want %v\n%s", name, in.Amount, currency, lines, want, source)
				}
			}
		}
	}
}

func code(err error) tollgate.Code {
	var e *tollgate.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
