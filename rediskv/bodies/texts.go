package bodies

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// PackedTexts is the form of what PackTexts writes, its first byte.
const PackedTexts = 1

// The kinds of a text in PackTexts, its three lowest bits: those of a packed text, and a
// number; an identifier without its prefix; a date. Hex digits are an even number here.
const (
	inDecimal = word + 1 + iota
	identifier
	date
)

// PackTexts appends texts, each of which stands once: numbers, identifiers, dates and hex
// digits in binary.
func PackTexts(b []byte, texts []string) []byte {
	var seen [16]string
	p := packing{out: append(b, PackedTexts), writes: true, seen: seen[:0]}
	p.number(uint64(len(texts)))
	for _, s := range texts {
		p.writeShort(s)
	}
	return p.out
}

// UnpackTexts reads what PackTexts has written.
func UnpackTexts(b string) (texts []string, err error) {
	if len(b) == 0 || b[0] != PackedTexts {
		return nil, errPacked
	}
	var seen [16]string
	p := packing{in: b[1:], seen: seen[:0]}
	texts = make([]string, p.count(0))
	for i := range texts {
		texts[i] = p.readShort()
	}
	if len(p.in) > 0 {
		return nil, errPacked
	}
	return texts, p.err
}

func (p *packing) short(n, kind int) { p.number(uint64(n)<<3 | uint64(kind)) }

func (p *packing) writeShort(s string) {
	for i, one := range p.seen {
		if one == s {
			p.short(i, before)
			return
		}
	}
	for i, w := range words {
		if rest, ok := strings.CutPrefix(s, w); ok && (rest == "" || inFront(w)) {
			p.short(i, word)
			if inFront(w) {
				p.writeShort(rest)
			}
			return
		}
	}
	p.seen = append(p.seen, s)
	if n, is := numberIn(s); is {
		p.short(0, inDecimal)
		p.number(n)
	} else if n, is := dateIn(s); is {
		p.short(0, date)
		p.number(n)
	} else if high, low, is := identifierIn(s); is {
		p.short(0, identifier)
		p.out = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(p.out, high), low)
	} else if len(s)%2 == 0 && len(s) > 2 && strings.Trim(s, "0123456789abcdef") == "" {
		p.short(len(s)/2, inHex)
		p.out, _ = hex.AppendDecode(p.out, []byte(s))
	} else {
		p.short(len(s), plain)
		p.out = append(p.out, s...)
	}
}

func (p *packing) readShort() (s string) {
	head := p.number(0)
	n, kind := head>>3, head&7
	switch sized := kind == plain || kind == inHex; {
	case kind == before:
		if i := p.below(n, len(p.seen)); p.err == nil {
			return p.seen[i]
		}
		return ""
	case kind == word:
		w := words[p.below(n, len(words))]
		if inFront(w) && p.err == nil {
			return w + p.readShort()
		}
		return w
	case sized != (n > 0): // a text has one form
		p.in, p.err = "", errPacked
		return ""
	}
	switch kind {
	case inDecimal:
		s = strconv.FormatUint(p.number(0), 10)
	case date:
		if s = strconv.FormatUint(p.number(0), 10); len(s) != len("20261128") {
			p.in, p.err = "", errPacked
			return ""
		}
		s = s[:4] + "-" + s[4:6] + "-" + s[6:]
	case identifier:
		b := []byte(p.bytes(16))
		if p.err != nil {
			return ""
		}
		s = identifierOf(binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]))
	case inHex:
		s = hex.EncodeToString([]byte(p.bytes(n)))
	case plain:
		s = p.bytes(n)
	default:
		p.in, p.err = "", errPacked
	}
	p.seen = append(p.seen, s)
	return s
}

// bytes takes the next ones.
func (p *packing) bytes(n uint64) (s string) {
	if n > uint64(len(p.in)) {
		p.in, p.err = "", errPacked
		return ""
	}
	s, p.in = p.in[:n], p.in[n:]
	return s
}

// numberIn reads a number of up to 18 digits, as it is printed.
func numberIn(s string) (n uint64, is bool) {
	if s == "" || len(s) > 18 || s[0] == '0' && s != "0" {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, true
}

// dateIn makes a number of the digits of a date, YYYY-MM-DD.
func dateIn(s string) (n uint64, is bool) {
	if len(s) != len("2026-11-28") || s[4] != '-' || s[7] != '-' {
		return 0, false
	}
	for i := range len(s) {
		switch digit := s[i]; {
		case i == 4 || i == 7:
		case digit < '0' || digit > '9':
			return 0, false
		default:
			n = n*10 + uint64(digit-'0')
		}
	}
	return n, n >= 1000_00_00
}

// base32 are the digits of identifiers (ULID).
const base32 = "0123456789abcdefghjkmnpqrstvwxyz"

// identifierIn is the number, of 128 bits, that an identifier is without its prefix.
func identifierIn(s string) (high, low uint64, is bool) {
	if len(s) != 26 || s[0] > '7' {
		return 0, 0, false
	}
	for i := range len(s) {
		digit := strings.IndexByte(base32, s[i])
		if digit < 0 {
			return 0, 0, false
		}
		high, low = high<<5|low>>59, low<<5|uint64(digit)
	}
	return high, low, true
}

func identifierOf(high, low uint64) string {
	var s [26]byte
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = base32[low&31]
		high, low = high>>5, low>>5|high<<59
	}
	return string(s[:])
}
