package exports

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
)

// exportsSeen bounds how many unfinished exports of a partition one look
// compares. An organization has ten at most, so that many have their turn.
const exportsSeen = 1000

func (s *Store) nextExportEntry(ctx context.Context, partition int, consumer string, idle time.Duration, may func(string) bool) (entry *redis.XMessage, err error) {
	key := rediskv.ExportsKey(partition)
	err = s.db.Timed(ctx, "next_export", func(ctx context.Context) error {
		waiting, err := s.db.Redis.XLen(ctx, key).Result()
		if err != nil || waiting == 0 { // what has ended is removed
			return err
		}
		err = s.lineUpExports(ctx, key, consumer)
		if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
			err = s.db.Redis.XGroupCreate(ctx, key, rediskv.DispatchGroup, "0").Err()
			if err == nil || strings.HasPrefix(err.Error(), "BUSYGROUP") {
				err = s.lineUpExports(ctx, key, consumer)
			}
		}
		if err != nil {
			return err
		}
		entry, err = s.claimExport(ctx, partition, consumer, idle, may)
		return err
	})
	return entry, err
}

// lineUpExports makes those that are new wait as those do that were given back.
// A group hands out what is new in its order alone; of what waits, anything can
// be claimed.
func (s *Store) lineUpExports(ctx context.Context, key, consumer string) error {
	streams, err := s.db.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: rediskv.DispatchGroup, Consumer: consumer, Streams: []string{key, ">"}, Count: exportsSeen, Block: -1,
	}).Result()
	if errors.Is(err, redis.Nil) || (err == nil && len(streams) == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	args := []any{"XCLAIM", key, rediskv.DispatchGroup, consumer, "0"}
	for _, m := range streams[0].Messages {
		args = append(args, m.ID)
	}
	return s.db.Redis.Do(ctx, append(args, "IDLE", givenBack.Milliseconds(), "JUSTID")...).Err()
}

// claimExport claims the export whose turn it is. Another worker may be faster:
// then it is the next one's.
func (s *Store) claimExport(ctx context.Context, partition int, consumer string, idle time.Duration, may func(string) bool) (*redis.XMessage, error) {
	key := rediskv.ExportsKey(partition)
	last := ""
	if had := s.lastExport[partition].Load(); had != nil {
		last = *had
	}
	for {
		pipe := s.db.Redis.Pipeline()
		entries := pipe.XRangeN(ctx, key, "-", "+", exportsSeen)
		pending := pipe.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: key, Group: rediskv.DispatchGroup, Start: "-", End: "+", Count: exportsSeen})
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		next := exportTurn(entries.Val(), pending.Val(), idle, last, may)
		if next == nil {
			return nil, nil
		}
		claimed, err := s.db.Redis.XClaim(ctx, &redis.XClaimArgs{
			Stream: key, Group: rediskv.DispatchGroup, Consumer: consumer, MinIdle: idle, Messages: []string{next.ID},
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		if len(claimed) > 0 {
			org := rediskv.Text(*next, "o")
			s.lastExport[partition].Store(&org)
			return next, nil
		}
	}
}

// exportTurn is the first export of the organization whose turn it is: it has
// the fewest in work, and comes next, by its id, behind the one that had the last
// turn.
func exportTurn(entries []redis.XMessage, pending []redis.XPendingExt, idle time.Duration, last string, may func(string) bool) *redis.XMessage {
	waits := make(map[string]bool, len(pending))
	for _, p := range pending {
		waits[p.ID] = p.Idle >= idle
	}
	inWork := make(map[string]int)
	first := make(map[string]*redis.XMessage)
	var orgs []string
	for i := range entries {
		m := &entries[i]
		org := rediskv.Text(*m, "o")
		waiting, known := waits[m.ID]
		switch {
		case !known: // it is newer than the look
		case !waiting:
			inWork[org]++
		case first[org] == nil && (may == nil || may(org)):
			first[org] = m
			orgs = append(orgs, org)
		}
	}
	if len(orgs) == 0 {
		return nil
	}
	return first[slices.MinFunc(orgs, func(a, b string) int {
		if n := inWork[a] - inWork[b]; n != 0 {
			return n
		}
		if (a > last) != (b > last) { // the ring begins behind the last one
			if a > last {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})]
}
