package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// listpack is one whose entries come in groups of so many.
func (d *decoder) listpack(each int) (list []string, err error) {
	b, err := d.blob()
	if err != nil {
		return nil, err
	}
	p, err := newPack(b)
	if err != nil {
		return nil, err
	}
	for !p.ended() {
		list = append(list, p.next())
	}
	if p.err == nil && len(list)%each != 0 {
		p.err = errPack
	}
	return list, p.err
}

var errPack = errors.New("a listpack cannot be read")

// pack is a listpack that is read entry by entry. After the first error it has ended,
// and gives empty ones.
type pack struct {
	rest []byte
	err  error
}

func newPack(b []byte) (*pack, error) {
	const head, end = 6, 0xff // its length and how many entries it has; the last byte
	if len(b) <= head || int(binary.LittleEndian.Uint32(b)) != len(b) || b[len(b)-1] != end {
		return nil, errPack
	}
	return &pack{rest: b[head : len(b)-1]}, nil
}

func (p *pack) ended() bool { return len(p.rest) == 0 || p.err != nil }

// cut takes the next n bytes.
func (p *pack) cut(n int) []byte {
	if p.err == nil && (n < 0 || n > len(p.rest)) {
		p.err = errPack
	}
	if p.err != nil {
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

// next is an entry; a number as Redis writes it.
func (p *pack) next() (text string) {
	before := len(p.rest)
	first := p.cut(1)
	if p.err != nil {
		return ""
	}
	number := func(b []byte) string {
		if p.err != nil {
			return ""
		}
		return strconv.FormatInt(little(b), 10)
	}
	switch b := first[0]; {
	case b&0x80 == 0:
		text = strconv.Itoa(int(b))
	case b&0xc0 == 0x80:
		text = string(p.cut(int(b & 0x3f)))
	case b&0xe0 == 0xc0:
		if low := p.cut(1); p.err == nil {
			n := int(b&0x1f)<<8 | int(low[0])
			if n >= 1<<12 {
				n -= 1 << 13
			}
			text = strconv.Itoa(n)
		}
	case b&0xf0 == 0xe0:
		if low := p.cut(1); p.err == nil {
			text = string(p.cut(int(b&0x0f)<<8 | int(low[0])))
		}
	case b == 0xf0:
		if size := p.cut(4); p.err == nil {
			text = string(p.cut(int(binary.LittleEndian.Uint32(size))))
		}
	case b == 0xf1:
		text = number(p.cut(2))
	case b == 0xf2:
		text = number(p.cut(3))
	case b == 0xf3:
		text = number(p.cut(4))
	case b == 0xf4:
		text = number(p.cut(8))
	default:
		p.err = errPack
	}
	p.cut(behind(before - len(p.rest)))
	return text
}

// behind is how many bytes stand behind an entry of a size, which say the size to who
// reads backwards.
func behind(size int) int {
	switch {
	case size <= 127:
		return 1
	case size < 1<<14-1:
		return 2
	case size < 1<<21-1:
		return 3
	case size < 1<<28-1:
		return 4
	}
	return 5
}

// number is an entry that is one.
func (p *pack) number() int64 {
	text := p.next()
	n, err := strconv.ParseInt(text, 10, 64)
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("%.20q stands in a listpack instead of a number", text)
	}
	return n
}
