package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"tollgate"
	"tollgate/wasm"
)

var (
	cardFee1 = tollgate.Citation{Name: "card_fee", Version: 1}
	cardFee2 = tollgate.Citation{Name: "card_fee", Version: 2}
)

// pastTickets are tickets as the service writes them: a payment and one
// capture each, priced by five rules with the first version of the card fee.
func pastTickets(t testing.TB, e *wasm.Engine, n int) []*tollgate.Ticket {
	t.Helper()
	cited := slices.Clone(fiveRules)
	cited[2] = cardFee1
	refs := e.Refs(cited...)
	r := rand.New(rand.NewPCG(3, 4))
	accounts := []string{"ma_a", "ma_b", "ma_c"}
	currencies := []tollgate.Currency{"EUR", "USD", "JPY", "BHD"}
	var all []*tollgate.Ticket
	for i := range n {
		minor := 1 + r.Int64N(int64(1)<<(1+r.IntN(45)))
		amount := tollgate.Money{Minor: minor, Currency: currencies[r.IntN(len(currencies))]}
		ticket := &tollgate.Ticket{
			Object: "ticket", ID: fmt.Sprintf("tkt_%026d", i), MerchantAccountID: accounts[r.IntN(3)],
			Amount: amount, Currency: amount.Currency, Payee: "shop.example", Total: tollgate.Money{Currency: amount.Currency},
		}
		evaluate := func(kind tollgate.EvaluationKind, in tollgate.PricingInput) {
			lines, err := e.Quote(nil, refs, in)
			if err != nil {
				t.Fatal(err)
			}
			ticket.Evaluate(kind, in, refs, lines, "evt_1", tollgate.Instant(0))
		}
		evaluate(tollgate.EvaluationAuthorization, tollgate.PricingInput{Amount: amount, Payee: string(ticket.Payee)})
		part := tollgate.Money{Minor: 1 + r.Int64N(minor), Currency: amount.Currency}
		evaluate(tollgate.EvaluationCapture, tollgate.PricingInput{Amount: part, Payee: string(ticket.Payee), CaptureIndex: 1})
		all = append(all, ticket)
	}
	return all
}

func sequence(all []*tollgate.Ticket) iter.Seq2[*tollgate.Ticket, error] {
	return func(yield func(*tollgate.Ticket, error) bool) {
		for _, t := range all {
			if !yield(t, nil) {
				return
			}
		}
	}
}

