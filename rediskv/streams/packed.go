package streams

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/frames"
)

// A packed segment is a string: the number of its form, how many entries it has, and a
// frame of them, between semicolons. In the frame an entry is the milliseconds since the
// one before it, its sequence number, and its fields with their length in front; a field
// is its name and its value, each with its length. All numbers are uvarints.
const packedForm = "1;"

var errPacked = errors.New("it is no packed segment")

// pack makes a segment of entries.
func pack(entries []redis.XMessage) string {
	var all []byte
	var before uint64
	text := func(to []byte, s string) []byte {
		return append(binary.AppendUvarint(to, uint64(len(s))), s...)
	}
	for _, m := range entries {
		milli, seq := parts(m.ID)
		all = binary.AppendUvarint(binary.AppendUvarint(all, milli-before), seq)
		before = milli
		var fields []byte
		for _, name := range slices.Sorted(maps.Keys(m.Values)) {
			fields = text(text(fields, name), rediskv.Text(m, name))
		}
		all = text(all, string(fields))
	}
	return packedForm + strconv.Itoa(len(entries)) + ";" + string(frames.Pack(all))
}

// packed is a segment that was packed, as it was read.
type packed struct {
	first string // its place in the directory
	count int
	raw   string
	err   error // it is damaged
}

// countIn is how many entries a packed segment has, by its beginning.
func countIn(text string) (count int, rest string, err error) {
	text, is := strings.CutPrefix(text, packedForm)
	number, rest, ends := strings.Cut(text, ";")
	if count, err = strconv.Atoi(number); !is || !ends || err != nil || count < 1 {
		return 0, "", errPacked
	}
	return count, rest, nil
}

// Unpack is all that a packed segment has. The error says that it is damaged.
func Unpack(text string) ([]redis.XMessage, error) {
	p := open("", text)
	if p.err != nil {
		return nil, p.err
	}
	return p.within("-", "+")
}

func open(first, text string) *packed {
	p := &packed{first: first}
	var frame string
	if p.count, frame, p.err = countIn(text); p.err == nil {
		var raw []byte
		raw, p.err = frames.Unpack([]byte(frame), nil)
		p.raw = string(raw)
	}
	return p
}

// in is what the segment has between two whole ids, or - and +. One that is damaged has one
// entry, with nothing in it: who reads finds that it is damaged, and goes on behind it.
func (p *packed) in(low, high string) []redis.XMessage {
	if p.err == nil {
		if entries, err := p.within(low, high); err == nil {
			return entries
		}
	}
	if between(low, high, p.first) {
		return []redis.XMessage{{ID: p.first, Values: map[string]any{}}}
	}
	return nil
}

// between reports whether an id is in a range.
func between(low, high, id string) bool {
	return (low == "-" || !Less(id, low)) && (high == "+" || !Less(high, id))
}

// within reads the entries of a range. What is behind it is not looked at.
func (p *packed) within(low, high string) (entries []redis.XMessage, err error) {
	all := reader{rest: p.raw}
	first, firstSeq := parts(low) // of "-", the lowest
	last, lastSeq := parts(high)
	var milli uint64
	for range p.count {
		milli += all.number()
		seq := all.number()
		fields := reader{rest: all.text()}
		switch {
		case milli < first || milli == first && seq < firstSeq:
			continue
		case high != "+" && (milli > last || milli == last && seq > lastSeq) && !all.short:
			return entries, nil
		}
		m := redis.XMessage{ID: joined(milli, seq), Values: map[string]any{}}
		for fields.rest != "" {
			// What is taken is not to keep the whole segment alive.
			name := strings.Clone(fields.text())
			m.Values[name] = strings.Clone(fields.text())
		}
		all.short = all.short || fields.short
		entries = append(entries, m)
	}
	if all.short || all.rest != "" {
		return nil, errPacked
	}
	return entries, nil
}

// reader takes numbers and texts from the front of a string, or is short.
type reader struct {
	rest  string
	short bool
}

func (r *reader) number() (n uint64) {
	for shift := 0; shift < 64 && r.rest != ""; shift += 7 {
		next := r.rest[0]
		r.rest = r.rest[1:]
		n |= uint64(next&0x7f) << shift
		if next < 0x80 {
			return n
		}
	}
	r.rest, r.short = "", true
	return 0
}

func (r *reader) text() (text string) {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest, r.short = "", true
		return ""
	}
	text, r.rest = r.rest[:n], r.rest[n:]
	return text
}
