package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/scripts/simulate/story"
)

// Each of these goes wrong in some seeds only. Here it does for sure.
func TestGoesWrong(t *testing.T) {
	every := func(kind string) (all []story.Fault) {
		for _, who := range story.Places {
			all = append(all, story.Fault{At: story.Lull, Kind: kind, Who: who, For: story.Length})
		}
		return all
	}
	emptied := func(text string, back int) []story.Fault {
		return []story.Fault{{At: 3 * time.Minute, Kind: "empty", Who: "redis", For: 50 * time.Second, Back: back, Text: text}}
	}
	moved := story.Fault{At: time.Minute, Kind: "error", Who: "redis", For: 30 * time.Second, Text: "MOVED 3999 simulated-other:6379"}
	for _, c := range []struct {
		name   string
		faults []story.Fault
		says   string // in the story
	}{
		{"doubled", every("double"), "comes a second time"},
		{"moved", []story.Fault{moved}, "MOVED"},
		{"flushed", emptied("FLUSHALL", 0), "puts a copy back"},
		{"flushed, and the copy is older", emptied("FLUSHALL", 100), "has accepted"},
		{"started empty", emptied("restart", 0), "puts a copy back"},
		{"started empty, and the copy is older", emptied("restart", 100), "has accepted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, seed := range []uint64{1, 2} { // two partitions, and one
				plan := planOf(seed)
				plan.Faults, plan.GoOn = c.faults, seed == 2
				r := tell(t, plan, bend{}, true)
				if !slices.ContainsFunc(r.Story, func(line string) bool { return strings.Contains(line, c.says) }) {
					t.Errorf("seed %d: nothing of it says %q", seed, c.says)
				}
				if len(r.Faults) > 0 {
					t.Errorf("seed %d:\n\t%s", seed, strings.Join(r.Faults, "\n\t"))
				}
			}
		})
	}
}
