package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// longest is Redis' own bound of a string.
const longest = 512 << 20

// bytes are the next n.
func (d *decoder) bytes(n uint64) ([]byte, error) {
	if n > longest {
		return nil, fmt.Errorf("a string of %d bytes", n)
	}
	// A wrong length must not take memory that the file has nothing for.
	const step = 1 << 20
	b := make([]byte, min(n, step))
	for have := uint64(0); ; {
		if _, err := io.ReadFull(d.in, b[have:]); err != nil {
			return nil, unexpected(err)
		}
		if have = uint64(len(b)); have == n {
			return b, nil
		}
		b = append(b, make([]byte, min(n-have, have))...)
	}
}

// How a length begins, in its first two bits.
const (
	bits6   = 0
	bits14  = 1
	longer  = 2
	special = 3 // it is no length: the rest says how a string is written
)

// head is a length, or how a string is written.
func (d *decoder) head() (n uint64, is bool, err error) {
	first, err := d.in.ReadByte()
	if err != nil {
		return 0, false, err
	}
	switch first >> 6 {
	case bits6:
		return uint64(first & 0x3f), false, nil
	case bits14:
		next, err := d.in.ReadByte()
		return uint64(first&0x3f)<<8 | uint64(next), false, err
	case special:
		return uint64(first & 0x3f), true, nil
	}
	switch first {
	case longer << 6:
		b, err := d.bytes(4)
		if err != nil {
			return 0, false, err
		}
		return uint64(binary.BigEndian.Uint32(b)), false, nil
	case longer<<6 | 1:
		b, err := d.bytes(8)
		if err != nil {
			return 0, false, err
		}
		return binary.BigEndian.Uint64(b), false, nil
	}
	return 0, false, fmt.Errorf("%d is no length", first)
}

func (d *decoder) length() (uint64, error) {
	n, is, err := d.head()
	if is {
		return 0, errors.New("there is no length where one has to be")
	}
	return n, err
}

// lengths passes so many by.
func (d *decoder) lengths(n int) error {
	for range n {
		if _, err := d.length(); err != nil {
			return err
		}
	}
	return nil
}

// text is a string.
func (d *decoder) text() (string, error) {
	b, err := d.blob()
	return string(b), err
}

func (d *decoder) blob() ([]byte, error) {
	const int8s, int16s, int32s, compressed = 0, 1, 2, 3
	n, is, err := d.head()
	if err != nil {
		return nil, err
	}
	if !is {
		return d.bytes(n)
	}
	size := uint64(1)
	switch n {
	case int8s:
	case int16s:
		size = 2
	case int32s:
		size = 4
	case compressed:
		return d.unpacked()
	default:
		return nil, fmt.Errorf("%d is no way to write a string", n)
	}
	b, err := d.bytes(size)
	if err != nil {
		return nil, err
	}
	return strconv.AppendInt(nil, little(b), 10), nil
}

// little is a number, lowest byte first, its sign in the highest.
func little(b []byte) int64 {
	var n uint64
	for i, one := range b {
		n |= uint64(one) << (8 * i)
	}
	shift := 64 - 8*len(b)
	return int64(n<<shift) >> shift
}

// unpacked is a string that was compressed (LZF).
func (d *decoder) unpacked() ([]byte, error) {
	packed, err := d.length()
	if err != nil {
		return nil, err
	}
	size, err := d.length()
	if err != nil {
		return nil, err
	}
	in, err := d.bytes(packed)
	if err != nil {
		return nil, err
	}
	// It gets no longer than 264 bytes for 3.
	if size > longest || size > 88*(packed+1) {
		return nil, fmt.Errorf("a string of %d bytes, compressed to %d", size, packed)
	}
	return unpack(in, int(size))
}

var errPacked = errors.New("a compressed string cannot be unpacked")

// unpack undoes LZF: runs of bytes as they are, and of bytes as they were before.
func unpack(in []byte, size int) ([]byte, error) {
	out := make([]byte, 0, size)
	for i := 0; i < len(in); {
		head := int(in[i])
		i++
		if head < 32 {
			if i+head+1 > len(in) {
				return nil, errPacked
			}
			out = append(out, in[i:i+head+1]...)
			i += head + 1
			continue
		}
		n := head >> 5
		if n == 7 {
			if i >= len(in) {
				return nil, errPacked
			}
			n += int(in[i])
			i++
		}
		if i >= len(in) {
			return nil, errPacked
		}
		at := len(out) - (head&31)<<8 - int(in[i]) - 1
		i++
		if at < 0 {
			return nil, errPacked
		}
		for range n + 2 { // what is copied may be what was just copied
			out = append(out, out[at])
			at++
		}
	}
	if len(out) != size {
		return nil, errPacked
	}
	return out, nil
}
