package simulate

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// piece is how many stories one process plays, before another takes over.
	piece = 200
	// stuck is when a story that goes on is taken for one that never ends.
	stuck = 3 * time.Minute
	// explained is how many stories that fail are made short, once all are played.
	explained = 10
)

// played is how a process tells of a story.
const played = "played seed %d commands %d passed %d faults %d\n"

// tellPart plays stories and tells of each at once: if one brings the process down, it is
// known which.
func tellPart(t *testing.T, list []uint64) {
	t.Helper()
	for _, seed := range list {
		r := tell(t, planOf(seed), bend{}, false)
		for _, fault := range r.Faults {
			fmt.Printf("\t%.4000s\n", strings.ReplaceAll(fault, "\n", " "))
		}
		fmt.Printf(played, seed, r.Commands, r.Time, len(r.Faults))
	}
}

// run is a long run, in several processes: a bubble is one goroutine after the other.
type run struct {
	t *testing.T

	mu    sync.Mutex
	begun time.Time
	told  time.Time // of the progress
	all   total
}

func inParts(t *testing.T, list []uint64, parts int) total {
	t.Helper()
	r := &run{t: t, begun: time.Now(), told: time.Now()}
	pieces := make(chan []uint64)
	var playing sync.WaitGroup
	for range parts {
		playing.Go(func() {
			for piece := range pieces {
				for len(piece) > 0 {
					piece = piece[r.play(piece):]
				}
			}
		})
	}
	for p := range slices.Chunk(list, min(piece, (len(list)+parts-1)/parts)) {
		pieces <- p
	}
	close(pieces)
	playing.Wait()
	r.progress()
	for _, seed := range r.all.failed[:min(len(r.all.failed), explained)] {
		c := exec.Command(os.Args[0], "-test.run=^TestSeeds$", "-test.v", "-test.timeout=10m")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, seed))
		said, _ := c.CombinedOutput()
		fmt.Printf("%s\n", said)
	}
	return r.all
}

// play has a process play stories. It returns how many it has played; the last of them
// may have brought it down.
func (r *run) play(list []uint64) (n int) {
	c := exec.Command(os.Args[0], "-test.run=^TestSeeds$", "-test.v", "-test.timeout=24h")
	c.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprintf("%s=%d", variable, list[0]), fmt.Sprintf("%s=%d", variableLast, list[len(list)-1]))
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		r.t.Error(err)
		return len(list)
	}
	late := time.AfterFunc(stuck, func() { _ = c.Process.Signal(syscall.SIGQUIT) }) // it tells where it is
	defer late.Stop()
	var said []string // of the story that goes on
	for lines := bufio.NewScanner(out); lines.Scan(); {
		late.Reset(stuck)
		var seed uint64
		var commands, faults int
		var passed time.Duration
		if found, _ := fmt.Sscanf(lines.Text()+"\n", played, &seed, &commands, &passed, &faults); found < 4 {
			said = append(said, lines.Text())
			continue
		}
		n++
		r.add(seed, commands, passed, faults > 0, said)
		said = nil
	}
	if err := c.Wait(); err == nil && n == len(list) {
		return n
	}
	if n == len(list) {
		r.t.Errorf("seeds %d-%d: the process does not end well: %.2000s", list[0], list[n-1], problems.Bytes())
		return n
	}
	r.add(list[n], 0, 0, true, append(said, fmt.Sprintf("\tit brings the process down: %.8000s", problems.Bytes())))
	return n + 1
}

// add notes a story, and from time to time how far it all is.
func (r *run) add(seed uint64, commands int, passed time.Duration, failed bool, said []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.add(seed, commands, passed, failed)
	if failed {
		r.t.Fail()
		said = slices.DeleteFunc(said, func(line string) bool { return !strings.HasPrefix(line, "\t") })
		fmt.Printf("seed %d fails:\n%s\n", seed, strings.Join(said, "\n"))
	}
	if time.Since(r.told) > time.Minute {
		r.progress()
	}
}

func (r *run) progress() {
	r.told = time.Now()
	took := time.Since(r.begun)
	fmt.Printf("after %s: %d seeds, %.1f simulated hours, %.0f times as fast, %d commands, %d failed %v\n",
		took.Round(time.Second), r.all.seeds, r.all.passed.Hours(), r.all.passed.Seconds()/took.Seconds(), r.all.commands, len(r.all.failed), r.all.failed)
}
