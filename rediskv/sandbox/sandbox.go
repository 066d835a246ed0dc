// Package sandbox is what a sandbox alone keeps: how far its clock is ahead, and the
// secrets with which it is the same client the next time.
package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
)

// Store is that part of the state. It is safe for concurrent use.
type Store struct{ db *rediskv.DB }

// New returns it on a database.
func New(db *rediskv.DB) *Store { return &Store{db} }

// PassIdempotency lets time pass for the Idempotency-Keys that are remembered: a
// real Redis keeps to real time where the sandbox's clock is moved. It looks at
// every key of this Redis, and is for a sandbox alone.
func (s *Store) PassIdempotency(ctx context.Context, by time.Duration) error {
	return s.db.Masters(ctx, func(ctx context.Context, _ string, node rediskv.Client) error {
		return s.passIdempotency(ctx, node, by)
	})
}

func (s *Store) passIdempotency(ctx context.Context, node redis.Cmdable, by time.Duration) error {
	seen := make(map[string]bool) // a key can come twice
	for cursor := uint64(0); ; {
		err := s.db.Timed(ctx, "pass_idempotency", func(ctx context.Context) error {
			keys, next, err := node.Scan(ctx, cursor, rediskv.IdempotencyPattern, 1000).Result()
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

// OnceSecret keeps the first candidate under a name and returns what is kept. A real
// deployment keeps secrets outside of Redis.
func (s *Store) OnceSecret(ctx context.Context, name string, candidate []byte) (kept []byte, err error) {
	err = s.db.Timed(ctx, "once_secret", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		pipe.HSetNX(ctx, rediskv.SandboxKey, name, candidate)
		is := pipe.HGet(ctx, rediskv.SandboxKey, name)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		var err error
		kept, err = is.Bytes()
		return err
	})
	return kept, err
}

// SandboxClock is how far the sandbox of this Redis is ahead of real time, in
// milliseconds.
func (s *Store) SandboxClock(ctx context.Context) (ahead int64, err error) {
	err = s.db.Timed(ctx, "sandbox_clock", func(ctx context.Context) error {
		var err error
		if ahead, err = s.db.Redis.HGet(ctx, rediskv.SandboxKey, "ahead").Int64(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return ahead, err
}

// KeepSandboxClock remembers how far the sandbox is ahead.
func (s *Store) KeepSandboxClock(ctx context.Context, ahead int64) error {
	return s.db.Timed(ctx, "keep_sandbox_clock", func(ctx context.Context) error {
		return s.db.Redis.HSet(ctx, rediskv.SandboxKey, "ahead", ahead).Err()
	})
}
