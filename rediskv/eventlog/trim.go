package eventlog

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// trimBatch is how many entries one trimming call removes; a larger one would
// hold up everybody else in the slot.
const trimBatch = 1000

// TrimEvents removes events of a partition's organizations that are older than
// keep, but none that is still to be handed over or delivered.
func (s *Store) TrimEvents(ctx context.Context, partition int, keep tollgate.Instant) (removed int64, err error) {
	orgs, err := s.organizationsOf(ctx, partition)
	if err != nil {
		return 0, err
	}
	for _, org := range orgs {
		n, err := s.trimOrganization(ctx, s.db.Space(org), keep)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func (s *Store) trimOrganization(ctx context.Context, k rediskv.Space, until tollgate.Instant) (removed int64, err error) {
	var endpoints []string
	err = s.db.Timed(ctx, "trim_bound", func(ctx context.Context) error {
		unread, err := s.db.Redis.XRangeN(ctx, k.Dispatch, "-", "+", 1).Result()
		if err != nil {
			return err
		}
		for _, m := range unread {
			until = min(until, tollgate.Instant(Place(rediskv.Text(m, "s")).Milli))
		}
		ids, err := s.db.Redis.HKeys(ctx, k.Webhooks()).Result()
		if err != nil {
			return err
		}
		endpoints = slices.DeleteFunc(ids, func(id string) bool { return id == "v" })
		for _, id := range endpoints {
			oldest, err := s.db.Redis.ZRangeWithScores(ctx, k.Open(id), 0, 0).Result()
			if err != nil {
				return err
			}
			for _, z := range oldest {
				until = min(until, tollgate.Instant(z.Score).Add(-rediskv.Skew))
			}
		}
		return nil
	})
	if err == nil {
		removed, err = s.trimStream(ctx, "trim_events", k.Events(), until)
	}
	if err != nil || removed == 0 {
		return removed, err
	}
	return removed, s.trimDeliveries(ctx, k, endpoints)
}

// trimStream removes the entries of a stream that are older than until, a batch
// at a time.
func (s *Store) trimStream(ctx context.Context, operation, key string, until tollgate.Instant) (removed int64, err error) {
	for {
		var n int64
		if err := s.db.Timed(ctx, operation, func(ctx context.Context) error {
			// Up to the batch's end, found by looking, never past until.
			batch, err := s.db.Redis.XRangeN(ctx, key, "-", "("+strconv.FormatInt(int64(until), 10)+"-0", trimBatch).Result()
			if err != nil || len(batch) == 0 {
				return err
			}
			n, err = s.db.Redis.XTrimMinID(ctx, key, positionOf(batch[len(batch)-1]).after()).Result()
			return err
		}); err != nil {
			return removed, err
		}
		if removed += n; n < trimBatch {
			return removed, nil
		}
	}
}

// TrimAudit removes entries of the audit record of a partition's organizations
// that are older than keep.
func (s *Store) TrimAudit(ctx context.Context, partition int, keep tollgate.Instant) (removed int64, err error) {
	orgs, err := s.organizationsOf(ctx, partition)
	for _, org := range orgs {
		n, failed := s.trimStream(ctx, "trim_audit", s.db.Space(org).Audit(), keep)
		removed += n
		if failed != nil {
			return removed, failed
		}
	}
	return removed, err
}

func (s *Store) organizationsOf(ctx context.Context, partition int) (orgs []string, err error) {
	err = s.db.Timed(ctx, "organizations", func(ctx context.Context) (err error) {
		orgs, err = s.db.Redis.SMembers(ctx, rediskv.OrganizationsKey(partition)).Result()
		return err
	})
	return orgs, err
}

// trimDeliveries takes deliveries of events that are gone from the endpoints'
// lists; their records expire by themselves.
func (s *Store) trimDeliveries(ctx context.Context, k rediskv.Space, endpoints []string) error {
	return s.db.Timed(ctx, "trim_deliveries", func(ctx context.Context) error {
		first, err := s.db.Redis.XRangeN(ctx, k.Events(), "-", "+", 1).Result()
		if err != nil {
			return err
		}
		before := "+inf" // no event is left
		if len(first) == 1 {
			before = "(" + strconv.FormatInt(sequenceOf(first[0]), 10)
		}
		for _, id := range endpoints {
			if err := s.db.Redis.ZRemRangeByScore(ctx, k.Deliveries(id), "-inf", before).Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetConsumers removes workers from a partition's groups that have been idle
// for so long and leave nothing behind; each start of a worker adds one.
func (s *Store) ForgetConsumers(ctx context.Context, partition int, idle time.Duration) error {
	for _, key := range []string{rediskv.DispatchKey(partition), rediskv.ExportsKey(partition)} {
		if err := s.forgetConsumers(ctx, key, idle); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) forgetConsumers(ctx context.Context, key string, idle time.Duration) error {
	var consumers []redis.XInfoConsumer
	if err := s.db.Timed(ctx, "idle_consumers", func(ctx context.Context) (err error) {
		consumers, err = s.db.Redis.XInfoConsumers(ctx, key, rediskv.DispatchGroup).Result()
		if err != nil && peer.IsReply(err) {
			return nil // there is no group yet
		}
		return err
	}); err != nil {
		return err
	}
	for _, c := range consumers {
		if c.Pending > 0 || c.Idle < idle {
			continue
		}
		// One that lives may look idle, and may have taken something since.
		if _, _, err := s.db.Run(ctx, scriptForgetConsumer.With(forgetConsumerKeys{key}, forgetConsumerArgs{rediskv.DispatchGroup, c.Name})); err != nil {
			return err
		}
	}
	return nil
}

type forgetConsumerKeys struct{ Stream string }

type forgetConsumerArgs struct{ Group, Consumer string }

var scriptForgetConsumer = script.New[forgetConsumerKeys, forgetConsumerArgs](lua, "forget_consumer")
