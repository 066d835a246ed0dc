package rules

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// newest lists the members of an index, the newest first, behind one; next is the
// place behind the last, where there are more.
func (s *Store) newest(ctx context.Context, operation, index, before string, limit int) (ids []string, next string, err error) {
	err = s.db.Timed(ctx, operation, func(ctx context.Context) error {
		start := int64(0)
		if before != "" {
			rank, err := s.db.Redis.ZRevRank(ctx, index, before).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			start = rank + 1
		}
		var err error
		ids, err = s.db.Redis.ZRevRange(ctx, index, start, start+int64(limit)).Result()
		return err
	})
	if len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	return ids, next, err
}
