//go:build !replay

package simulate

import (
	"bytes"
	"runtime"
	"strconv"
)

// exact: see exact.go. Without it the runtime decides who of those goes first who may
// go on at the same moment, and in some stories moments differ by milliseconds.
const exact = false

const collects = 1 << 30

func collect() {}

func begin(uint64) (end func()) { return func() {} }

// goroutine is the number of this one.
func goroutine() uint64 {
	var b [40]byte
	words := bytes.Fields(b[:runtime.Stack(b[:], false)])
	n, _ := strconv.ParseUint(string(words[1]), 10, 64)
	return n
}
