package checks

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/streams"
)

// segmentKey is what follows the organization in the key of a segment of its logs.
var segmentKey = regexp.MustCompile(`^(events|audit):\d+-\d+$`)

// segment is a segment as the directory of its log names it.
type segment struct {
	redis.XMessage        // of the directory; its id is that of the first entry
	log, what      string // the log's key, and its name for people
	through        string // how many entries have gone into segments up to its end
	before         string // the same of the segment before it; empty: it is the first
	next           string // where the next segment begins, or the head
}

func (s *segment) found(format string, args ...any) []Finding {
	return plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "segment", s.what+":"+s.ID, format, args...)})
}

// segments walks through the directory of a log: each segment is there, and has as many
// entries as it says, which come before those of the next one.
func (w *walk) segments(ctx context.Context, log string) error {
	from, before := "-", ""
	what := log[strings.LastIndexByte(log, ':')+1:]
	for {
		var entries []redis.XMessage
		if err := w.Timed(ctx, "segments", func(ctx context.Context) (err error) {
			entries, err = w.Redis().XRangeN(ctx, streams.Directory(log), from, "+", page+1).Result()
			return err
		}); err != nil {
			return err
		}
		list := make([]segment, min(len(entries), page))
		for i := range list {
			list[i] = segment{XMessage: entries[i], log: log, what: what, through: rediskv.Text(entries[i], "n"), before: before}
			if before = list[i].through; i+1 < len(entries) {
				list[i].next = entries[i+1].ID
			}
		}
		if err := confirmed(ctx, w, list, w.checkSegments); err != nil || len(entries) <= page {
			return err
		}
		from = "(" + list[page-1].ID
	}
}

// checkSegments compares segments with what their directory says of them. One that it
// does not name any more has been trimmed.
func (w *walk) checkSegments(ctx context.Context, list []segment) ([][]Finding, error) {
	named, there := make([]*redis.XMessageSliceCmd, len(list)), make([]streams.Extent, len(list))
	var oldest, head *redis.XMessageSliceCmd
	if err := w.AtOnce(ctx, "segments", func(ctx context.Context, pipe redis.Pipeliner) {
		directory := streams.Directory(list[0].log)
		oldest, head = pipe.XRangeN(ctx, directory, "-", "+", 1), pipe.XRangeN(ctx, list[0].log, "-", "+", 1)
		for i, s := range list {
			named[i] = pipe.XRangeN(ctx, directory, s.ID, s.ID, 1)
			there[i].Ask(ctx, pipe, s.log, s.XMessage)
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(list))
	for i, s := range list {
		if len(named[i].Val()) == 0 {
			continue
		}
		is := &there[i]
		if err := is.Done(); err != nil {
			findings[i] = s.found("it cannot be read: %v", err)
			continue
		}
		if is.Entries == 0 {
			findings[i] = s.found("the directory of the log names it, and it is not there")
			continue
		}
		if s.next == "" { // then it is the last one, or has been when the directory was read
			for _, m := range head.Val() {
				s.next = m.ID
			}
		}
		trimmed := oldest.Val()[0].ID == s.ID
		before, wrong := strconv.ParseInt(s.before, 10, 64)
		through, err := strconv.ParseInt(s.through, 10, 64)
		switch {
		case err != nil:
			findings[i] = s.found("the directory of the log counts %q entries up to its end", s.through)
		case is.First != s.ID && !trimmed:
			findings[i] = s.found("it begins with entry %s", is.First)
		case s.next != "" && streams.Less(s.next, streams.Next(is.Last)):
			findings[i] = s.found("it ends with entry %s, and what comes behind it begins with %s", is.Last, s.next)
		case is.Ends != "" && is.Ends != is.Last:
			findings[i] = s.found("it ends with entry %s, and did with %s", is.Last, is.Ends)
		case !trimmed && wrong == nil && is.Entries != through-before:
			findings[i] = s.found("it has %d entries, and had %d", is.Entries, through-before)
		}
	}
	return findings, nil
}

// checkSegmentNamed looks whether the directories of logs name segments that are there.
func (w *walk) checkSegmentNamed(ctx context.Context, names []string) ([][]Finding, error) {
	named, there := make([]*redis.XMessageSliceCmd, len(names)), make([]*redis.IntCmd, len(names))
	if err := w.AtOnce(ctx, "segments", func(ctx context.Context, pipe redis.Pipeliner) {
		for i, name := range names {
			log, id, _ := strings.Cut(name, ":")
			named[i] = pipe.XRangeN(ctx, streams.Directory(w.K.Object(log)), id, id, 1)
			there[i] = pipe.Exists(ctx, w.K.Object(name))
		}
	}); err != nil {
		return nil, err
	}
	findings := make([][]Finding, len(names))
	for i, name := range names {
		if len(named[i].Val()) == 0 && there[i].Val() == 1 {
			findings[i] = plain([]consistency.Finding{consistency.Found(consistency.FindingIndex, "segment", name, "no directory of a log names it")})
		}
	}
	return findings, nil
}
