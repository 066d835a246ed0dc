// Replay writes an overlay for `go test -overlay` to .tollgate/replay, with which the runtime draws its
// random numbers, in a bubble of testing/synctest, from a seed.
//
// The order in which a map is read, a select chooses and timers of one moment ring is
// random in Go, and nothing in the language decides it. Two plays of one story would
// differ there. The overlay is a copy of a few files of the runtime, with the lines in
// them that take a random number; and of the one that interrupts a goroutine
// that has run for long, which depends on how busy the machine is.
//
// It also has the embedded Redis keep the Lua state of one script for the next: to make
// one with all libraries takes longer than most scripts do (see redis.go).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// change is a piece of a file, which is there once, and what takes its place.
type change struct{ file, old, new string }

// ofGo are changes of the runtime, and of what is built upon it.
var ofGo = []change{
	// Of maps that a function makes for itself: the compiler calls it, so these packages
	// have another one.
	{"runtime/rand.go", "func rand() uint64 {\n", "func rand() uint64 {\n\tif replaySeed != 0 && getg().bubble != nil {\n\t\treturn replayedMap()\n\t}\n"},
	{"math/rand/rand.go", "//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.replayRand\n"},
	{"math/rand/v2/rand.go", "//go:linkname runtime_rand runtime.rand\n", "//go:linkname runtime_rand runtime.replayRand\n"},
	// Of other maps: how they hash, and where one begins to read them.
	{"runtime/rand.go", "\treturn uint32(rand())\n}\n\n// rand returns", "\tif replaySeed != 0 && getg().bubble != nil {\n\t\treturn uint32(replayedMap())\n\t}\n\treturn uint32(rand())\n}\n\n// rand returns"},
	{"runtime/rand.go", "func maps_rand() uint64 {\n", "func maps_rand() uint64 {\n\tif replaySeed != 0 && getg().bubble != nil {\n\t\treturn replayedMap()\n\t}\n"},
	{"runtime/rand.go", "\tglobalRand.state.Init(*seed)\n", "\t*seed = [32]byte{1}\n\tglobalRand.state.Init(*seed)\n"},
	{"runtime/rand.go", "var readRandomFailed bool\n", "var readRandomFailed bool\n" + numbers},
	{"runtime/select.go", "\t\tj := cheaprandn(uint32(norder + 1))\n", "\t\tj := cheaprandn(uint32(norder + 1))\n\t\tif replaySeed != 0 && getg().bubble != nil {\n\t\t\tj = uint32(replayed() % uint64(norder+1))\n\t\t}\n"},
	// Who waits for several channels sets timers in the order of the channels in memory.
	{"runtime/select.go", "\n\t\tif c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n", ""},
	{"runtime/select.go", "\t// wait for someone to wake us up\n\tgp.param = nil\n", "\tfor _, casei := range pollorder {\n\t\tif c = scases[casei].c; c.timer != nil {\n\t\t\tblockTimerChan(c)\n\t\t}\n\t}\n\n\t// wait for someone to wake us up\n\tgp.param = nil\n"},
	{"runtime/time.go", "\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = cheaprand()\n\t\t\tif replaySeed != 0 {\n\t\t\t\tt.rand = uint32(replayed())\n\t\t\t}\n"},
	// Maps that goroutines share draw their seed when they are first used, which is once in
	// a program for many of them.
	{"internal/sync/hashtriemap.go", "ht.seed = uintptr(runtime_rand())", "ht.seed = 1"},
	{"unique/canonmap.go", "cm.seed = uintptr(runtime_rand())", "cm.seed = 1"},
	// What a context ends it ends in the order in which it was made, not by where it is in
	// memory.
	{"context/context.go", "\tchildren map[canceler]struct{} //", "\tchildren map[canceler]uint64 //"},
	{"context/context.go", "\t\t\t\tp.children = make(map[canceler]struct{})\n", "\t\t\t\tp.children = make(map[canceler]uint64)\n"},
	{"context/context.go", "\t\t\tp.children[child] = struct{}{}\n", "\t\t\tp.children[child] = replayMade.Add(1)\n"},
	{"context/context.go", "\tfor child := range c.children {\n", "\tfor _, child := range replayOrder(c.children) {\n"},
	{"context/context.go", "// A canceler is a context type", inOrder + "// A canceler is a context type"},
	// Who waits for a mutex for a millisecond of the machine's is given it out of turn: in a
	// bubble no time passes meanwhile.
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n\tif replaySeed != 0 && getg().bubble != nil {\n\t\treturn getg().bubble.now\n\t}\n"},
	// A goroutine goes on until it waits.
	{"runtime/proc.go", "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n\tif replaySeed != 0 {\n\t\treturn 0\n\t}\n"},
}

// numbers depend on the moment, and on how many were drawn in it: what is done once in
// a program, by who comes first, changes none but those of its own moment. Maps are
// made by all kinds of such things, so those have one number for each moment.
const numbers = `
// replaySeed is the seed of a story; 0: there is none.
//
//go:linkname replaySeed
var replaySeed uint64

var replayMoment int64
var replayCount uint64

//go:nosplit
func replayed() uint64 {
	if now := getg().bubble.now; now != replayMoment {
		replayMoment, replayCount = now, 0
	}
	replayCount++
	return replayMixed(replayedMap() + replayCount)
}

// replayRand is for packages that draw numbers.
//
//go:linkname replayRand
func replayRand() uint64 {
	if replaySeed != 0 && getg().bubble != nil {
		return replayed()
	}
	return rand()
}

// replayGoroutine is the number of this goroutine.
//
//go:linkname replayGoroutine
func replayGoroutine() uint64 { return getg().goid }

//go:nosplit
func replayedMap() uint64 { return replayMixed(replaySeed ^ uint64(getg().bubble.now)) }

// replayMixed is splitmix64's.
//
//go:nosplit
func replayMixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
`

// inOrder sorts what a context ends.
const inOrder = `var replayMade atomic.Uint64

func replayOrder(children map[canceler]uint64) (sorted []canceler) {
	for child, made := range children {
		sorted = append(sorted, child)
		for i := len(sorted) - 1; i > 0 && children[sorted[i-1]] > made; i-- {
			sorted[i-1], sorted[i] = child, sorted[i-1]
		}
	}
	return sorted
}

`

// directory is where the overlay is, below that of the repository.
const directory = ".tollgate/replay"

func main() {
	if err := write(directory); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// write makes the overlay, overlay.json, in a directory, and go.mod with what it needs.
func write(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	from := filepath.Join(root(), "src")
	texts, err := changed(from, ofGo)
	if err != nil {
		return err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".txt")
		overlay.Replace[filepath.Join(from, name)] = to
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(overlay, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	return writeRedis(dir)
}

// changed are the files of a directory that are changed, by name.
func changed(from string, changes []change) (texts map[string]string, err error) {
	texts = map[string]string{}
	for _, c := range changes {
		text, known := texts[c.file]
		if !known {
			b, err := os.ReadFile(filepath.Join(from, c.file))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n := strings.Count(text, c.old); n != 1 {
			return nil, fmt.Errorf("%s in %s has %d times, not once:\n%s", c.file, from, n, c.old)
		}
		texts[c.file] = strings.Replace(text, c.old, c.new, 1)
	}
	return texts, nil
}

// root is the GOROOT of the go command that runs this.
func root() string {
	//lint:ignore SA1019 go run sets it, and the overlay is of that toolchain
	return runtime.GOROOT()
}
