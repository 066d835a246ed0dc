//go:build unix

package examine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess bounds this process from now on: at the end of its CPU time the
// kernel kills it, and memory beyond the limit it does not get.
func limitProcess(l Limits) error {
	seconds := uint64(l.cpu / time.Second)
	for what, limit := range map[int]uint64{unix.RLIMIT_CPU: seconds, unix.RLIMIT_AS: l.memory, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("limit the process: %w", err)
		}
	}
	return nil
}
