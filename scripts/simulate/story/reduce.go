package story

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reduce leaves out of a plan what is not needed for it to fail, in at most so many
// plays.
func Reduce(plan Plan, plays int, fails func(Plan) bool) Plan {
	still := func(p Plan) bool {
		plays--
		return plays >= 0 && fails(p)
	}
	plan.Faults = fewer(plan.Faults, func(f []Fault) bool {
		p := plan
		p.Faults = f
		return still(p)
	})
	plan.Wants = fewer(plan.Wants, func(w []Want) bool {
		p := plan
		p.Wants = w
		return still(p)
	})
	return plan
}

// fewer leaves out pieces of a list, the largest first, for as long as it still does.
func fewer[T any](list []T, does func([]T) bool) []T {
	for size := max(1, len(list)/2); ; size /= 2 {
		for at := 0; at < len(list); {
			without := slices.Concat(list[:at], list[min(len(list), at+size):])
			if does(without) {
				list = without
			} else {
				at += size
			}
		}
		if size <= 1 {
			return list
		}
	}
}

// Steps are what is planned, in order.
func (p Plan) Steps() string {
	type step struct {
		at   time.Duration
		text string
	}
	var steps []step
	for _, w := range p.Wants {
		steps = append(steps, step{w.At, w.String()})
	}
	for _, f := range p.Faults {
		steps = append(steps, step{f.At, f.String()})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	var text strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&text, "\t%s\n", s.text)
	}
	return text.String()
}