func shippedEngine(t testing.TB) *wasm.Engine {
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(context.Background()); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestBacktest adds everything up a second time, with big integers and one
// rule at a time.
func TestBacktest(t *testing.T) {
	e := shippedEngine(t)
	all := pastTickets(t, e, 2000)
	type sums struct {
		before, after          big.Int
		count, dearer, cheaper int64
		largest                int64
	}
	want := map[wasm.BacktestKey]*sums{}
	v1, v2 := e.Refs(cardFee1), e.Refs(cardFee2)
	for _, ticket := range all {
		for _, ev := range ticket.Evaluations {
			k := wasm.BacktestKey{MerchantAccountID: ticket.MerchantAccountID, Currency: ticket.Currency, Kind: ev.Kind}
			if want[k] == nil {
				want[k] = &sums{}
			}
			in := tollgate.PricingInput{Amount: ev.Input.Amount, Payee: string(ev.Input.Payee), CaptureIndex: ev.Input.CaptureIndex}
			price := func(refs []tollgate.RuleRef) int64 {
				lines, err := e.Quote(nil, refs, in)
				if err != nil {
					t.Fatal(err)
				}
				return tollgate.FeeTotal(lines, ticket.Currency).Minor
			}
			before := price(ev.Rules)
			after := before - price(v1) + price(v2)
			s := want[k]
			s.count++
			s.before.Add(&s.before, big.NewInt(before))
			s.after.Add(&s.after, big.NewInt(after))
			if after > before {
				s.dearer++
			}
			if after < before {
				s.cheaper++
			}
			s.largest = max(s.largest, after-before, before-after)
		}
	}
	whole := &wasm.BacktestResult{Groups: map[wasm.BacktestKey]*wasm.BacktestGroup{}, Missing: map[tollgate.RuleRef]int64{}}
	for part := range slices.Chunk(all, 300) { // in parts, as many cores do it
		b := &wasm.Backtest{Engine: e, Reference: cardFee1, Candidate: v2[0], Largest: 3}
		r, err := b.Run(sequence(part))
		if err != nil {
			t.Fatal(err)
		}
		whole.Add(r, 3)
	}
	if whole.Tickets != 2000 || whole.Evaluations != 4000 || whole.Affected != 4000 || whole.Broken != 0 || len(whole.Missing) != 0 {
		t.Errorf("%+v", whole)
	}
	if len(whole.Groups) != len(want) {
		t.Fatalf("%d groups, want %d", len(whole.Groups), len(want))
	}
	for k, s := range want {
		g := whole.Groups[k]
		if g == nil || g.Count != s.count || g.Dearer != s.dearer || g.Cheaper != s.cheaper || g.Count != g.Same+g.Dearer+g.Cheaper+g.Unpriced {
			t.Fatalf("%v: %+v, want %+v", k, g, s)
		}
		if got, want := g.Before.In(k.Currency), decimalText(&s.before, k.Currency); got != want {
			t.Errorf("%v: before %s, want %s", k, got, want)
		}
		var diff big.Int
		if got, want := g.After.Minus(g.Before).In(k.Currency), decimalText(diff.Sub(&s.after, &s.before), k.Currency); got != want {
			t.Errorf("%v: difference %s, want %s", k, got, want)
		}
		if s.largest > 0 {
			c := g.Largest[0]
			if d := max(c.After.Minor-c.Before.Minor, c.Before.Minor-c.After.Minor); d != s.largest {
				t.Errorf("%v: largest %d, want %d", k, d, s.largest)
			}
		}
		if !slices.IsSortedFunc(g.Largest, func(a, b wasm.BacktestChange) int {
			return int(max(b.After.Minor-b.Before.Minor, b.Before.Minor-b.After.Minor) - max(a.After.Minor-a.Before.Minor, a.Before.Minor-a.After.Minor))
		}) || len(g.Largest) > 3 {
			t.Errorf("%v: largest %+v", k, g.Largest)
		}
	}
}

func decimalText(n *big.Int, c tollgate.Currency) string {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.Exponent())), nil)
	return new(big.Rat).SetFrac(n, scale).FloatString(c.Exponent())
}

// TestBacktestSetsApart: what cannot be priced is counted and never part of a
// sum.
func TestBacktestSetsApart(t *testing.T) {
	e := shippedEngine(t)
	all := pastTickets(t, e, 20)
	all[0].Evaluations[0].LinesSHA256 = "0000"
	other := tollgate.RuleRef{Rule: tollgate.Citation{Name: "gone", Version: 1}, SHA256: "ff"}
	all[1].Evaluations[0].Rules = append(slices.Clone(all[1].Evaluations[0].Rules), other)
	all[2].Evaluations[0].Rules = all[2].Evaluations[0].Rules[:2]
	trap, err := e.Load(context.Background(), tollgate.Citation{Name: "trap", Version: 1}, guest{quote: []byte{0x00}}.bytes())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	b := &wasm.Backtest{Engine: e, Reference: cardFee1, Candidate: trap, Largest: 1, Find: func(ref tollgate.RuleRef) error {
		asked++
		if ref != other {
			t.Errorf("asked for %v", ref)
		}
		return errors.New("gone")
	}}
	r, err := b.Run(sequence(all))
	if err != nil {
		t.Fatal(err)
	}
	if r.Affected != 39 || r.Broken != 1 || len(r.BrokenFirst) != 1 || r.Missing[other] != 1 || asked != 1 {
		t.Errorf("%+v, asked %d times", r, asked)
	}
	unpriced := int64(0)
	for k, g := range r.Groups {
		unpriced += g.Unpriced
		if g.Count != g.Unpriced || g.Before.Sign() != 0 || len(g.Largest) != 1 || g.Largest[0].Outcome != "failed" {
			t.Errorf("%v: %+v", k, g)
		}
	}
	if unpriced != 37 {
		t.Errorf("%d unpriced", unpriced)
	}
	failing := errors.New("line 3")
	if _, err := b.Run(func(yield func(*tollgate.Ticket, error) bool) { yield(nil, failing) }); !errors.Is(err, failing) {
		t.Errorf("error %v", err)
	}
}

