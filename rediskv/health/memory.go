package health

import (
	"context"
	"strconv"
	"sync"

	"tollgate/rediskv/peer"
)

// Memory is how much of its maxmemory Redis uses, from 0 to 1 and a little more:
// of a cluster, the fullest master. 0 where it has no limit or does not say.
func (s *Store) Memory(ctx context.Context) (used float64, err error) {
	var mu sync.Mutex
	err = s.db.Timed(ctx, "memory", func(ctx context.Context) error {
		return s.db.Masters(ctx, func(ctx context.Context, _ string, master peer.Client) error {
			info, err := master.Info(ctx, "memory").Result()
			if peer.IsReply(err) { // an embedded server does not say
				return nil
			}
			one, _ := memoryOf(peer.In(info))
			mu.Lock()
			defer mu.Unlock()
			used = max(used, one)
			return err
		})
	})
	if err != nil {
		s.db.Cache.Doubt(s.db.Clock()) // an instance that waits here does not look what has changed
	}
	return used, err
}

// memoryOf is how much of its memory a server uses, and whether there is a limit.
func memoryOf(f peer.Facts) (used float64, limited bool) {
	limit, _ := strconv.ParseFloat(f["maxmemory"], 64)
	if limit == 0 {
		return 0, false
	}
	used, _ = strconv.ParseFloat(f["used_memory"], 64)
	return used / limit, true
}
