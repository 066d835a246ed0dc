// The Redis client waits for a while before it tries again, by math/rand's own
// numbers: in a story they are the same each time.
//
//go:debug randseednop=0
package simulate

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tollgate/rediskv/frames"
	"tollgate/scripts/simulate/story"
)

// variable names the environment variable that chooses seeds: one, or "1-100".
const variable = "TOLLGATE_TEST_SEEDS"

// variableLast is the last seed of a process that plays a part of them.
const variableLast = "TOLLGATE_TEST_LAST_SEED"

// few are those of `make test`; `make stories` plays a hundred on every commit.
const few = "1-3"

func seeds(t *testing.T) (list []uint64) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		text = few
	}
	var first, last uint64
	if n, _ := fmt.Sscanf(strings.ReplaceAll(text, "-", " "), "%d %d", &first, &last); n == 1 {
		last = first
	} else if n != 2 {
		t.Fatalf("%s=%q: want a seed, or two with a dash between", variable, text)
	}
	if to, err := strconv.ParseUint(os.Getenv(variableLast), 10, 64); err == nil {
		last = to
	}
	for seed := first; seed <= last; seed++ {
		list = append(list, seed)
	}
	return list
}

// compressing makes what compresses the files of an archive: all stories of a process share
// it, and it must belong to none.
var compressing = sync.OnceFunc(func() { _, _ = frames.UnpackWithin(frames.Dense([]byte("{}"), nil), make([]byte, 0, 2)) })

// tell plays a story in a bubble of its own.
func tell(t *testing.T, plan story.Plan, bent bend, keep bool) (r Result) {
	t.Helper()
	compressing()
	synctest.Test(t, func(*testing.T) { r = play(plan, bent, keep) })
	return r
}

// explain says how to see a story fail again, and tells as short a one as does.
func explain(t *testing.T, plan story.Plan, bent bend) string {
	t.Helper()
	short := story.Reduce(plan, 60, func(p story.Plan) bool { return len(tell(t, p, bent, false).Faults) > 0 })
	r := tell(t, short, bent, true)
	return fmt.Sprintf("Again: make simulate SEEDS=%d\nThe shortest story that was found:\n%sis told\n\t%s\nand ends with\n\t%s",
		plan.Seed, short.Steps(), strings.Join(r.Story, "\n\t"), strings.Join(r.Faults, "\n\t"))
}

// TestAgain: a seed is one story. All that is said is the same each time, to the
// nanosecond.
func TestAgain(t *testing.T) {
	if !exact {
		t.Skip("make simulate has the runtime draw its numbers from the seed")
	}
	defer func() { traceTo = nil }()
	plans := []story.Plan{planOf(1), planOf(3), planOf(8), planOf(25), planOf(2)}
	last := &plans[len(plans)-1]
	last.Faults = []story.Fault{
		{At: time.Minute, Kind: "double", Who: "serve-0", For: 2 * time.Minute},
		{At: 90 * time.Second, Kind: "crash", Who: "redis", Back: 40},
		{At: 2 * time.Minute, Kind: "error", Who: "redis", For: 3 * time.Second, Text: "MOVED 3999 simulated-other:6379"},
		{At: 3 * time.Minute, Kind: "empty", Who: "redis", For: 40 * time.Second, Back: 20, Text: "restart"},
	}
	for _, plan := range plans {
		seed := plan.Seed
		var said [2]strings.Builder
		var results [2]Result
		for i := range said {
			traceTo = &said[i]
			results[i] = tell(t, plan, bend{}, false)
		}
		if results[0].Trace == results[1].Trace && results[0].Commands > 1000 {
			continue
		}
		first, second := strings.Split(said[0].String(), "\n"), strings.Split(said[1].String(), "\n")
		for i := range min(len(first), len(second)) {
			// The order within a script's arguments may be that of a map.
			if a, b := strings.Fields(first[i]), strings.Fields(second[i]); len(a) < 2 || len(b) < 2 || a[0] != b[0] || a[1] != b[1] {
				t.Errorf("seed %d: of %d commands and %d, the first that differs is\n%.300s\n%.300s", seed, results[0].Commands, results[1].Commands, first[i], second[i])
				break
			}
		}
		if results[0].Trace != results[1].Trace {
			t.Errorf("seed %d: its trace is %x, and then %x", seed, results[0].Trace, results[1].Trace)
		}
	}
}

// TestKilledTwice: a place in which nobody is has one successor, however often it is
// hit, and the story ends.
func TestKilledTwice(t *testing.T) {
	plan := planOf(1)
	plan.Length, plan.Wants = 2*time.Minute, nil
	plan.Faults = []story.Fault{
		{At: 30 * time.Second, Kind: "kill", Who: "serve-0", For: 20 * time.Second},
		{At: 40 * time.Second, Kind: "kill", Who: "serve-0", For: 20 * time.Second},
	}
	if r := tell(t, plan, bend{}, false); len(r.Faults) > 0 {
		t.Error(strings.Join(r.Faults, "\n"))
	}
}

// TestWorkersTell: what only a worker knew is missed as well, here that a payout was made
// or is paid.
func TestWorkersTell(t *testing.T) {
	const made = 2*time.Minute + 29*time.Second // and nearly another one: the day ends
	for _, after := range []time.Duration{992 * time.Millisecond, 995 * time.Millisecond, 2 * time.Second, 4 * time.Second, 7 * time.Second} {
		plan := planOf(1)
		plan.Untailed = true // who follows the events would notice
		plan.Wants = []story.Want{{At: 30 * time.Second, Kind: "create", Minor: 5000, Now: true}}
		plan.Faults = []story.Fault{{At: made + after, Kind: "crash", Who: "redis", Back: 60}}
		if r := tell(t, plan, bend{}, false); len(r.Faults) > 0 {
			t.Errorf("%s: %s", made+after, strings.Join(r.Faults, "\n"))
		}
	}
}

// TestSeeds plays the stories of some seeds.
func TestSeeds(t *testing.T) {
	begun, list := time.Now(), seeds(t)
	var all total
	if os.Getenv(variableLast) != "" {
		tellPart(t, list)
		return
	}
	if parts := runtime.NumCPU(); parts > 1 && len(list) >= 8*parts {
		all = inParts(t, list, parts)
	} else {
		all = tellAll(t, list)
	}
	took := time.Since(begun)
	t.Logf("%d seeds, %.1f a second; %.1f simulated hours, %.0f times as fast; %d commands",
		all.seeds, float64(all.seeds)/took.Seconds(), all.passed.Hours(), all.passed.Seconds()/took.Seconds(), all.commands)
}

// total is what stories add up to.
type total struct {
	seeds, commands int
	passed          time.Duration
	failed          []uint64
}

func (all *total) add(seed uint64, commands int, passed time.Duration, failed bool) {
	all.seeds, all.commands, all.passed = all.seeds+1, all.commands+commands, all.passed+passed
	if failed {
		all.failed = append(all.failed, seed)
	}
}

func tellAll(t *testing.T, list []uint64) (all total) {
	t.Helper()
	for _, seed := range list {
		r := tell(t, planOf(seed), bend{}, false)
		all.add(seed, r.Commands, r.Time, len(r.Faults) > 0)
		if len(r.Faults) > 0 {
			t.Errorf("seed %d:\n\t%s\n%s", seed, strings.Join(r.Faults, "\n\t"), explain(t, r.Plan, bend{}))
		}
	}
	return all
}