// TestBacktestSeesWhatIsBefore: a rule behind the candidate that charges what
// the rules before it add up to is run again when that changes.
func TestBacktestSeesWhatIsBefore(t *testing.T) {
	e := shippedEngine(t)
	ctx := context.Background()
	echo, err := e.Load(ctx, tollgate.Citation{Name: "echo", Version: 1}, field(48, -1))
	if err != nil {
		t.Fatal(err)
	}
	v1, v2 := e.Refs(cardFee1)[0], e.Refs(cardFee2)[0]
	for _, minor := range []int64{5_000, 50_000, 500_000} { // card_fee@v2 is v1 up to 100.00
		amount := tollgate.Money{Minor: minor, Currency: "EUR"}
		in := tollgate.PricingInput{Amount: amount, Payee: "shop.example"}
		price := func(refs ...tollgate.RuleRef) []tollgate.FeeLine {
			lines, err := e.Quote(nil, refs, in)
			if err != nil {
				t.Fatal(err)
			}
			return lines
		}
		ticket := &tollgate.Ticket{ID: "tkt_1", Currency: "EUR"}
		ticket.Evaluate(tollgate.EvaluationAuthorization, in, []tollgate.RuleRef{v1, echo, echo}, price(v1, echo, echo), "evt_1", 0)
		b := &wasm.Backtest{Engine: e, Reference: cardFee1, Candidate: v2, Largest: 1}
		r, err := b.Run(sequence([]*tollgate.Ticket{ticket}))
		if err != nil || r.Affected != 1 || r.Broken != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, g := range r.Groups {
			if got, want := g.After.In("EUR"), tollgate.FeeTotal(price(v2, echo, echo), "EUR").String(); got != want {
				t.Errorf("%s: %s after, want %s", amount, got, want)
			}
		}
	}
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var sum, other wasm.Sum
	var want, wantOther big.Int
	for i := range 20_000 {
		n := r.Int64N(2*tollgate.MaxMinor) - tollgate.MaxMinor
		if i > 10_000 {
			n = tollgate.MaxMinor // far beyond 64 bits
		}
		sum.Add(n)
		want.Add(&want, big.NewInt(n))
		if i%3 == 0 {
			other.Add(-n)
			wantOther.Sub(&wantOther, big.NewInt(n))
		}
		if i%997 != 0 {
			continue
		}
		for _, c := range []tollgate.Currency{"JPY", "EUR", "BHD", "CLF"} {
			var diff big.Int
			diff.Sub(&wantOther, &want)
			if got, want := sum.In(c), decimalText(&want, c); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			if got, want := other.Minus(sum).In(c), decimalText(&diff, c); got != want {
				t.Fatalf("difference %s, want %s", got, want)
			}
			if got := other.Minus(sum).Sign(); got != diff.Sign() {
				t.Fatalf("sign %d of %v", got, &diff)
			}
		}
	}
}

// BenchmarkBacktest is one core with tickets that are parsed already. Beside
// the clock it takes the process' CPU time, which a busy machine does not
// stretch as much.
func BenchmarkBacktest(b *testing.B) {
	e := shippedEngine(b)
	all := pastTickets(b, e, 10_000)
	bt := &wasm.Backtest{Engine: e, Reference: cardFee1, Candidate: e.Refs(cardFee2)[0], Largest: 10}
	tickets, begin := 0, cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bt.Run(sequence(all)); err != nil {
			b.Fatal(err)
		}
		tickets += len(all)
	}
	b.ReportMetric(float64(tickets)/b.Elapsed().Seconds(), "tickets/s")
	b.ReportMetric(float64(tickets)/(cpuTime(b)-begin).Seconds(), "tickets/cpu-s")
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestBacktestReplacesUsedUpInstances: the fees are those of a new instance.
func TestBacktestReplacesUsedUpInstances(t *testing.T) {
	ctx := context.Background()
	e := engines(t)["compiler"]
	if err := e.LoadBuiltin(ctx); err != nil {
		t.Fatal(err)
	}
	candidate := load(t, e, tollgate.Citation{Name: "used_up", Version: 1}, usedUp.bytes())
	b := &wasm.Backtest{Engine: e, Reference: cardFee1, Candidate: candidate}
	r, err := b.Run(sequence(pastTickets(t, e, 50)))
	if err != nil || r.Evaluations != 100 {
		t.Fatalf("%d evaluations, %v", r.Evaluations, err)
	}
	for key, g := range r.Groups {
		if g.Unpriced != 0 {
			t.Errorf("%v: %d not priced", key, g.Unpriced)
		}
	}
}
