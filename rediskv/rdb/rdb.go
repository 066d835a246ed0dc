// Package rdb is the only one that knows the format in which Redis writes a snapshot of
// itself (RDB), as far as Redis 7 and later write strings, lists, sets, hashes, sorted
// sets and streams. Libraries read older files as well. None was found that keeps the
// order of a stream's fields, compares the checksum of the file, reports each error and
// reads what a node of a Redis 8 cluster writes.
package rdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"strconv"
)

// Type is what a key holds, as TYPE says it.
type Type string

// The types.
const (
	String Type = "string"
	List   Type = "list"
	Set    Type = "set"
	Hash   Type = "hash"
	ZSet   Type = "zset"
	Log    Type = "stream"
)

// Value is a key with what it holds.
type Value struct {
	Database int
	Key      string
	Expires  int64 // Unix milliseconds; 0: never
	Type     Type
	// Items are the string itself, the elements of a list, the members of a set, each
	// field and its value of a hash, or each member and its score of a sorted set.
	Items  []string
	Stream *Stream // of a stream
}

// What stands in front of a value or of something else. Types of values are below 32.
const (
	opSlotInfo  = 244 // of a node of a cluster: slot, keys, and keys that expire
	opFunction  = 245
	opModuleAux = 247
	opIdle      = 248
	opFreq      = 249
	opAux       = 250
	opResize    = 251
	opExpireMs  = 252
	opExpire    = 253
	opDatabase  = 254
	opEnd       = 255
)

// trailer is the checksum behind everything.
const trailer = 8

// ErrSum: the file is not what Redis has written.
var ErrSum = errors.New("rdb: the checksum is another one")

// Read reads a file of a size, value by value. It holds one in memory at a time. A file
// that ends early, or that has another checksum, is an error, but values in front of the
// place have been visited then.
func Read(from io.Reader, size int64, visit func(*Value) error) error {
	body := &summed{from: io.LimitReader(from, size-trailer)}
	d := &decoder{in: bufio.NewReaderSize(body, 1<<18)}
	if err := d.values(visit); err != nil {
		return fmt.Errorf("rdb: %w", unexpected(err))
	}
	if _, err := d.in.ReadByte(); err != io.EOF {
		return errors.New("rdb: something follows its end")
	}
	var sum [trailer]byte
	if _, err := io.ReadFull(from, sum[:]); err != nil {
		return fmt.Errorf("rdb: %w", unexpected(err))
	}
	// 0: the server does not make checksums (rdbchecksum no).
	if want := binary.LittleEndian.Uint64(sum[:]); want != 0 && want != body.sum {
		return ErrSum
	}
	return nil
}

// unexpected is an error where a file does not end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jones is the polynomial of Redis' checksums. Redis begins with 0 and does not turn
// the result over; the library does both.
var jones = crc64.MakeTable(0x95ac9329ac4bc9b5)

func checksum(sum uint64, b []byte) uint64 { return ^crc64.Update(^sum, jones, b) }

type summed struct {
	from io.Reader
	sum  uint64
}

func (s *summed) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	s.sum = checksum(s.sum, b[:n])
	return n, err
}

type decoder struct{ in *bufio.Reader }

func (d *decoder) values(visit func(*Value) error) error {
	if err := d.header(); err != nil {
		return err
	}
	v := &Value{}
	for {
		op, err := d.in.ReadByte()
		if err != nil {
			return err
		}
		if op == opEnd {
			return nil
		}
		if value, err := d.other(op, v); err != nil {
			return err
		} else if !value {
			continue
		}
		if v.Key, err = d.text(); err != nil {
			return err
		}
		if err := d.value(op, v); err != nil {
			return fmt.Errorf("key %.100q: %w", v.Key, err)
		}
		if err := visit(v); err != nil {
			return err
		}
		v = &Value{Database: v.Database}
	}
}

func (d *decoder) header() error {
	b, err := d.bytes(9)
	if err != nil {
		return err
	}
	if _, err := strconv.Atoi(string(b[5:])); string(b[:5]) != "REDIS" || err != nil {
		return errors.New("it is no snapshot of Redis")
	}
	return nil
}

// other reads what is no value, or says that one comes.
func (d *decoder) other(op byte, v *Value) (value bool, err error) {
	switch op {
	case opDatabase:
		n, err := d.length()
		v.Database = int(n)
		return false, err
	case opExpireMs:
		b, err := d.bytes(8)
		if err == nil {
			v.Expires = int64(binary.LittleEndian.Uint64(b))
		}
		return false, err
	case opExpire:
		b, err := d.bytes(4)
		if err == nil {
			v.Expires = int64(binary.LittleEndian.Uint32(b)) * 1000
		}
		return false, err
	case opFreq:
		_, err = d.in.ReadByte()
		return false, err
	case opIdle:
		return false, d.lengths(1)
	case opResize:
		return false, d.lengths(2)
	case opSlotInfo:
		return false, d.lengths(3)
	case opFunction:
		_, err = d.text()
		return false, err
	case opAux:
		if _, err = d.text(); err == nil {
			_, err = d.text()
		}
		return false, err
	case opModuleAux:
		return false, d.module()
	}
	if op >= 32 {
		return false, fmt.Errorf("%d is nothing that this release knows", op)
	}
	return true, nil
}

// module passes by what a module has written beside the keys.
func (d *decoder) module() error {
	const end, signed, unsigned, float, double, text = 0, 1, 2, 3, 4, 5
	if err := d.lengths(1); err != nil { // which module
		return err
	}
	for {
		kind, err := d.length()
		if err != nil {
			return err
		}
		switch kind {
		case end:
			return nil
		case signed, unsigned:
			err = d.lengths(1)
		case float:
			_, err = d.bytes(4)
		case double:
			_, err = d.bytes(8)
		case text:
			_, err = d.text()
		default:
			err = fmt.Errorf("%d is nothing that a module writes", kind)
		}
		if err != nil {
			return err
		}
	}
}
