package server

import (
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"tollgate/cmd/tollgate/cli"
)

// What a serving process makes of memory, unless GOGC and GOMEMLIMIT say something else.
// Little of it lives long, and Go's own 100 % would collect what dies many times a second.
const (
	collectAt = 400 // percent that the heap grows before it is collected
	spared    = 4   // one part in so many of the memory stays free: nearer to it, more is collected
)

// useMemory sets how often memory is collected, for the whole process.
func useMemory(a *cli.App) {
	if _, ok := a.Env("GOGC"); !ok {
		debug.SetGCPercent(collectAt)
	}
	if _, ok := a.Env("GOMEMLIMIT"); ok {
		return
	}
	if there := memoryThere(os.DirFS("/")); there > 0 {
		debug.SetMemoryLimit(there - there/spared)
	}
}

// memoryThere is how many bytes this process may use, by its control group or else by the
// machine; 0 where neither says.
func memoryThere(root fs.FS) (least int64) {
	for _, file := range []struct{ name, form string }{
		{"sys/fs/cgroup/memory.max", "%d"},                   // version 2
		{"sys/fs/cgroup/memory/memory.limit_in_bytes", "%d"}, // version 1; without a limit more than any machine has
		{"proc/meminfo", "MemTotal: %d kB"},
	} {
		text, err := fs.ReadFile(root, file.name)
		if err != nil {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(string(text), file.form, &n); err != nil || n <= 0 {
			continue
		}
		if strings.HasSuffix(file.form, "kB") {
			n *= 1 << 10
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}
