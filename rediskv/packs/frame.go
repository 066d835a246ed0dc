package packs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"sort"

	"tollgate/rediskv/frames"
)

// Frame is some rows of a pack, unpacked. It does not change: several may use it at once.
type Frame struct {
	data []byte
	ends []int32 // of its rows, behind their newlines
}

// Frame reads a frame, by its number in the index. A *DamagedError says that it is not as
// it was written; another error, that it could not be read.
func (p *Pack) Frame(ctx context.Context, n int) (*Frame, error) {
	if n < 0 || n >= len(p.index.Frames) {
		return nil, fmt.Errorf("read frame %d: the pack has %d", n, len(p.index.Frames))
	}
	packed, err := p.read(ctx, n)
	if err != nil {
		return nil, err
	}
	return p.unpack(n, packed)
}

func (p *Pack) read(ctx context.Context, n int) ([]byte, error) {
	packed := make([]byte, p.index.Frames[n].Size)
	if err := p.src.ReadAt(ctx, packed, p.index.Frames[n].Offset); err != nil {
		return nil, fmt.Errorf("read frame %d: %w", n, err)
	}
	return packed, nil
}

// unpack makes a frame of what was read. Nothing is unpacked that has another digest.
func (p *Pack) unpack(n int, packed []byte) (*Frame, error) {
	e := &p.index.Frames[n]
	if is := sha256.Sum256(packed); hex.EncodeToString(is[:]) != e.SHA256 {
		return nil, p.damaged(n, "its SHA-256 is %x, and should be %s", is, e.SHA256)
	}
	data, err := frames.UnpackWithin(packed, make([]byte, 0, e.Bytes))
	if err != nil {
		return nil, p.damaged(n, "unpack: %v", err)
	}
	if int64(len(data)) != e.Bytes {
		return nil, p.damaged(n, "it has %d bytes of rows, and should have %d", len(data), e.Bytes)
	}
	f := &Frame{data: data, ends: make([]int32, 0, e.Rows)}
	if wrong := f.split(e); wrong != "" {
		return nil, p.damaged(n, "%s", wrong)
	}
	return f, nil
}

// damaged is the error for a frame.
func (p *Pack) damaged(n int, reason string, args ...any) error {
	e := &DamagedError{Frame: n, Reason: fmt.Sprintf(reason, args...), From: p.index.Frames[n].First}
	if n+1 < len(p.index.Frames) {
		e.Until = p.index.Frames[n+1].First
	}
	return e
}

// split finds the rows, and says what is wrong with them.
func (f *Frame) split(e *Entry) (wrong string) {
	var first, last []byte
	for at := 0; at < len(f.data); {
		length := bytes.IndexByte(f.data[at:], '\n')
		if length < 0 {
			return "its last row has no end"
		}
		id, ok := idOf(f.data[at : at+length])
		if !ok || bytes.Compare(id, last) <= 0 {
			return fmt.Sprintf("row %d has no identifier, or one that does not follow %q", len(f.ends), last)
		}
		if len(f.ends) == 0 {
			first = id
		}
		last = id
		at += length + 1
		f.ends = append(f.ends, int32(at))
	}
	if int64(len(f.ends)) != e.Rows || string(first) != e.First || string(last) != e.Last {
		return "its rows are others than the index says"
	}
	return ""
}

// row is one by its number, without its newline.
func (f *Frame) row(i int) []byte {
	begin, end := int32(0), f.ends[i]-1
	if i > 0 {
		begin = f.ends[i-1]
	}
	return f.data[begin:end:end]
}

// Row is the row of an identifier; not to be changed.
func (f *Frame) Row(id string) (row []byte, ok bool) {
	i, ok := sort.Find(len(f.ends), func(i int) int {
		is, _ := idOf(f.row(i))
		return bytes.Compare([]byte(id), is)
	})
	if !ok {
		return nil, false
	}
	return f.row(i), true
}

// Len is how many rows the frame has.
func (f *Frame) Len() int { return len(f.ends) }

// At is a row by its number, from 0; not to be changed.
func (f *Frame) At(i int) []byte { return f.row(i) }

// From is the number of the first row with an identifier or a later one; Len, if there is
// none.
func (f *Frame) From(id string) int {
	return sort.Search(len(f.ends), func(i int) bool {
		is, _ := idOf(f.row(i))
		return string(is) >= id
	})
}

// ID is the identifier of a row by its number, from 0.
func (f *Frame) ID(i int) string {
	id, _ := idOf(f.row(i))
	return string(id)
}

// Rows are the identifiers and rows in their order; not to be changed.
func (f *Frame) Rows() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range f.ends {
			row := f.row(i)
			if id, _ := idOf(row); !yield(string(id), row) {
				return
			}
		}
	}
}

// Bytes is how much memory the frame takes.
func (f *Frame) Bytes() int { return cap(f.data) + 4*cap(f.ends) + 64 }
