package rediskv

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// PassIdempotency lets time pass for the Idempotency-Keys that are remembered: a
// real Redis keeps to real time where the sandbox's clock is moved. It looks at
// every key of this Redis, and is for a sandbox alone.
func (s *DB) PassIdempotency(ctx context.Context, by time.Duration) error {
	if cluster, ok := s.Redis.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return s.passIdempotency(ctx, node, by)
		})
	}
	return s.passIdempotency(ctx, s.Redis, by)
}

func (s *DB) passIdempotency(ctx context.Context, node redis.Cmdable, by time.Duration) error {
	seen := make(map[string]bool) // a key can come twice
	for cursor := uint64(0); ; {
		err := s.Timed(ctx, "pass_idempotency", func(ctx context.Context) error {
			keys, next, err := node.Scan(ctx, cursor, idempotencyPattern, 1000).Result()
			if err != nil || len(keys) == 0 {
				cursor = next
				return err
			}
			pipe := node.Pipeline()
			left := make([]*redis.DurationCmd, len(keys))
			for i, key := range keys {
				left[i] = pipe.PTTL(ctx, key)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			pipe = node.Pipeline()
			for i, key := range keys {
				if ttl := left[i].Val(); ttl > 0 && !seen[key] { // else it is gone
					seen[key] = true
					pipe.PExpire(ctx, key, max(0, ttl-by)) // 0: it goes at once
				}
			}
			if pipe.Len() > 0 {
				if _, err := pipe.Exec(ctx); err != nil {
					return err
				}
			}
			cursor = next
			return nil
		})
		if err != nil || cursor == 0 {
			return err
		}
	}
}

// OnceSecret keeps the first candidate under a name and returns what is kept.
// It is for the sandbox, which has to be the same client the next time; a real
// deployment keeps secrets outside of Redis.
func (s *DB) OnceSecret(ctx context.Context, name string, candidate []byte) (kept []byte, err error) {
	return s.once(ctx, sandboxKey, name, candidate)
}

// SandboxClock is how far the sandbox of this Redis is ahead of real time, in
// milliseconds.
func (s *DB) SandboxClock(ctx context.Context) (ahead int64, err error) {
	err = s.Timed(ctx, "sandbox_clock", func(ctx context.Context) error {
		var err error
		if ahead, err = s.Redis.HGet(ctx, sandboxKey, "ahead").Int64(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return ahead, err
}

// KeepSandboxClock remembers how far the sandbox is ahead.
func (s *DB) KeepSandboxClock(ctx context.Context, ahead int64) error {
	return s.Timed(ctx, "keep_sandbox_clock", func(ctx context.Context) error {
		return s.Redis.HSet(ctx, sandboxKey, "ahead", ahead).Err()
	})
}
