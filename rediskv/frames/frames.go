// Package frames compresses what is kept for long, as zstd frames (RFC 8878) that each
// stand for themselves and have a checksum of their content.
package frames

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// largest bounds what a frame can unpack to: far above any that was packed.
const largest = 16 << 20

// packing is used by all. It is made by a function: a variable that is one keeps the
// encoder in programs that only read, and at the edge half a megabyte counts.
var packing struct {
	once    sync.Once
	encoder *zstd.Encoder
}

func packer() *zstd.Encoder {
	packing.once.Do(func() {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
			zstd.WithWindowSize(1<<19), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // only for options that exclude each other
		}
		packing.encoder = e
	})
	return packing.encoder
}

// dense is used by all that write files, one after the other.
var dense struct {
	once    sync.Once
	encoder *zstd.Encoder
}

// unpacker is used by all, as packing is.
var unpacker = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(largest))
	if err != nil {
		panic(err)
	}
	return d
})

// Pack makes a frame. It may be called by several at once.
func Pack(raw []byte) []byte { return packer().EncodeAll(raw, nil) }

// Dense appends a frame that holds raw to a slice, which may be nil. It is smaller than
// Pack's and takes longer. The frame's header says how much it holds. Several may call it
// at once, but it serves one at a time: it takes one core and 6 MB, however many archive.
func Dense(raw, to []byte) []byte {
	dense.once.Do(func() {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(1<<20), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err)
		}
		dense.encoder = e
	})
	return dense.encoder.EncodeAll(raw, to)
}

// bounded is used by all that read files: it unpacks no more than there is room for.
var bounded struct {
	once    sync.Once
	decoder *zstd.Decoder
}

// UnpackWithin appends what a frame holds to a slice, within its capacity. A frame that
// holds more is an error, as is what Unpack refuses.
func UnpackWithin(frame, to []byte) ([]byte, error) {
	bounded.once.Do(func() {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err)
		}
		bounded.decoder = d
	})
	return bounded.decoder.DecodeAll(frame, to)
}

// Holds is how many bytes a frame says that it holds. ok is false where it does not say.
func Holds(frame []byte) (size uint64, ok bool) {
	var h zstd.Header
	err := h.Decode(frame[:min(len(frame), zstd.HeaderMaxSize)])
	return h.FrameContentSize, err == nil && h.HasFCS
}

// Unpack appends what a frame holds to a slice, which may be nil. The error says that it is
// no frame, or not what was packed. It may be called by several at once.
func Unpack(frame, to []byte) ([]byte, error) { return unpacker().DecodeAll(frame, to) }
