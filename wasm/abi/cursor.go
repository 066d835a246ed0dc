package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var errTruncated = errors.New("the module ends too early")

// Cursor reads the parts of a module. The first fault stays; from then on all
// reads return zero, so that loops over a count must look at Err.
type Cursor struct {
	B     []byte
	Pos   int
	Err   error
	jumps int   // in the instructions that were passed over
	value int64 // of the last instruction that has one
}

func (c *Cursor) fail(format string, args ...any) {
	if c.Err == nil {
		c.Err = fmt.Errorf(format, args...)
	}
}

// Left is how many bytes are still to be read.
func (c *Cursor) Left() int { return len(c.B) - c.Pos }

// U8 reads a byte.
func (c *Cursor) U8() byte {
	if c.Err != nil || c.Left() < 1 {
		c.fail("%w", errTruncated)
		return 0
	}
	c.Pos++
	return c.B[c.Pos-1]
}

// U32 reads an unsigned LEB128 number of at most 5 bytes.
func (c *Cursor) U32() uint32 {
	if c.Err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.B[c.Pos:])
	if n == 0 {
		c.fail("%w", errTruncated)
		return 0
	}
	if n < 0 || n > 5 || v > math.MaxUint32 {
		c.fail("a 32-bit number has a wrong form")
		return 0
	}
	c.Pos += n
	return uint32(v)
}

// count is u32 with a limit.
func (c *Cursor) count(what string, limit int) int {
	n := c.U32()
	if uint64(n) > uint64(limit) {
		c.fail("%d %s, at most %d are allowed", n, what, limit)
		return 0
	}
	return int(n)
}

// signed reads a signed LEB128 number of at most n bytes. wazero checks its
// unused bits.
func (c *Cursor) signed(n int) (v int64) {
	for i := range n {
		b := c.U8()
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

// Bytes reads the next n bytes, which stay the module's.
func (c *Cursor) Bytes(n int) []byte {
	if c.Err != nil || n < 0 || n > c.Left() {
		c.fail("%w", errTruncated)
		return nil
	}
	c.Pos += n
	return c.B[c.Pos-n : c.Pos]
}

// AppendSigned appends n in signed LEB128. Unsigned LEB128 is
// binary.AppendUvarint.
func AppendSigned(b []byte, n int64) []byte {
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if (n == 0 && low&0x40 == 0) || (n == -1 && low&0x40 != 0) {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

// AppendBytes appends a text with its length in front.
func AppendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
