package fees

import (
	"fmt"
	"math"
	"strconv"

	"tollgate/cmd/tollgate/cli"
)

const (
	maxListed  = 64    // ranges of rules that are sampled
	perDecade  = 1_000 // amounts that a summary looks at for each power of ten
	goldenPart = 0.6180339887498949
)

// decade is what a comparison found at some amounts of a power of ten.
type decade struct {
	from, to                      int64
	same, dearer, cheaper, unlike int64
	least, most                   int64 // of B − A, where both charge something
}

func (d *decade) looked() int64 { return d.same + d.dearer + d.cheaper + d.unlike }

func (d *decade) add(a, b fee) {
	switch compareFees(a, b) {
	case unlike:
		d.unlike++
		return
	case equal:
		d.same++
	case 1:
		d.dearer++
	case -1:
		d.cheaper++
	}
	if difference := b.minor - a.minor; d.looked()-d.unlike == 1 {
		d.least, d.most = difference, difference
	} else {
		d.least, d.most = min(d.least, difference), max(d.most, difference)
	}
}

// summarize compares at amounts of every size, for rules whose ranges are too
// many to list.
func summarize(a, b *feeFunction, from, to int64) []decade {
	var all []decade
	for low := from; low <= to; {
		d := decade{from: low, to: to}
		for power := int64(1); power < to; power *= 10 {
			if power > low {
				d.to = power - 1
				break
			}
		}
		for n := range spread(d.from, d.to) {
			d.add(a.at(n), b.at(n))
		}
		all = append(all, d)
		low = d.to + 1
	}
	return all
}

// spread yields all amounts of a range, or some that are spread over it without
// a rhythm, which a rule with steps might have as well; the ends are among them.
func spread(from, to int64) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		size := to - from + 1
		if size <= perDecade {
			for n := from; n <= to && yield(n); n++ {
			}
			return
		}
		if !yield(from) || !yield(to) {
			return
		}
		for i := 1; i <= perDecade-2; i++ {
			_, part := math.Modf(float64(i) * goldenPart)
			if !yield(from + int64(part*float64(size))) {
				return
			}
		}
	}
}

// atLeast is how many ranges were found before there were too many.
func (d *ruleDiff) atLeast() int {
	return max(len(d.fees[0].pieces), len(d.fees[1].pieces), len(d.stretches))
}

func (d *ruleDiff) summaryTable() *cli.Table {
	t := &cli.Table{Right: []int{0, 1, 2, 3, 4, 5, 6}}
	t.Row("FROM", "TO", "LOOKED AT", "SAME", "DEARER", "CHEAPER", "UNLIKE", "B - A")
	total := decade{from: d.from, to: d.to}
	row := func(s *decade) {
		difference := "-"
		if s.unlike < s.looked() {
			difference = span(d.signed(s.least), d.signed(s.most))
		}
		count := func(n int64) string { return strconv.FormatInt(n, 10) }
		t.Row(d.money(s.from), d.money(s.to), count(s.looked()), count(s.same), count(s.dearer), count(s.cheaper), count(s.unlike), difference)
	}
	for i := range d.summary {
		s := &d.summary[i]
		row(s)
		if s.unlike < s.looked() && total.unlike == total.looked() {
			total.least, total.most = s.least, s.most
		} else if s.unlike < s.looked() {
			total.least, total.most = min(total.least, s.least), max(total.most, s.most)
		}
		total.same, total.dearer, total.cheaper, total.unlike = total.same+s.same, total.dearer+s.dearer, total.cheaper+s.cheaper, total.unlike+s.unlike
	}
	if len(d.summary) > 1 {
		row(&total)
	}
	return t
}

func (d *ruleDiff) summaryText() string {
	return fmt.Sprintf("At least %d ranges, too many to list; a smaller range has fewer (--from, --to). Amounts by size:\n\n%s", d.atLeast(), d.summaryTable())
}
