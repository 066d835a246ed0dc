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
	"tollgate/rediskv/streams"
)

// TrimEvents removes events of a partition's organizations that are older than
// keep, but none that is still to be handed over or delivered, and not the newest: a cursor
// that has read it is as current as ever, and in an empty log it would look lost. With an
// archive they are put into packs first, and nothing is removed that no pack has. Where
// there is one that this process does not know, that holds as well.
func (s *Store) TrimEvents(ctx context.Context, partition int, keep tollgate.Instant) (removed int64, err error) {
	orgs, err := s.organizationsOf(ctx, partition)
	if err != nil {
		return 0, err
	}
	due, endpoints := make([]Due, len(orgs)), make([][]string, len(orgs))
	for i, org := range orgs {
		due[i].Space = s.db.Space(org)
		if due[i].Until, endpoints[i], err = s.trimBound(ctx, due[i].Space, keep); err != nil {
			return 0, err
		}
	}
	return s.trim(ctx, partition, LogEvents, keep, due, func(i int) error {
		return s.trimDeliveries(ctx, due[i].Space, endpoints[i])
	})
}

// trim puts what is due of a log into packs, where there is an archive, and removes what packs
// have, or else all of it. trimmed is told of each organization that has lost something.
func (s *Store) trim(ctx context.Context, partition int, log string, keep tollgate.Instant, due []Due, trimmed func(i int) error) (removed int64, err error) {
	var failed error
	if s.archive != nil {
		failed = s.archive.Pack(ctx, partition, log, keep, due)
	}
	packed, err := s.PacksLogs(ctx, partition)
	if err != nil {
		return 0, err
	}
	for i, d := range due {
		if packed {
			in, err := s.Packed(ctx, d.Space, log)
			if err != nil {
				return removed, err
			}
			if in == nil {
				continue
			}
			d.Until = min(d.Until, tollgate.Instant(Place(in.Last).Milli))
		}
		n, err := streams.Trim(ctx, s.db, "trim_"+log, d.Space.Object(log), d.Until)
		if err == nil && n > 0 {
			err = trimmed(i)
		}
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, failed
}

// PacksLogs reports whether the logs of a partition go into packs before they are trimmed:
// there is an archive, or there was one.
func (s *Store) PacksLogs(ctx context.Context, partition int) (packed bool, err error) {
	if s.archive != nil {
		return true, nil
	}
	err = s.db.Timed(ctx, "archive_logs", func(ctx context.Context) error {
		n, err := s.db.Redis.Exists(ctx, LogsKey(partition)).Result()
		packed = n > 0
		return err
	})
	return packed, err
}

// trimBound is before which moment an organization's events may go, and its endpoints.
func (s *Store) trimBound(ctx context.Context, k rediskv.Space, keep tollgate.Instant) (until tollgate.Instant, endpoints []string, err error) {
	until = keep
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
	var newest []redis.XMessage
	if err == nil {
		newest, err = streams.RevRange(ctx, s.db, k.Events(), "+", "-", 1)
	}
	for _, m := range newest {
		until = min(until, tollgate.Instant(Place(m.ID).Milli))
	}
	return until, endpoints, err
}

// TrimAudit removes entries of an organization's audit record that are older than keep, where
// there is no archive. Whoever calls it has made sure that they are sealed.
func (s *Store) TrimAudit(ctx context.Context, org string, keep tollgate.Instant) (removed int64, err error) {
	return streams.Trim(ctx, s.db, "trim_audit", s.db.Space(org).Audit(), keep)
}

// TrimAudits removes what is due of the audit records of a partition's organizations, as
// TrimEvents does. Whoever calls it has made sure that it is sealed.
func (s *Store) TrimAudits(ctx context.Context, partition int, keep tollgate.Instant, due []Due) (removed int64, err error) {
	return s.trim(ctx, partition, LogAudit, keep, due, func(int) error { return nil })
}

// CutLogs moves what is older in the logs of a partition's organizations into segments,
// so that no key is large: where all that read there know of segments.
func (s *Store) CutLogs(ctx context.Context, partition int) (segments int, err error) {
	if s.db.Layout() < rediskv.Together {
		return 0, nil
	}
	orgs, err := s.organizationsOf(ctx, partition)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(orgs, rediskv.ReadTogether) {
		var logs []string
		for _, org := range some {
			k := s.db.Space(org)
			logs = append(logs, k.Events(), k.Audit())
		}
		n, err := streams.Cut(ctx, s.db, streams.Usual, logs)
		if segments += n; err != nil {
			return segments, err
		}
	}
	return segments, nil
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
	first, err := streams.Range(ctx, s.db, k.Events(), "-", "+", 1)
	if err != nil {
		return err
	}
	return s.db.Timed(ctx, "trim_deliveries", func(ctx context.Context) error {
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
