package rediskv

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Memory is how much of its maxmemory Redis uses, from 0 to 1 and a little more:
// of a cluster, the fullest master. 0 where it has no limit or does not say.
func (s *DB) Memory(ctx context.Context) (used float64, err error) {
	err = s.Timed(ctx, "memory", func(ctx context.Context) error {
		cluster, ok := s.Redis.(*redis.ClusterClient)
		if !ok {
			used, err = memoryOf(s.Redis.Info(ctx, "memory"))
			return err
		}
		masters := make(chan float64, maxPartitions)
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			one, err := memoryOf(master.Info(ctx, "memory"))
			masters <- one
			return err
		})
		close(masters)
		for one := range masters {
			used = max(used, one)
		}
		return err
	})
	if err != nil {
		s.Cache.Doubt(s.Clock()) // an instance that waits here does not look what has changed
	}
	return used, err
}

func memoryOf(info *redis.StringCmd) (float64, error) {
	if err := info.Err(); err != nil {
		if IsReply(err) { // an embedded server does not say
			err = nil
		}
		return 0, err
	}
	number := func(name string) float64 {
		_, after, _ := strings.Cut(info.Val(), "\n"+name+":")
		line, _, _ := strings.Cut(after, "\r")
		n, _ := strconv.ParseFloat(line, 64)
		return n
	}
	limit := number("maxmemory")
	if limit == 0 {
		return 0, nil
	}
	return number("used_memory") / limit, nil
}
