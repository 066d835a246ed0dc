package packs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/rediskv/frames"
)

// tail is how much of a pack's end is read at once: the index of one of 64 MB is smaller.
const tail = 256 << 10

// Pack is a pack that is open. It holds the index and no rows. Several may use it at once
// if its source allows that.
type Pack struct {
	src   Source
	index Index
	end   int64 // of its frames
}

// Open reads the index of a pack, whose size in bytes the caller knows. A *DamagedError
// says that it is no pack, or not as it was written.
func Open(ctx context.Context, src Source, size int64) (*Pack, error) {
	packed, end, err := readIndex(ctx, src, size)
	if err != nil {
		return nil, err
	}
	p := &Pack{src: src, end: end}
	if p.index, err = parse(packed, end); err != nil {
		return nil, err
	}
	if err := p.index.check(end); err != nil {
		return nil, err
	}
	return p, nil
}

// readIndex reads the index as it is in the file, and where the frames before it end.
func readIndex(ctx context.Context, src Source, size int64) (packed []byte, end int64, err error) {
	if size < header+trailer {
		return nil, 0, damaged("it has %d bytes, fewer than any pack", size)
	}
	b := make([]byte, min(size, tail))
	if err := src.ReadAt(ctx, b, size-int64(len(b))); err != nil {
		return nil, 0, fmt.Errorf("read index: %w", err)
	}
	last := b[len(b)-trailer:]
	sum, n := last[:sha256.Size], binary.LittleEndian.Uint64(last[sha256.Size:])
	if string(last[sha256.Size+8:]) != ending {
		return nil, 0, damaged("it does not end with %q", ending)
	}
	if n > largestIndex || int64(n) > size-header-trailer {
		return nil, 0, damaged("it says that its index has %d bytes", n)
	}
	end = size - header - int64(n) - trailer
	if missing := size - int64(len(b)) - end; missing > 0 {
		whole := make([]byte, missing+int64(len(b)))
		copy(whole[missing:], b)
		if err := src.ReadAt(ctx, whole[:missing], end); err != nil {
			return nil, 0, fmt.Errorf("read index: %w", err)
		}
		b = whole
	} else {
		b = b[-missing:]
	}
	packed = b[header : header+n]
	if !bytes.Equal(b[:header], skip(len(packed))) {
		return nil, 0, damaged("the skippable frame of its index does not begin where it should")
	}
	if is := sha256.Sum256(packed); !bytes.Equal(is[:], sum) {
		return nil, 0, damaged("the SHA-256 of its index is %x, and should be %x", is, sum)
	}
	return packed, end, nil
}

var errTooMany = errors.New("it has more frames than there is room for")

// parse reads an index. What it may take of memory follows from the size of the frames.
func parse(packed []byte, end int64) (x Index, err error) {
	room := min(mostFrames, end/leastFrame)
	size, ok := frames.Holds(packed)
	if most := min(largestIndex, largestHead+room*largestEntry); !ok || size > uint64(most) {
		return x, damaged("its index has %d bytes when it is unpacked; at most %d", size, most)
	}
	text, err := frames.UnpackWithin(packed, make([]byte, 0, size))
	if err != nil {
		return x, damaged("unpack index: %v", err)
	}
	count := int64(0)
	bounded := json.WithUnmarshalers(json.UnmarshalFromFunc(func(*jsontext.Decoder, *Entry) error {
		if count++; count > room {
			return errTooMany
		}
		return errors.ErrUnsupported // read it as any other
	}))
	if err := json.Unmarshal(text, &x, bounded); err != nil {
		return x, damaged("parse index: %v", err)
	}
	return x, nil
}

// Index is what the pack says of itself; not to be changed.
func (p *Pack) Index() Index { return p.index }

// FrameOf is the first frame that has an identifier or later ones: there, a walk from id on
// begins. ok is false where the pack cannot have the identifier.
func (p *Pack) FrameOf(id string) (n int, ok bool) {
	all := p.index.Frames
	n = sort.Search(len(all), func(i int) bool { return all[i].Last >= id })
	return n, n < len(all) && all[n].First <= id
}
