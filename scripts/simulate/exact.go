//go:build replay

package simulate

import (
	"runtime"
	"runtime/debug"
	_ "unsafe" // for go:linkname
)

// exact says that a story is the same to the nanosecond when it is played again: the
// runtime draws its random numbers from the seed (see ./replay), and collects garbage
// only when everybody waits. At other times who has to help with that loses its turn.
const exact = true

//go:linkname runtimeSeed runtime.replaySeed
var runtimeSeed uint64

// goroutine is the number of this one.
//
//go:linkname goroutine runtime.replayGoroutine
func goroutine() uint64

// collects is how many events are between two collections. Few stories have so many: what
// a collection leaves to be done may change who goes first of two that go on at once, in
// one play of ten.
const collects = 200_000

func collect() { runtime.GC() }

// begin begins a story; end is called when it is over. What one before has left in pools
// is gone after two collections: who finds something there goes on sooner.
func begin(seed uint64) (end func()) {
	before := debug.SetGCPercent(-1)
	runtime.GC()
	runtime.GC()
	runtimeSeed = seed
	return func() {
		runtimeSeed = 0
		debug.SetGCPercent(before)
	}
}
