package streams

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// Bounds are those of a segment. As much stays in the head, where most is read. One
// entry may be larger.
type Bounds struct{ Entries, Bytes int }

// Usual are the bounds of the service.
var Usual = Bounds{256, 256 << 10}

// large reports whether a head has more than two segments would: some of its memory is
// Redis' own.
func (b Bounds) large(entries, memory int64) bool {
	return entries > int64(2*b.Entries) || memory > int64(2*b.Bytes+b.Bytes/2)
}

// trimPage is how many entries of a head one trimming call removes; more would hold up
// everybody else in the slot.
const trimPage = 1000

// Cut moves the oldest entries of logs into segments until none is large any more, and
// returns how many it has made. Several may do it at once, and any may die.
func Cut(ctx context.Context, db *rediskv.DB, b Bounds, logs []string) (moved int, err error) {
	var cut []string
	if err := db.Timed(ctx, "log_sizes", func(ctx context.Context) error {
		pipe := db.Redis.Pipeline()
		lengths, bytes := make([]*redis.IntCmd, len(logs)), make([]*redis.IntCmd, len(logs))
		for i, log := range logs {
			lengths[i] = pipe.XLen(ctx, log)
			bytes[i] = pipe.MemoryUsage(ctx, log, 0) // of all of it, not of a sample
		}
		if pipe.Len() == 0 {
			return nil
		}
		if _, err := pipe.Exec(ctx); err != nil && !peer.IsReply(err) && err != redis.Nil {
			return err
		}
		for i, log := range logs {
			unknown := peer.IsReply(bytes[i].Err()) // the embedded one cannot tell
			if n := lengths[i].Val(); n > 1 && (unknown || b.large(n, bytes[i].Val())) {
				cut = append(cut, log)
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	for _, log := range cut {
		n, err := cutOne(ctx, db, b, log)
		if moved += n; err != nil {
			return moved, err
		}
	}
	return moved, nil
}

type planSegmentKeys struct{ Log string }

type planSegmentArgs struct{ KeptEntries, KeptBytes int }

var scriptPlanSegment = script.NewRead[planSegmentKeys, planSegmentArgs](lua, "plan_segment")

type cutSegmentKeys struct{ Log, Directory, Segment string }

type cutSegmentArgs struct {
	First, Stays           string
	MostEntries, MostBytes int
}

var scriptCutSegment = script.NewOpen[cutSegmentKeys, cutSegmentArgs](lua, "cut_segment")

func cutOne(ctx context.Context, db *rediskv.DB, b Bounds, log string) (moved int, err error) {
	outcome, rest, err := db.Run(ctx, scriptPlanSegment.With(planSegmentKeys{log}, planSegmentArgs{b.Entries, b.Bytes}))
	if err != nil || outcome != "planned" {
		return 0, err
	}
	first, _ := rest[0].(string)
	stays, _ := rest[1].(string)
	for first != "" && first != stays {
		outcome, rest, err := db.Run(ctx, scriptCutSegment.With(
			cutSegmentKeys{log, Directory(log), Segment(log, first)}, cutSegmentArgs{first, stays, b.Entries, b.Bytes}))
		if err != nil || outcome == "few" {
			return moved, err
		}
		at := rest[len(rest)-1]
		if outcome == "cut" {
			moved++
		}
		first, _ = at.(string)
	}
	return moved, nil
}

type trimSegmentKeys struct{ Directory, Segment string }

type trimSegmentArgs struct{ First, UntilID string }

var scriptTrimSegment = script.NewOpen[trimSegmentKeys, trimSegmentArgs](lua, "trim_segment")

// Trim removes the entries of a log that are older than until: first whole segments, and
// then a page at a time.
func Trim(ctx context.Context, db *rediskv.DB, operation, log string, until tollgate.Instant) (removed int64, err error) {
	if until <= 0 {
		return 0, nil
	}
	at := strconv.FormatInt(int64(until), 10) + "-0"
	segments, err := trimSegments(ctx, db, operation, log, at)
	for err == nil {
		var n int64
		if err = db.Timed(ctx, operation, func(ctx context.Context) error {
			// Up to the page's end, found by looking, never past until.
			page, err := db.Redis.XRangeN(ctx, log, "-", "("+at, trimPage).Result()
			if err != nil || len(page) == 0 {
				return err
			}
			n, err = db.Redis.XTrimMinID(ctx, log, Next(page[len(page)-1].ID)).Result()
			return err
		}); err != nil {
			break
		}
		if removed += n; n < trimPage {
			break
		}
	}
	return segments + removed, err
}

// trimSegments goes through the segments that begin before a place.
func trimSegments(ctx context.Context, db *rediskv.DB, operation, log, at string) (removed int64, err error) {
	for {
		var page []redis.XMessage
		if err := db.Timed(ctx, operation, func(ctx context.Context) (err error) {
			page, err = db.Redis.XRangeN(ctx, Directory(log), "-", "("+at, trimPage).Result()
			return err
		}); err != nil {
			return removed, err
		}
		before := removed
		for _, m := range page {
			_, rest, err := db.Run(ctx, scriptTrimSegment.With(trimSegmentKeys{Directory(log), Segment(log, m.ID)}, trimSegmentArgs{m.ID, at}))
			if err != nil {
				return removed, err
			}
			n, _ := rest[0].(int64)
			removed += n
		}
		if len(page) < trimPage || removed == before {
			return removed, nil
		}
	}
}
