package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var errTruncated = errors.New("the module ends too early")

// cursor reads the parts of a module. The first fault stays; from then on all
// reads return zero, so that loops over a count must look at err.
type cursor struct {
	b     []byte
	pos   int
	err   error
	jumps int   // in the instructions that were passed over
	value int64 // of the last instruction that has one
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *cursor) left() int { return len(c.b) - c.pos }

func (c *cursor) u8() byte {
	if c.err != nil || c.left() < 1 {
		c.fail("%w", errTruncated)
		return 0
	}
	c.pos++
	return c.b[c.pos-1]
}

// u32 reads an unsigned LEB128 number of at most 5 bytes.
func (c *cursor) u32() uint32 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.b[c.pos:])
	if n == 0 {
		c.fail("%w", errTruncated)
		return 0
	}
	if n < 0 || n > 5 || v > math.MaxUint32 {
		c.fail("a 32-bit number has a wrong form")
		return 0
	}
	c.pos += n
	return uint32(v)
}

// count is u32 with a limit.
func (c *cursor) count(what string, limit int) int {
	n := c.u32()
	if uint64(n) > uint64(limit) {
		c.fail("%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	return int(n)
}

// signed reads a signed LEB128 number of at most n bytes. wazero checks its
// unused bits.
func (c *cursor) signed(n int) (v int64) {
	for i := range n {
		b := c.u8()
		v |= int64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if shift := 7 * (i + 1); shift < 64 && b&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
	c.fail("a signed number is too long")
	return 0
}

func (c *cursor) bytes(n int) []byte {
	if c.err != nil || n < 0 || n > c.left() {
		c.fail("%w", errTruncated)
		return nil
	}
	c.pos += n
	return c.b[c.pos-n : c.pos]
}

// appendSigned appends n in signed LEB128. Unsigned LEB128 is
// binary.AppendUvarint.
func appendSigned(b []byte, n int64) []byte {
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if (n == 0 && low&0x40 == 0) || (n == -1 && low&0x40 != 0) {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func appendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
