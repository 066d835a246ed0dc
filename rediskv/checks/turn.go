package checks

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// BeginCheck takes a partition to walk through it, unless somebody walks there or it
// rests: for as long as the lease, which KeepCheck renews. from is where the last walk
// ended that did not come to the end.
func (s *Store) BeginCheck(ctx context.Context, partition int, who string, lease time.Duration) (from Place, taken bool, err error) {
	err = s.db.Timed(ctx, "check_begin", func(ctx context.Context) error {
		if taken, err = s.db.Redis.SetNX(ctx, rediskv.CheckingKey(partition), who, lease).Result(); err != nil || !taken {
			return err
		}
		at, err := s.db.Redis.Get(ctx, rediskv.CheckKey(partition)).Result()
		if from = ParsePlace(at); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return from, taken, err
}

// KeepCheck notes how far a walk has come, so that whoever takes the partition next,
// after this one has died or stopped, goes on there.
func (s *Store) KeepCheck(ctx context.Context, partition int, at Place, lease time.Duration) error {
	return s.db.Timed(ctx, "check_keep", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		pipe.Set(ctx, rediskv.CheckKey(partition), at.String(), 0)
		pipe.PExpire(ctx, rediskv.CheckingKey(partition), lease)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// EndCheck notes that a walk has come to the end. The partition rests for a while.
func (s *Store) EndCheck(ctx context.Context, partition int, rest time.Duration) error {
	return s.db.Timed(ctx, "check_end", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		pipe.Del(ctx, rediskv.CheckKey(partition))
		pipe.PExpire(ctx, rediskv.CheckingKey(partition), rest)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// LeaveCheck gives a partition back whose walk has not come to the end.
func (s *Store) LeaveCheck(ctx context.Context, partition int) error {
	return s.db.Timed(ctx, "check_leave", func(ctx context.Context) error {
		return s.db.Redis.Del(ctx, rediskv.CheckingKey(partition)).Err()
	})
}

// AnnounceFinding tells an organization of a finding by the event integrity.failed, once for
// each object.
func (s *Store) AnnounceFinding(ctx context.Context, f Finding) error {
	return s.db.Announce(ctx, s.db.Space(f.Organization), &tollgate.DamagedObject{Object: f.Object, ID: f.ID})
}
