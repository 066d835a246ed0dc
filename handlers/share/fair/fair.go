// Package fair measures what a modest tenant notices of a greedy one beside it.
// It is for the tests that `make fair` runs.
package fair

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Variable names the environment variable without which nothing is measured:
// it takes minutes, and a machine with other work gives other numbers.
const Variable = "TOLLGATE_TEST_FAIR"

// Most is what p99 beside the greedy tenant may be of p99 alone (issue 11, 13).
const Most = 3.0

const (
	rounds = 4
	phase  = 700 * time.Millisecond // of each round: alone, beside, control
	fewest = 20                     // requests of a phase
)

// Resource is what two tenants share.
type Resource struct {
	Name string
	// Ask makes one request of the modest tenant and says how long it took.
	Ask func() (time.Duration, error)
	// Greedy has the greedy tenant ask for as much as it can, until it is stopped.
	// With control it does the same elsewhere on this machine, as often as the last
	// time; nil, and there is no control.
	Greedy func(t *testing.T, control bool) (stop func() string)
	// Uncontrolled: what the greedy tenant does costs no processor.
	Uncontrolled bool
}

// Wanted skips a test that `make fair` has not asked for. It asks with "all", or
// with the names of resources.
func Wanted(t *testing.T) {
	t.Helper()
	if os.Getenv(Variable) == "" {
		t.Skip("`make fair` runs it")
	}
}

// Header explains the columns of what Measure prints.
func Header() {
	fmt.Printf("\nA modest tenant sends one request at a time, alone and beside a greedy tenant. ms; ratio is p99 beside / alone, at most %.0f.\n", Most)
	fmt.Println("control: p99 while the greedy tenant's load goes, as often, to a service that does nothing, in another process: what the load costs this machine.")
	fmt.Printf("%-26s %6s %9s %9s %9s %9s %9s %6s  %s\n", "resource", "count", "alone p50", "p99", "beside p50", "p99", "control", "ratio", "the greedy tenant")
}

// Measure prints a resource's line. Alone and beside take turns, so that what
// else the machine does meets both.
func Measure(t *testing.T, r Resource) {
	t.Helper()
	if wanted := os.Getenv(Variable); wanted != "all" && !slices.Contains(strings.Split(wanted, ","), r.Name) {
		return
	}
	ask := func(all []time.Duration) []time.Duration {
		t.Helper()
		end := time.Now().Add(phase)
		for n := 0; n < fewest || time.Now().Before(end); n++ {
			took, err := r.Ask()
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			all = append(all, took)
		}
		return all
	}
	var alone, beside, control []time.Duration
	var greedy string
	_ = ask(nil) // connections are made, caches filled
	for range rounds {
		alone = ask(alone)
		stop := r.Greedy(t, false)
		beside = ask(beside)
		greedy = stop()
		if !r.Uncontrolled {
			stop = r.Greedy(t, true)
			control = ask(control)
			stop()
		}
	}
	controlled := "-"
	if len(control) > 0 {
		controlled = fmt.Sprintf("%.2f", ms(control, .99))
	}
	ratio := ms(beside, .99) / ms(alone, .99)
	fmt.Printf("%-26s %6d %9.2f %9.2f %10.2f %9.2f %9s %6.2f  %s\n", r.Name, len(beside),
		ms(alone, .5), ms(alone, .99), ms(beside, .5), ms(beside, .99), controlled, ratio, greedy)
	if ratio > Most {
		t.Errorf("%s: p99 beside the greedy tenant is %.2f × alone", r.Name, ratio)
	}
}

// ms is a percentile in milliseconds, the nearest rank.
func ms(all []time.Duration, p float64) float64 {
	slices.Sort(all)
	return float64(all[int(math.Ceil(p*float64(len(all))))-1].Microseconds()) / 1000
}
