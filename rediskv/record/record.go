// Package record says what a stored record is written with: its format, and a
// checksum by which a damaged one is known.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"
)

// Every record names its format in an envelope: "format", "format;codec" or
// "format;codec;checksum". There is one format. The codec is empty, or says how the record
// is kept (request.go, text.go). A record of before has no checksum, or no envelope at
// all: it is read as it is, and gains both when it is next written. Another format or
// codec was written by a release that this one does not know: it is damage, and nothing
// is read of it.
//
// Where the envelope is:
//
//	hash, entry of a log          the field Field
//	JSON text of its own          the first member, "$"
//	packed object of its own      in front, with a slash
//	record of a request           before its first line, with a slash
//
// What is no record has none: indexes, counters, queues, marks, locks, and what
// carries its own sum (WebAssembly modules, export files). without, in
// rediskv/without_test.go, has each such key and the reason.
//
// The checksum is CRC-32C: hardware computes it, and it finds every damage of up to
// 32 bits in a row. It covers the key, so that a record that stands in another's
// place is found, and what Go wrote. What scripts write, such as a position or a
// state that they move along, is in Scripts of each Kind and not covered.
const (
	Format = "1"
	Field  = "e"

	begin  = Format + ";;" // what comes before a checksum
	digits = 8             // of the checksum
)

// wrong stands in Field of a hash whose checksum is not that of its fields, and Wrong does
// so for records that cannot be read at all.
const wrong = "checksum"

// Wrong is what Verified says of damage.
const Wrong = wrong

var (
	errSum  = errors.New("its checksum is not that of what is stored")
	errName = errors.New("its envelope stands where none is")
	errEnd  = errors.New("its envelope does not end")
)

// Check reports a format that this release does not know, or a hash that did not pass
// Verified.
func Check(envelope string) error {
	if envelope == "" || envelope == Format {
		return nil
	}
	if envelope == wrong {
		return errSum
	}
	_, err := sumIn(envelope)
	return err
}

// Summed reports whether an envelope has a checksum: what is not there was not written.
func Summed(envelope string) bool { return strings.HasPrefix(envelope, begin) }

// sumIn is the checksum of an envelope with what stands behind it, empty where there
// is none.
func sumIn(envelope string) (sum string, err error) {
	format, rest, _ := strings.Cut(envelope, ";")
	codec, sum, _ := strings.Cut(rest, ";")
	if format != Format || codec != "" || sum != "" && len(sum) < digits || strings.Trim(sum, "0123456789abcdef") != "" {
		return "", fmt.Errorf("its format %q is not known", envelope)
	}
	return sum, nil
}

// stray reports an envelope with a checksum under another name than its own: that
// name is damaged, and the record is none of before.
func stray(text string) bool { return strings.HasPrefix(text, begin) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summer collects what a checksum covers.
type summer []byte

var summers = sync.Pool{New: func() any { s := make(summer, 0, 4096); return &s }}

// sum is the checksum of a key and of what add adds.
func sum(key string, add func(*summer)) uint32 {
	s, _ := summers.Get().(*summer)
	*s = append((*s)[:0], key...)
	add(s)
	n := crc32.Checksum(*s, castagnoli)
	summers.Put(s)
	return n
}

// is compares a checksum with one in hex.
func is(n uint32, hex string) bool {
	b := hexOf(n)
	return string(b[:]) == hex
}

// enveloped is an envelope with a checksum; then stands behind it.
func enveloped(n uint32, then int64) string {
	b := hexOf(n)
	text := append(append(make([]byte, 0, 40), begin...), b[:]...)
	if then >= 0 {
		text = strconv.AppendInt(text, then, 16)
	}
	return string(text)
}

// text adds a value that could be mistaken for nothing around it.
func (s *summer) text(value string) {
	*s = binary.AppendUvarint(*s, uint64(len(value)))
	*s = append(*s, value...)
}

func (s *summer) bytes(value []byte) {
	*s = binary.AppendUvarint(*s, uint64(len(value)))
	*s = append(*s, value...)
}

// field adds a field of a hash; one that is empty is as one that is not there.
func (s *summer) field(name, value string) {
	if value != "" {
		s.text(name)
		s.text(value)
	}
}

// Sum is the checksum of some bytes, in hex.
func Sum(text []byte) string {
	b := hexOf(crc32.Checksum(text, castagnoli))
	return string(b[:])
}

func hexOf(n uint32) (b [digits]byte) {
	const hex = "0123456789abcdef"
	for i := range b {
		b[digits-1-i] = hex[n&15]
		n >>= 4
	}
	return b
}

// number is what stands behind a checksum: a number, 0 for none. There it is in hex.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// decimal reads a number that stands behind a checksum.
func decimal(hex string) string {
	n, err := strconv.ParseInt(hex, 16, 64)
	if err != nil || n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
