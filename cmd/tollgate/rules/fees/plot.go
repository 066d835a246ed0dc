package fees

import (
	"fmt"
	"math"
	"strings"
)

const plotHeight = 10 // steps; lines are one or two more

// plot draws by how many per cent of A's fee B's is dearer or cheaper, over
// amounts on a logarithmic scale, in plain text of a width.
func (d *ruleDiff) plot(width int) string {
	const margin = 10 // for the numbers on the left
	columns := min(max(width-margin, 20), 120)
	low, high := math.Log(float64(max(d.from, 1))), math.Log(float64(max(d.to, 1)))
	changes := make([]float64, columns)
	bottom, top := 0.0, 0.0
	for i := range changes {
		amount := int64(math.Round(math.Exp(low + (high-low)*float64(i)/float64(columns-1))))
		amount = min(max(amount, d.from), d.to)
		changes[i] = percent(d.fees[0].at(amount), d.fees[1].at(amount))
		if !math.IsNaN(changes[i]) && !math.IsInf(changes[i], 0) {
			bottom, top = min(bottom, changes[i]), max(top, changes[i])
		}
	}
	step := max(top-bottom, 0.1*plotHeight) / plotHeight // a multiple of it is zero
	first, last := math.Round(top/step), math.Round(bottom/step)
	var b strings.Builder
	fmt.Fprintln(&b, "B's fee against A's, in per cent, by amount (logarithmic):")
	for line := first; line >= last; line-- {
		var cells strings.Builder
		for _, c := range changes {
			switch {
			case math.IsNaN(c) && line == 0:
				cells.WriteByte('?') // cannot be compared
			case math.IsInf(c, 1) && line == first:
				cells.WriteByte('^') // A's is zero
			case math.Round(c/step) == line:
				cells.WriteByte('*')
			case line == 0:
				cells.WriteByte('-')
			default:
				cells.WriteByte(' ')
			}
		}
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("%+8.1f |%s", line*step, cells.String()), " "))
	}
	from, to := d.money(d.from), d.money(d.to)
	fmt.Fprintf(&b, "%9s %s%*s\n", "", from, max(columns-len(from), len(to)+1), to)
	return b.String()
}

// percent is B's fee against A's in per cent; not a number when they cannot be
// compared, and infinite when only A's is zero.
func percent(a, b fee) float64 {
	switch {
	case a.no != "" || b.no != "":
		return math.NaN()
	case a.minor == b.minor:
		return 0
	case a.minor == 0:
		return math.Inf(1)
	}
	return 100 * float64(b.minor-a.minor) / float64(a.minor)
}
