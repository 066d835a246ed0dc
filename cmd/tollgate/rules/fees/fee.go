// Package fees compares the fees that two rules take, exactly.
package fees

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"tollgate"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
	"tollgate/wasm/compiler"
)

// feeFunction is what a rule charges for a payee and a currency, by amount.
type feeFunction struct {
	ctx      context.Context // ends a comparison that somebody has waited long enough for
	engine   *wasm.Engine
	rules    []tollgate.RuleRef
	currency tollgate.Currency
	payee    string
	refund   bool // of these amounts
	lines    []tollgate.FeeLine
	err      error // of an input that no rule can price
	pieces   []piece
	exact    bool // the pieces are known from a table, not found by sampling
	endless  bool // sampling gave up: there are more pieces than these
}

// fee is what comes of one amount: a sum of lines, or why there is none.
type fee struct {
	minor int64
	no    string // a refusal or a failure; then minor is 0
}

// piece is a stretch of amounts on which a fee is a share of the amount,
// rounded, plus a constant.
type piece struct {
	from, to int64
	rate     int64 // millionths; unknown when it was found by sampling
}

const (
	unknownRate = -1

	// A rule may well have a step every few cents, or no line at all.
	maxPieces  = 256    // of a rule that is sampled
	maxRefined = 20_000 // samples between those that are spread over the range
)

func newFeeFunction(ctx context.Context, engine *wasm.Engine, r *source.Rule, c tollgate.Currency, payee string) (*feeFunction, error) {
	ref, err := engine.Load(ctx, r.Citation, r.Module)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name, err)
	}
	f := &feeFunction{ctx: ctx, engine: engine, rules: []tollgate.RuleRef{ref}, currency: c, payee: payee}
	f.at(0)
	return f, f.err
}

func (f *feeFunction) at(amount int64) fee {
	if err := f.ctx.Err(); err != nil {
		f.err = err
		return fee{no: "fails"}
	}
	lines, err := f.engine.Quote(f.lines[:0], f.rules, tollgate.PricingInput{
		Amount: tollgate.Money{Minor: amount, Currency: f.currency}, Payee: f.payee, Refund: f.refund,
	})
	if err == nil {
		f.lines = lines
		return fee{minor: tollgate.FeeTotal(lines, f.currency).Minor}
	}
	var e *tollgate.Error
	switch {
	case errors.As(err, &e) && e.Code == tollgate.CodeRuleRejected:
		return fee{no: "refused: " + e.Message}
	case errors.As(err, &e) && e.Code == tollgate.CodeRuleFailed:
		return fee{no: "fails"}
	}
	if f.err == nil {
		f.err = err
	}
	return fee{no: "fails"}
}

// first returns the first amount in from…to for which is holds, to+1 when there
// is none; is must go from false to true once.
func first(from, to int64, is func(int64) bool) int64 {
	n := sort.Search(int(to-from+1), func(i int) bool { return is(from + int64(i)) })
	return from + int64(n)
}

