package packs

import (
	"encoding/hex"
	"strings"
)

// check says what is wrong in an index whose frames end at an offset.
func (x *Index) check(end int64) error {
	switch {
	case x.Format != format:
		return damaged("its format is %.40q, and this release knows %q", x.Format, format)
	case !validKind(x.Kind), x.Partition < 0:
		return damaged("its kind is %.80q and its partition %d", x.Kind, x.Partition)
	}
	var offset, rows int64
	last := ""
	for n := range x.Frames {
		e := &x.Frames[n]
		if wrong := e.wrong(offset, last); wrong != "" {
			return damaged("the index is wrong about frame %d: %s", n, wrong)
		}
		offset += e.Size
		rows += e.Rows
		last = e.Last
	}
	first := ""
	if len(x.Frames) > 0 {
		first = x.Frames[0].First
	}
	switch {
	case offset != end:
		return damaged("its frames end at %d, and its index begins at %d", offset, end)
	case rows != x.Rows:
		return damaged("its index counts %d rows, and %d in its frames", x.Rows, rows)
	case first != x.First || last != x.Last:
		return damaged("its index names other identifiers than its frames")
	}
	return nil
}

// wrong says what is wrong with a frame that begins at an offset, after an identifier. A
// frame's size is bounded, so no sum of sizes overflows.
func (e *Entry) wrong(offset int64, after string) string {
	digest, err := hex.DecodeString(e.SHA256)
	switch {
	case e.Offset != offset:
		return "it does not begin where the one before ends"
	case e.Bytes > largestFrame:
		return "the size of its rows"
	case e.Size < leastFrame || e.Size > e.Bytes+overhead:
		return "its size"
	case e.Rows < 1 || e.Rows > e.Bytes/int64(leastRow):
		return "how many rows it has"
	case !validID(e.First) || !validID(e.Last):
		return "its identifiers"
	case e.First <= after || e.First > e.Last:
		return "the order of its identifiers"
	case err != nil || len(digest) != 32 || strings.ToLower(e.SHA256) != e.SHA256:
		return "its SHA-256"
	}
	return ""
}
