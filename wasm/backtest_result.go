package wasm

import (
	"cmp"
	"fmt"
	"slices"

	"tollgate"
)

// BacktestResult is what a backtest counted. An authorization is priced and
// then each of its captures, so money is counted twice when both are added up;
// groups keep them apart.
type BacktestResult struct {
	Tickets     int64
	Evaluations int64
	Affected    int64 // evaluations with the reference among their rules
	Groups      map[BacktestKey]*BacktestGroup
	Missing     map[tollgate.RuleRef]int64 // evaluations that could not run, by the module that was not found
	Broken      int64                      // evaluations whose own modules do not give the ticket's lines
	BrokenFirst []string                   // tickets of some of them
}

// BacktestKey is what differences are added up by.
type BacktestKey struct {
	MerchantAccountID string
	Currency          tollgate.Currency
	Kind              tollgate.EvaluationKind // authorization, capture or refund
}

// BacktestGroup is the evaluations of one key.
type BacktestGroup struct {
	Count, Same, Dearer, Cheaper int64
	Unpriced                     int64 // the candidate refuses or fails
	Before, After                Sum   // of all but the unpriced
	Largest                      []BacktestChange
}

// BacktestChange is one evaluation that the candidate prices in another way.
type BacktestChange struct {
	TicketID      string
	Evaluation    int
	Amount        tollgate.Money
	Before, After tollgate.Money // sums of all lines
	Outcome       string         // why there is no After
}

func (c *BacktestChange) size() int64 {
	if c.Outcome != "" {
		return c.Before.Minor
	}
	return max(c.After.Minor-c.Before.Minor, c.Before.Minor-c.After.Minor)
}

const maxBroken = 10

func (r *BacktestResult) broken(t *tollgate.Ticket, e *tollgate.Evaluation) {
	if len(r.BrokenFirst) < maxBroken {
		r.BrokenFirst = append(r.BrokenFirst, fmt.Sprintf("%s evaluation %d", t.ID, e.Number))
	}
}

func (r *BacktestResult) group(k BacktestKey) *BacktestGroup {
	g := r.Groups[k]
	if g == nil {
		g = &BacktestGroup{}
		r.Groups[k] = g
	}
	return g
}

func (g *BacktestGroup) add(c BacktestChange, largest int) {
	g.Count++
	switch {
	case c.Outcome != "":
		g.Unpriced++
	case c.After.Minor > c.Before.Minor:
		g.Dearer++
	case c.After.Minor < c.Before.Minor:
		g.Cheaper++
	default:
		g.Same++
	}
	if c.Outcome == "" {
		g.Before.Add(c.Before.Minor)
		g.After.Add(c.After.Minor)
		if c.After == c.Before {
			return
		}
	}
	g.keep(c, largest)
}

// keep inserts a change among the largest. What is equal stands in the order of
// the tickets, so that the answer does not depend on who counted what.
func (g *BacktestGroup) keep(c BacktestChange, largest int) {
	if len(g.Largest) >= largest && (largest == 0 || compareChanges(c, g.Largest[largest-1]) > 0) {
		return
	}
	at, _ := slices.BinarySearchFunc(g.Largest, c, compareChanges)
	g.Largest = slices.Insert(g.Largest, at, c)
	g.Largest = g.Largest[:min(len(g.Largest), largest)]
}

func compareChanges(a, b BacktestChange) int {
	return cmp.Or(cmp.Compare(b.size(), a.size()), cmp.Compare(a.TicketID, b.TicketID), cmp.Compare(a.Evaluation, b.Evaluation))
}

// Add takes the counts of another part of the same backtest in.
func (r *BacktestResult) Add(o *BacktestResult, largest int) {
	r.Tickets += o.Tickets
	r.Evaluations += o.Evaluations
	r.Affected += o.Affected
	r.Broken += o.Broken
	r.BrokenFirst = append(r.BrokenFirst, o.BrokenFirst...)
	slices.Sort(r.BrokenFirst)
	r.BrokenFirst = r.BrokenFirst[:min(len(r.BrokenFirst), maxBroken)]
	for ref, n := range o.Missing {
		r.Missing[ref] += n
	}
	for k, from := range o.Groups {
		g := r.group(k)
		g.Count += from.Count
		g.Same += from.Same
		g.Dearer += from.Dearer
		g.Cheaper += from.Cheaper
		g.Unpriced += from.Unpriced
		g.Before.merge(from.Before)
		g.After.merge(from.After)
		for _, c := range from.Largest {
			g.keep(c, largest)
		}
	}
}

// Sum is a sum of amounts in minor units, too large for 64 bits perhaps: the
// amounts of a year are many and have up to 15 digits.
type Sum struct{ high, low int64 } // high × sumBase + low

const sumBase = tollgate.MaxMinor + 1

// Add adds an amount.
func (s *Sum) Add(minor int64) {
	s.low += minor
	s.high += s.low / sumBase
	s.low %= sumBase
}

func (s *Sum) merge(o Sum) {
	s.high += o.high
	s.Add(o.low)
}

// Minus is the difference of two sums.
func (s Sum) Minus(o Sum) Sum {
	s.high -= o.high
	s.Add(-o.low)
	return s
}

// Sign is -1, 0 or 1.
func (s Sum) Sign() int {
	if s.high != 0 {
		return cmp.Compare(s.high, 0)
	}
	return cmp.Compare(s.low, 0)
}

// In prints the sum in a currency, with all its places: "-12.50".
func (s Sum) In(c tollgate.Currency) string {
	sign := ""
	if s.Sign() < 0 {
		sign, s = "-", Sum{}.Minus(s)
	}
	if s.low < 0 { // high carries what low lacks
		s.high, s.low = s.high-1, s.low+sumBase
	}
	places := c.Exponent()
	digits := fmt.Sprintf("%d%015d", s.high, s.low)
	whole, fraction := digits[:len(digits)-places], digits[len(digits)-places:]
	for len(whole) > 1 && whole[0] == '0' {
		whole = whole[1:]
	}
	if places == 0 {
		return sign + whole
	}
	return sign + whole + "." + fraction
}