// read takes the pieces from a table's shape. In a tier the fee rises with the
// amount, so that where it leaves the minimum and reaches the maximum can be
// searched for.
func (f *feeFunction) read(s compiler.Shape, from, to int64) {
	f.exact = true
	low := from
	for _, t := range s.Tiers {
		high := min(t.UpTo, to)
		if high < low {
			continue
		}
		cuts := []int64{low, first(low, high, func(n int64) bool { return f.at(n).no == "fails" }), high + 1}
		if s.Minimum > 0 {
			cuts = append(cuts, first(low, high, func(n int64) bool { v := f.at(n); return v.no != "" || v.minor > s.Minimum }))
		}
		if s.Maximum <= tollgate.MaxMinor {
			cuts = append(cuts, first(low, high, func(n int64) bool { v := f.at(n); return v.no != "" || v.minor >= s.Maximum }))
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		for i := range len(cuts) - 1 {
			p := piece{cuts[i], cuts[i+1] - 1, t.Rate}
			a, b := f.at(p.from), f.at(p.to)
			if a.no != "" || (a.minor == b.minor && (a.minor == s.Minimum || a.minor == s.Maximum)) {
				p.rate = 0
			}
			f.pieces = append(f.pieces, p)
		}
		low = high + 1
	}
}

// sample finds pieces by looking: at amounts spread over the range and beside
// round ones, and wherever in between the fee is not what two samples make one
// expect. It gives up on a rule with too many of them.
func (f *feeFunction) sample(from, to int64) {
	var known []feeSample
	left := maxRefined
	for i, n := range samplePoints(from, to) {
		s := f.look(n)
		if i > 0 {
			f.refine(known[len(known)-1], s, &known, &left)
		}
		known = append(known, s)
	}
	// Neighbours on one line are one piece.
	start := 0
	for i := 1; i <= len(known); i++ {
		if i < len(known) && straight(known[start:i+1]) {
			continue
		}
		end := known[i-1].amount
		if i < len(known) && known[i].amount-end > 1 {
			end = known[i].amount - 1
		}
		if i == len(known) {
			end = to
		}
		f.pieces = append(f.pieces, piece{known[start].amount, end, unknownRate})
		start = i
	}
	f.pieces = slices.DeleteFunc(f.pieces, func(p piece) bool { return p.from > p.to })
	f.endless = left == 0 || len(f.pieces) > maxPieces
}

// feeSample is an amount and what is charged for it.
type feeSample struct {
	amount int64
	fee    fee
}

func (f *feeFunction) look(amount int64) feeSample { return feeSample{amount, f.at(amount)} }

// samplePoints are amounts in rising order, the ends among them.
func samplePoints(from, to int64) []int64 {
	points := []int64{from, to}
	add := func(n int64) {
		for _, m := range []int64{n - 1, n, n + 1} {
			if m > from && m < to {
				points = append(points, m)
			}
		}
	}
	for n := from; n < to && n < from+1000; n++ { // small amounts, where minimums are
		points = append(points, n)
	}
	for n := int64(1); n <= to; n *= 10 {
		for _, step := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 75, 80} {
			add(n * step / 10)
		}
	}
	for n := int64(1); n <= to; n *= 2 {
		add(n)
	}
	const even, perOctave = 2000, 64
	for i := range int64(even) {
		add(from + (to-from)/even*i)
	}
	for n := float64(max(from, 1)); n < float64(to); n *= 1 + 1.0/perOctave {
		points = append(points, int64(n))
	}
	slices.Sort(points)
	return slices.Compact(points)
}

// refine adds the amounts between two samples that are needed to know the fee
// there, as far as halving shows it and some are left.
func (f *feeFunction) refine(low, high feeSample, known *[]feeSample, left *int) {
	size := high.amount - low.amount
	if size < 2 || *left == 0 {
		return
	}
	middle := f.look(low.amount + size/2)
	if straight([]feeSample{low, f.look(low.amount + size/3), middle, high}) {
		return
	}
	*left--
	f.refine(low, middle, known, left)
	*known = append(*known, middle)
	f.refine(middle, high, known, left)
}

// straight reports whether all fees are within rounding of the line between the
// first and the last.
func straight(samples []feeSample) bool {
	a, b := samples[0], samples[len(samples)-1]
	size := b.amount - a.amount
	if a.fee.no != b.fee.no {
		return false
	}
	if len(samples) == 2 && size == 1 && max(b.fee.minor-a.fee.minor, a.fee.minor-b.fee.minor) > 2 {
		return false // a step
	}
	// Long pieces have many samples; some of them show a bend as well as all.
	step := max(1, len(samples)/32)
	for i := 1; i < len(samples)-1; i += step {
		s := samples[i]
		expected := float64(a.fee.minor) + float64(b.fee.minor-a.fee.minor)*float64(s.amount-a.amount)/float64(size)
		if s.fee.no != a.fee.no || float64(s.fee.minor) > expected+1.01 || float64(s.fee.minor) < expected-1.01 {
			return false
		}
	}
	return true
}
