package server

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"tollgate/cmd/tollgate/cli"
)

func TestMemoryThere(t *testing.T) {
	const machine, limited, unlimited = "proc/meminfo", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	total := "MemTotal:        2048 kB\nMemFree:          100 kB\n"
	for _, c := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, 0},
		{map[string]string{machine: total}, 2048 << 10},
		{map[string]string{machine: total, limited: "1000000\n"}, 1000000},
		{map[string]string{machine: total, limited: "max\n"}, 2048 << 10},
		{map[string]string{machine: total, unlimited: "9223372036854771712\n"}, 2048 << 10},
		{map[string]string{machine: "nothing", limited: "0"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryThere(root); got != c.want {
			t.Errorf("%v: %d, want %d", c.files, got, c.want)
		}
	}
}

// TestUseMemory: what the operator has set stays as it is.
func TestUseMemory(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetGCPercent(percent)
	defer debug.SetMemoryLimit(limit)
	use := func(set ...string) (percent int, limit int64) {
		useMemory(&cli.App{Env: func(name string) (string, bool) {
			for _, one := range set {
				if one == name {
					return "", true
				}
			}
			return "", false
		}})
		return debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	}
	if percent, limit := use("GOGC", "GOMEMLIMIT"); percent != 100 || limit != math.MaxInt64 {
		t.Errorf("%d %%, %d bytes", percent, limit)
	}
	if percent, limit := use(); percent != collectAt || limit <= 0 || limit == math.MaxInt64 {
		t.Errorf("%d %%, %d bytes", percent, limit)
	}
}
