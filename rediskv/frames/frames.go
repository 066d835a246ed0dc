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

// Unpack appends what a frame holds to a slice, which may be nil. The error says that it is
// no frame, or not what was packed. It may be called by several at once.
func Unpack(frame, to []byte) ([]byte, error) { return unpacker().DecodeAll(frame, to) }
