package streams

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
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
		cutOne := cutStream
		if db.Layout() >= rediskv.Compact {
			cutOne = cutPacked
		}
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

// plan is where a log begins, and where those of its entries that stay in the head; both
// are empty where all of them do.
func plan(ctx context.Context, db *rediskv.DB, b Bounds, log string) (first, stays string, err error) {
	outcome, rest, err := db.Run(ctx, scriptPlanSegment.With(planSegmentKeys{log}, planSegmentArgs{b.Entries, b.Bytes}))
	if err != nil || outcome != "planned" {
		return "", "", err
	}
	first, _ = rest[0].(string)
	stays, _ = rest[1].(string)
	return first, stays, nil
}

// cutStream makes segments that are streams, which earlier builds read.
func cutStream(ctx context.Context, db *rediskv.DB, b Bounds, log string) (moved int, err error) {
	first, stays, err := plan(ctx, db, b, log)
	if err != nil {
		return 0, err
	}
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

type packSegmentKeys struct{ Log, Directory, Segment, Rewritten string }

type packSegmentArgs struct {
	First, Last string
	Count       int
	Text, Times string
}

var scriptPackSegment = script.NewOpen[packSegmentKeys, packSegmentArgs](lua, "pack_segment")

// cutPacked makes segments that are packed here: it costs Redis nothing but to read their
// entries once.
func cutPacked(ctx context.Context, db *rediskv.DB, b Bounds, log string) (moved int, err error) {
	first, stays, err := plan(ctx, db, b, log)
	if err != nil {
		return 0, err
	}
	for first != "" && first != stays {
		var page []redis.XMessage
		times := ""
		if err := db.Timed(ctx, "log_entries", func(ctx context.Context) (err error) {
			if times, err = db.Redis.Get(ctx, Rewritten(log)).Result(); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			page, err = db.Redis.XRangeN(ctx, log, first, "("+stays, int64(b.Entries)+1).Result()
			return err
		}); err != nil {
			return moved, err
		}
		n := b.fit(page)
		if n == len(page) || page[0].ID != first { // too few, or another worker has them
			return moved, nil
		}
		outcome, rest, err := db.Run(ctx, scriptPackSegment.With(
			packSegmentKeys{log, Directory(log), Segment(log, first), Rewritten(log)}, packSegmentArgs{first, page[n-1].ID, n, pack(page[:n]), times}))
		if err != nil || outcome == "few" {
			return moved, err
		}
		if outcome == "cut" {
			moved++
		}
		first, _ = rest[0].(string)
	}
	return moved, nil
}

// fit is how many entries go into one segment: all of them, where there could be more.
func (b Bounds) fit(entries []redis.XMessage) int {
	bytes := 0
	for i, m := range entries {
		for name, value := range m.Values {
			text, _ := value.(string)
			bytes += len(name) + len(text)
		}
		if i == b.Entries || i > 0 && bytes > b.Bytes {
			return i
		}
	}
	return len(entries)
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
			n, err := trimOne(ctx, db, log, m, at)
			if removed += n; err != nil {
				return removed, err
			}
		}
		if len(page) < trimPage || removed == before {
			return removed, nil
		}
	}
}

func trimOne(ctx context.Context, db *rediskv.DB, log string, named redis.XMessage, at string) (removed int64, err error) {
	key := Segment(log, named.ID)
	if !IsPacked(named) {
		_, rest, err := db.Run(ctx, scriptTrimSegment.With(trimSegmentKeys{Directory(log), key}, trimSegmentArgs{named.ID, at}))
		if err != nil {
			return 0, err
		}
		removed, _ = rest[0].(int64)
		return removed, nil
	}
	var text string
	err = db.Timed(ctx, "log_segments", func(ctx context.Context) (err error) {
		text, err = db.Redis.Get(ctx, key).Result()
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	args := replaceSegmentArgs{First: named.ID, Digest: Digest(text)}
	count, _, _ := countIn(text)
	removed = int64(count)
	if !Less(rediskv.Text(named, "l"), at) { // some are left
		segment := open(named.ID, text)
		left, err := segment.within(at, "+")
		if segment.err != nil || err != nil || len(left) == count { // a check says so, or all are
			return 0, nil
		}
		removed -= int64(len(left))
		args.Text = pack(left)
	}
	outcome, _, err := db.Run(ctx, scriptReplaceSegment.With(replaceSegmentKeys{Directory(log), key, Rewritten(log)}, args))
	if err != nil || outcome != "replaced" {
		return 0, err
	}
	return removed, nil
}

type replaceSegmentKeys struct{ Directory, Segment, Rewritten string }

type replaceSegmentArgs struct {
	First, Digest, Text string
	Anew                int
}

// Digest is how a script knows the text of a segment again; "" of none.
func Digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Repack puts other entries in the place of a packed segment's, by its id in the directory, if
// its text is still the one that was read. Whoever keeps the segment in memory learns of it.
func Repack(ctx context.Context, db *rediskv.DB, log, first, was string, entries []redis.XMessage) (done bool, err error) {
	outcome, _, err := db.Run(ctx, scriptReplaceSegment.With(replaceSegmentKeys{Directory(log), Segment(log, first), Rewritten(log)},
		replaceSegmentArgs{first, Digest(was), pack(entries), 1}))
	return outcome == "replaced", err
}

var scriptReplaceSegment = script.NewOpen[replaceSegmentKeys, replaceSegmentArgs](lua, "replace_segment")
