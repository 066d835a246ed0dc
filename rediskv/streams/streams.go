// Package streams keeps a log, which never ends, in keys that do. The newest entries
// are in the log's own stream, its head: what is appended goes there, and nothing else
// has to be known for it. A worker moves the oldest entries of a head into segments
// of at most 256 KiB, and the directory, a stream, says which there are. A segment is a
// stream as well, or, in the layout rediskv.Compact, a string of compressed entries.
// An entry has the same id, its place, wherever it is.
//
// Whoever reads asks here. What begins in the head is read there at once; only what
// begins before it needs the directory.
package streams

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/record"
)

//go:embed lua/*.lua
var lua embed.FS

// Directory is the key of a log's directory, a stream: an entry has the id of the first
// one of its segment, n, how many entries have ever gone into segments up to its end, and,
// where it is packed, l, the id of its last one. It is there while a segment is.
func Directory(log string) string { return log + ":segments" }

// Segment is the key of a log's segment that begins with an entry. Its oldest entries may
// have been trimmed.
func Segment(log, first string) string { return log + ":" + first }

// Anew is the text and the envelope (fields b and e) that an entry of a log gets; ok is false
// where it stays as it is. Its envelope must change with its text.
type Anew func(redis.XMessage) (text, envelope string, ok bool, err error)

// Rewritten is the key of how often entries of a log were written anew (package erase): a
// string, which is there once they were.
func Rewritten(log string) string { return log + ":rewritten" }

// MessageOf reads one entry of a stream as a script returns it.
func MessageOf(entry any) (redis.XMessage, error) {
	pair, _ := entry.([]any)
	if len(pair) != 2 {
		return redis.XMessage{}, fmt.Errorf("redis: a stream entry has %d parts", len(pair))
	}
	id, _ := pair[0].(string)
	m := redis.XMessage{ID: id, Values: map[string]any{}}
	for name, value := range record.FieldsOf(pair[1]) {
		m.Values[name] = value
	}
	return m, nil
}

// end is the last sequence number of a millisecond.
const end = "-18446744073709551615"

// lower is where a range begins, as XRANGE takes it, with all parts of its id.
func lower(id string) string {
	switch {
	case id == "-":
		return id
	case strings.HasPrefix(id, "("):
		return Next(id[1:])
	case !strings.Contains(id, "-"):
		return id + "-0"
	}
	return id
}

// upper is where a range ends.
func upper(id string) string {
	switch {
	case id == "+":
		return id
	case strings.HasPrefix(id, "("):
		return Previous(id[1:])
	case !strings.Contains(id, "-"):
		return id + end
	}
	return id
}

// Next is the id behind another one.
func Next(id string) string {
	milli, seq := parts(id)
	if seq++; seq == 0 {
		milli++
	}
	return joined(milli, seq)
}

// Previous is the id in front of another one.
func Previous(id string) string {
	milli, seq := parts(id)
	if seq == 0 {
		milli -= min(milli, 1)
	}
	return joined(milli, seq-1)
}

// Less reports whether an id is in front of another one.
func Less(a, b string) bool {
	milli, seq := parts(a)
	other, next := parts(b)
	return milli < other || milli == other && seq < next
}

func parts(id string) (milli, seq uint64) {
	first, second, _ := strings.Cut(id, "-")
	milli, _ = strconv.ParseUint(first, 10, 64) // Redis' own
	seq, _ = strconv.ParseUint(second, 10, 64)
	return milli, seq
}

func joined(milli, seq uint64) string {
	return strconv.FormatUint(milli, 10) + "-" + strconv.FormatUint(seq, 10)
}
