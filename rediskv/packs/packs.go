// Package packs is the only one that knows the format of an archive's files. A pack is an
// immutable file of rows, sorted by their identifiers. It is a zstd file: `zstd -dc FILE`
// prints the rows as NDJSON, with no help of ours.
//
//	frame 0      a zstd frame (RFC 8878) with a checksum: up to 64 KiB of rows
//	…            a longer row is a frame of its own, of at most 16 MiB
//	frame n-1
//	skippable    0x184D2A5E and the size of what follows, both u32; zstd passes over it
//	  index      a zstd frame that holds an Index as JSON
//	  trailer    48 bytes: SHA-256 of the index as it is here, its size as u64, "tollpack"
//
// Numbers are little-endian. A row is a line: a JSON object whose first member is "id".
// One row is found with two reads: the end of the file, and a frame.
//
// Whoever reads a pack trusts nothing in it. scripts/packs/read_pack.py reads one, too.
package packs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	format  = "tollgate-pack/1"
	ending  = "tollpack"
	trailer = 48
	header  = 8          // a skippable frame's
	skipped = 0x184D2A5E // its magic number

	fullFrame    = 64 << 10 // bytes of rows, after which the next frame begins
	largestFrame = 16 << 20 // bytes of rows
	leastFrame   = 10       // bytes of a zstd frame that holds anything
	overhead     = 1 << 10  // by how much a frame can be larger than what it holds
	leastRow     = len(`{"id":"-"}` + "\n")
	longestID    = 128

	mostFrames   = 1 << 19
	largestIndex = 256 << 20
	largestEntry = 512 // bytes of JSON
	largestHead  = 4096
)

// Source is where a pack is read from. ReadAt fills p from an offset on, or it fails.
type Source interface {
	ReadAt(ctx context.Context, p []byte, off int64) error
}

// Index is what a pack says of itself.
type Index struct {
	Format    string  `json:"format"` // "tollgate-pack/1"
	Kind      string  `json:"kind"`   // what its rows are
	Partition int     `json:"partition"`
	Rows      int64   `json:"rows"`
	First     string  `json:"first"` // the first identifier; empty without rows
	Last      string  `json:"last"`
	Frames    []Entry `json:"frames"`
}

// Entry is a frame in the index.
type Entry struct {
	Offset int64  `json:"offset"` // in the file
	Size   int64  `json:"size"`   // in the file
	Bytes  int64  `json:"bytes"`  // of its rows, each with its newline
	Rows   int64  `json:"rows"`
	First  string `json:"first"` // identifiers
	Last   string `json:"last"`
	SHA256 string `json:"sha256"` // of the frame as it is in the file, in hexadecimal
}

// Summary is what is known of a pack that was written.
type Summary struct {
	SHA256 string `json:"sha256"` // of the file, in hexadecimal: FileName has it
	Size   int64  `json:"size"`   // of the file in bytes
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"` // of the rows before they were compressed
	First  string `json:"first"` // identifiers
	Last   string `json:"last"`
}

// FileName is the name of a pack: its SHA-256 in hexadecimal and ".pack".
func FileName(sum string) string { return sum + ".pack" }

// DamagedError says that a pack is not as it was written.
type DamagedError struct {
	Frame  int // -1: the index, or the file as a whole
	Reason string
	// Which identifiers the frame has: from From on, and until the next frame's first.
	// Until is empty for the last frame.
	From, Until string
}

func (e *DamagedError) Error() string {
	switch {
	case e.Frame < 0:
		return "the pack is damaged: " + e.Reason
	case e.Until == "":
		return fmt.Sprintf("frame %d (identifiers from %s on) is damaged: %s", e.Frame, e.From, e.Reason)
	}
	return fmt.Sprintf("frame %d (identifiers from %s until %s) is damaged: %s", e.Frame, e.From, e.Until, e.Reason)
}

// damaged is the error for the index, or for the file as a whole.
func damaged(reason string, args ...any) error {
	return &DamagedError{Frame: -1, Reason: fmt.Sprintf(reason, args...)}
}

// skip begins the skippable frame of an index, of its size.
func skip(index int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, skipped)
	return binary.LittleEndian.AppendUint32(b, uint32(index+trailer))
}

const beforeID = `{"id":"`

// idOf is the identifier that a row begins with. ok is false of what is no row.
func idOf(row []byte) (id []byte, ok bool) {
	if len(row) < leastRow-1 || string(row[:len(beforeID)]) != beforeID || row[len(row)-1] != '}' {
		return nil, false
	}
	rest := row[len(beforeID):]
	n := bytes.IndexByte(rest[:min(len(rest), longestID+1)], '"')
	if n < 0 || rest[n+1] != ',' && rest[n+1] != '}' { // the last is a brace
		return nil, false
	}
	return rest[:n], validID(rest[:n])
}

// validID says whether a text can be an identifier: 1 to 128 bytes of printable ASCII that
// JSON need not escape.
func validID[T string | []byte](id T) bool {
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= longestID
}

// validKind says whether a text can be a kind.
func validKind(kind string) bool {
	return len(kind) > 0 && len(kind) <= longestID && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz_") == ""
}
