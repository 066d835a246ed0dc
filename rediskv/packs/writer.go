package packs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/frames"
)

// Writer writes a pack. The same rows make the same file. It holds a frame and the index
// in memory. After an error it writes no more, and Close returns that error.
type Writer struct {
	to    io.Writer
	file  hash.Hash
	size  int64
	bytes int64
	index Index
	err   error

	open   Entry  // the frame that is not full yet,
	raw    []byte // and its rows
	packed []byte
}

var errClosed = errors.New("the pack is closed")

// NewWriter begins a pack. kind says what its rows are, in lower-case letters and _.
func NewWriter(w io.Writer, kind string, partition int) *Writer {
	p := &Writer{to: w, file: sha256.New(), index: Index{Format: format, Kind: kind, Partition: partition}}
	if !validKind(kind) || partition < 0 {
		p.err = fmt.Errorf("kind %q of partition %d cannot be a pack's: use a-z and _, and a partition from 0", kind, partition)
	}
	return p
}

// Add adds a row: a JSON object on one line, without a newline at its end. It begins with
// {"id":"ID". Identifiers ascend. Beyond that, nobody looks at whether the row is JSON.
func (w *Writer) Add(id string, row []byte) error {
	if w.err == nil {
		w.err = w.check(id, row)
	}
	if w.err == nil && len(w.raw)+len(row)+1 > fullFrame {
		w.err = w.flush()
	}
	if w.err != nil {
		return w.err
	}
	if w.open.Rows == 0 {
		w.open.First = id
	}
	if w.index.Rows == 0 {
		w.index.First = id
	}
	w.open.Last, w.index.Last = id, id
	w.open.Rows++
	w.index.Rows++
	w.raw = append(append(w.raw, row...), '\n')
	return nil
}

func (w *Writer) check(id string, row []byte) error {
	is, ok := idOf(row)
	switch {
	case !validID(id):
		return fmt.Errorf("add %.80q: an identifier has 1 to %d printable bytes, without quotes and backslashes", id, longestID)
	case !ok || string(is) != id:
		return fmt.Errorf(`add %s: a row is a JSON object that begins with {"id":"%s"`, id, id)
	case w.index.Rows > 0 && id <= w.index.Last:
		return fmt.Errorf("add %s: it comes before %s or is the same", id, w.index.Last)
	case bytes.ContainsAny(row, "\r\n"):
		return fmt.Errorf("add %s: a row is one line", id)
	case len(row) >= largestFrame:
		return fmt.Errorf("add %s: the row has %d bytes; at most %d", id, len(row), largestFrame-1)
	}
	return nil
}

// flush writes the frame, if it has rows.
func (w *Writer) flush() error {
	if w.open.Rows == 0 {
		return nil
	}
	if len(w.index.Frames) == mostFrames {
		return fmt.Errorf("a pack has at most %d frames: begin another", mostFrames)
	}
	w.packed = frames.Dense(w.raw, w.packed[:0])
	sum := sha256.Sum256(w.packed)
	w.open.Offset, w.open.Size = w.size, int64(len(w.packed))
	w.open.Bytes, w.open.SHA256 = int64(len(w.raw)), hex.EncodeToString(sum[:])
	w.index.Frames = append(w.index.Frames, w.open)
	w.bytes += w.open.Bytes
	w.open, w.raw = Entry{}, w.raw[:0]
	return w.write(w.packed)
}

func (w *Writer) write(b []byte) error {
	w.file.Write(b)
	w.size += int64(len(b))
	if _, err := w.to.Write(b); err != nil {
		return fmt.Errorf("write pack: %w", err)
	}
	return nil
}

// Close writes the index. The pack is whole only after that; the io.Writer stays open.
func (w *Writer) Close() (Summary, error) {
	if w.err == nil {
		w.err = w.flush()
	}
	if w.err == nil {
		w.err = w.finish()
	}
	if w.err != nil {
		return Summary{}, w.err
	}
	w.err = errClosed
	return Summary{
		SHA256: hex.EncodeToString(w.file.Sum(nil)),
		Size:   w.size, Rows: w.index.Rows, Bytes: w.bytes, First: w.index.First, Last: w.index.Last,
	}, nil
}

// finish writes the skippable frame.
func (w *Writer) finish() error {
	text, err := json.Marshal(&w.index)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	index := frames.Dense(text, nil)
	sum := sha256.Sum256(index)
	end := append(append(skip(len(index)), index...), sum[:]...)
	end = binary.LittleEndian.AppendUint64(end, uint64(len(index)))
	return w.write(append(end, ending...))
}
