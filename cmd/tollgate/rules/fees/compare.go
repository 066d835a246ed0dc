package fees

import "slices"

// stretch is a range of amounts on which two rules compare in one way.
type stretch struct {
	from, to int64
	sign     int // of B − A; mixed when rounding makes it change from amount to amount
	same     int64
	dearer   int64
	cheaper  int64
	sampled  bool // not every amount was looked at, and no table says how it goes on
}

const (
	equal   = 0
	mixed   = 2
	unlike  = 3 // one of them refuses or fails, or they do so in different words
	maxRuns = 4 // stretches that one crossing is broken into before it is called mixed

	// How many amounts are looked at one by one where rounding decides, and of
	// rules that are sampled in one stretch and in all.
	maxScan        = 4_000_000
	maxScanSampled = 200_000
	maxScanned     = 2_000_000
)

func compareFees(a, b fee) int {
	switch {
	case a.no != b.no:
		return unlike
	case a.minor < b.minor:
		return 1
	case a.minor > b.minor:
		return -1
	}
	return equal
}

// compareRules divides from…to into stretches.
func compareRules(a, b *feeFunction, from, to int64) []stretch {
	starts := []int64{from}
	for _, f := range []*feeFunction{a, b} {
		for _, p := range f.pieces {
			if p.from > from && p.from <= to {
				starts = append(starts, p.from)
			}
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	limit := int64(maxScan)
	if !a.exact || !b.exact {
		limit = min(maxScanSampled, maxScanned/int64(len(starts)))
	}
	var all []stretch
	for i, low := range starts {
		high := to
		if i+1 < len(starts) {
			high = starts[i+1] - 1
		}
		all = append(all, merge(compareOn(a, b, low, high, limit), 1, -1, equal, unlike)...)
	}
	return merge(all, equal)
}

// merge joins neighbours that have one of some signs in common.
func merge(all []stretch, signs ...int) []stretch {
	var out []stretch
	for _, s := range all {
		if n := len(out); n > 0 && s.sign == out[n-1].sign && slices.Contains(signs, s.sign) {
			out[n-1].to = s.to
			out[n-1].sampled = out[n-1].sampled || s.sampled
			continue
		}
		out = append(out, s)
	}
	return out
}

// compareOn compares on a range in which both fees are one piece each. The
// difference is then a straight line, but for rounding, which moves it by at
// most two minor units: where the line is further from zero its sign is that of
// the difference, and the amounts in between are looked at one by one, as far
// as a limit of them.
func compareOn(a, b *feeFunction, low, high, limit int64) []stretch {
	first, last := compareFees(a.at(low), b.at(low)), compareFees(a.at(high), b.at(high))
	sure := a.exact && b.exact
	if first == unlike || last == unlike {
		return []stretch{{from: low, to: high, sign: unlike, sampled: !sure}}
	}
	if sure && a.rateAt(low) == b.rateAt(low) { // both are rounded alike
		return []stretch{{from: low, to: high, sign: first}}
	}
	d0 := float64(b.at(low).minor - a.at(low).minor)
	d1 := float64(b.at(high).minor - a.at(high).minor)
	near := 2.5
	if !sure { // a piece that was sampled may bend a little
		near = 8
	}
	from, to := crossing(low, high, d0, d1, near)
	var out []stretch
	if from > low {
		out = append(out, stretch{from: low, to: from - 1, sign: sign(d0), sampled: !sure})
	}
	if from <= to {
		out = append(out, scan(a, b, from, to, limit)...)
	}
	if to < high {
		out = append(out, stretch{from: to + 1, to: high, sign: sign(d1), sampled: !sure})
	}
	return out
}

func sign(d float64) int {
	if d < 0 {
		return -1
	}
	return 1
}

// crossing is where the line from d0 at low to d1 at high is near zero; with
// to < from when it nowhere is.
func crossing(low, high int64, d0, d1, near float64) (from, to int64) {
	at := func(d float64) float64 { return float64(low) + (d-d0)/(d1-d0)*float64(high-low) }
	switch {
	case d0 == d1 && (d0 > near || d0 < -near), min(d0, d1) > near, max(d0, d1) < -near:
		return high + 1, high
	case d0 == d1:
		return low, high
	}
	x, y := at(-near), at(near)
	return max(low, int64(min(x, y))-1), min(high, int64(max(x, y))+1)
}

// scan looks at every amount, or at an even part of them when there are more
// than a limit.
func scan(a, b *feeFunction, from, to, limit int64) []stretch {
	step := (to-from)/limit + 1
	var runs []stretch
	whole := stretch{from: from, to: to, sign: mixed, sampled: step > 1}
	for n := from; n <= to; n += step {
		s := compareFees(a.at(n), b.at(n))
		switch s {
		case equal:
			whole.same++
		case 1:
			whole.dearer++
		case -1:
			whole.cheaper++
		}
		if k := len(runs); k > 0 && runs[k-1].sign == s {
			runs[k-1].to = n
		} else if k <= maxRuns {
			runs = append(runs, stretch{from: n, to: n, sign: s, sampled: step > 1})
		}
	}
	if len(runs) > maxRuns {
		return []stretch{whole}
	}
	for i := range runs { // between samples
		if i+1 < len(runs) {
			runs[i].to = runs[i+1].from - 1
		} else {
			runs[i].to = to
		}
	}
	return runs
}

// rateAt is the rate of the piece that holds an amount.
func (f *feeFunction) rateAt(amount int64) int64 {
	for _, p := range f.pieces {
		if p.from <= amount && amount <= p.to {
			return p.rate
		}
	}
	return unknownRate
}
