package bodies

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// timeFormat is how HTTP has times (http.TimeFormat).
const timeFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

// PackedTexts is the form of what PackTexts writes, its first byte, and PackedBehind that of
// texts behind others, which are known to who reads them.
const (
	PackedTexts  = 2
	PackedBehind = 3
)

// The kinds of a text in PackTexts, its three lowest bits: those of a packed text, and a
// number; an identifier without its prefix; a date. Hex digits are an even number here.
// From form 2 on also what has one of shapes, and numbers and identifiers whose time is near
// the one before, or that share what is known.
const (
	inDecimal = word + 1 + iota
	identifier
	date
	shaped
)

// The shapes of a text: an entry's place in a log, a time as HTTP has it, milliseconds near
// the time before, a place near it, a date near it, and the digest of an evaluation's lines,
// of which nothing stands there: it is computed (packing.digest).
const (
	place = iota
	httpTime
	since
	placeSince
	daySince
	ofLines
)

// How an identifier stands: whole; its time as what has passed since the one before; that
// and its number alone, as one of the known payment.
const (
	whole = iota
	near
	kin
)

// PackTexts appends texts, each of which stands once: numbers, identifiers, dates and hex
// digits in binary.
// known is what the identifiers of a payment share, or empty. first are texts in front of
// these, as it were: what they repeat of those takes a byte.
func PackTexts(b []byte, texts []string, known string, first ...string) []byte {
	if len(first) > 0 {
		return packTexts(b, texts, PackedBehind, known, first)
	}
	return packTexts(b, texts, PackedTexts, known, nil)
}

// PackTextsPlainly is PackTexts in the form of before, which earlier builds read.
func PackTextsPlainly(b []byte, texts []string) []byte {
	return packTexts(b, texts, plainTexts, "", nil)
}

func packTexts(b []byte, texts []string, form int, known string, first []string) []byte {
	var seen [24]string
	p := packing{out: append(b, byte(form)), writes: true, form: form, dense: form >= PackedTexts, seen: seen[:0]}
	p.know(known)
	p.follow(first)
	p.number(uint64(len(texts)))
	for _, s := range texts {
		p.writeShort(s)
	}
	return p.out
}

// UnpackTexts reads what PackTexts or PackTextsPlainly has written.
func UnpackTexts(b, known string, first ...string) (texts []string, err error) {
	if len(b) == 0 || b[0] == 0 || b[0] > PackedBehind || b[0] == PackedBehind && len(first) == 0 {
		return nil, errPacked
	}
	var seen [24]string
	p := packing{in: b[1:], form: int(b[0]), dense: b[0] >= PackedTexts, seen: seen[:0]}
	p.know(known)
	if p.form == PackedBehind {
		p.follow(first)
	}
	texts = make([]string, p.count(0))
	for i := range texts {
		texts[i] = p.readShort()
	}
	if len(p.in) > 0 {
		return nil, errPacked
	}
	return texts, p.err
}

// follow takes texts for the ones before: identifiers without their prefix, as these stand.
func (p *packing) follow(first []string) {
	for _, s := range first {
		if s == "" {
			continue
		}
		if at := len(s) - 26; at > 0 && s[at-1] == '_' {
			if _, _, is := identifierIn(s[at:]); is {
				s = s[at:]
			}
		}
		if p.seen = append(p.seen, s); len(s) == timeDigits {
			if n, is := numberIn(s); is {
				p.beginAt(s, n)
			}
		}
	}
}

func (p *packing) short(n, kind int) { p.number(uint64(n)<<3 | uint64(kind)) }

func (p *packing) writeShort(s string) {
	for i, one := range p.seen {
		if one == s {
			p.short(i, before)
			return
		}
	}
	if n, rest, is := wordIn(s, p.dense); is {
		if p.short(n, word); inFront(wordsIn(p.dense)[n]) {
			p.writeShort(rest)
		}
		return
	}
	p.seen = append(p.seen, s)
	if p.evaluation != nil && s == p.digest() {
		p.short(ofLines, shaped)
	} else if n, is := numberIn(s); is && p.isNear(n) {
		p.short(since, shaped)
		p.pass(n)
	} else if is {
		p.short(0, inDecimal)
		p.number(n)
		p.beginAt(s, n)
	} else if n, is := dateIn(s); is {
		if day, is := p.daysTo(n); is {
			p.short(daySince, shaped)
			p.signed(day)
			return
		}
		p.short(0, date)
		p.number(n)
	} else if high, low, is := identifierIn(s); is {
		p.writeIdentifier(high, low)
	} else if milli, n, is := placeIn(s); is && p.isNear(milli) {
		p.short(placeSince, shaped)
		p.pass(milli)
		p.number(n)
	} else if is && p.dense {
		p.short(place, shaped)
		p.number(milli)
		p.number(n)
	} else if n, is := httpTimeIn(s); is && p.dense {
		p.short(httpTime, shaped)
		p.number(n)
	} else if len(s)%2 == 0 && len(s) > 2 && strings.Trim(s, "0123456789abcdef") == "" {
		p.short(len(s)/2, inHex)
		p.out, _ = hex.AppendDecode(p.out, []byte(s))
	} else {
		if !utf8.ValidString(s) {
			p.err = errText
		}
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
		w := wordsIn(p.dense)[p.below(n, len(wordsIn(p.dense)))]
		if inFront(w) && p.err == nil {
			return w + p.readShort()
		}
		return w
	case kind == shaped:
		s = p.shaped(n)
		p.seen = append(p.seen, s)
		return s
	case kind == identifier && p.dense:
		s = p.readIdentifier(n)
		p.seen = append(p.seen, s)
		return s
	case sized != (n > 0): // a text has one form
		return p.refuse()
	}
	switch kind {
	case inDecimal:
		n := p.number(0)
		s = strconv.FormatUint(n, 10)
		p.beginAt(s, n)
	case date:
		if s = strconv.FormatUint(p.number(0), 10); len(s) != len("20261128") {
			return p.refuse()
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
		p.refuse()
	}
	p.seen = append(p.seen, s)
	return s
}

// shaped reads a text that has a shape.
func (p *packing) shaped(shape uint64) (s string) {
	if shape == ofLines && p.evaluation != nil {
		return p.digest()
	}
	if shape == since || shape == placeSince {
		n := p.pass(0)
		if s = strconv.FormatUint(n, 10); shape == placeSince {
			s += "-" + strconv.FormatUint(p.number(0), 10)
		}
		if _, _, is := placeIn(s); p.isNear(n) && is == (shape == placeSince) {
			return s
		}
		return p.refuse()
	}
	if shape == daySince && p.dense {
		day := p.signed(0)
		if p.at <= 0 || day < -mostDays || day > mostDays {
			return p.refuse()
		}
		s = time.UnixMilli(p.at + day*perDay).UTC().Format(time.DateOnly)
		if n, is := dateIn(s); is {
			if again, is := p.daysTo(n); is && again == day {
				return s
			}
		}
		return p.refuse()
	}
	switch n := p.number(0); {
	case !p.dense:
	case shape == place:
		s = strconv.FormatUint(n, 10) + "-" + strconv.FormatUint(p.number(0), 10)
		if _, _, is := placeIn(s); is {
			return s
		}
	case shape == httpTime && n < endOfTime:
		return time.Unix(int64(n), 0).UTC().Format(timeFormat)
	}
	return p.refuse()
}

// within is how many milliseconds times that are near each other may be apart: a hundred
// days; and mostDays how far a date may be from such a time. Farther ones take up as much
// by themselves.
const (
	within   = 1 << 33
	mostDays = 1 << 12
	perDay   = 24 * 60 * 60 * 1000
)

// daysTo is how many days a date, in digits, is behind that of the time before; false where it is
// far away, or no date of the calendar.
func (p *packing) daysTo(date uint64) (days int64, is bool) {
	if !p.dense || p.at <= within {
		return 0, false
	}
	y, m, d := int(date/100_00), time.Month(date/100%100), int(date%100)
	t := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	days = t.UnixMilli()/perDay - p.at/perDay
	return days, t.UnixMilli() > 0 && t.Month() == m && t.Day() == d && days >= -mostDays && days <= mostDays
}

// isNear reports whether a number can be a time near the one before.
func (p *packing) isNear(n uint64) bool {
	since := int64(n) - p.at
	return p.dense && p.at > within && n < 1<<48 && since > -within && since < within
}

// pass writes a time that is near the one before, or reads one.
func (p *packing) pass(at uint64) uint64 { return uint64(p.at + p.signed(int64(at)-p.at)) }

func (p *packing) writeIdentifier(high, low uint64) {
	switch at := high >> 16; {
	case p.isNear(at) && p.kin && high&0xffff == p.kinHigh && low&^number == p.kinLow:
		p.short(kin, identifier)
		p.pass(at)
		p.number(low & number)
	case p.isNear(at):
		p.short(near, identifier)
		p.pass(at)
		p.out = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(p.out, uint16(high)), low)
	default:
		p.short(whole, identifier)
		p.out = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(p.out, high), low)
	}
	p.begin(high)
}

// beginAt takes a number for the time that others are near, if it looks like one, and begin
// the first time there is.
func (p *packing) beginAt(s string, n uint64) {
	if len(s) == timeDigits {
		p.begin(n << 16)
	}
}

func (p *packing) begin(high uint64) {
	if p.dense && p.at == 0 {
		p.at = int64(high >> 16)
	}
}

func (p *packing) readIdentifier(how uint64) string {
	var high, low uint64
	switch {
	case how == whole:
		b := []byte(p.bytes(16))
		if p.err != nil {
			return ""
		}
		if high, low = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]); p.isNear(high >> 16) {
			p.refuse() // a text has one form
		}
		p.begin(high)
		return identifierOf(high, low)
	case how > kin || p.at == 0 || how == kin && !p.kin:
		return p.refuse()
	}
	at := p.pass(0)
	if !p.isNear(at) {
		return p.refuse()
	}
	if how == kin {
		return identifierOf(at<<16|p.kinHigh, p.kinLow|p.number(0)&number)
	}
	b := []byte(p.bytes(10))
	if p.err != nil {
		return ""
	}
	return identifierOf(at<<16|uint64(binary.BigEndian.Uint16(b)), binary.BigEndian.Uint64(b[2:]))
}

// refuse ends reading. It is one place, so that the program is smaller.
//
//go:noinline
func (p *packing) refuse() string {
	p.in, p.err = "", errPacked
	return ""
}

// endOfTime is the end of the year 9999.
const endOfTime = 253_402_300_800

// timeDigits are those of a time.
const timeDigits = len("1795914453694")

// placeIn reads the place of an entry in a log: milliseconds, and a number.
func placeIn(s string) (milli, n uint64, is bool) {
	if len(s) < len("1795914453694-0") || s[13] != '-' {
		return 0, 0, false
	}
	milli, is = numberIn(s[:13])
	if is {
		n, is = numberIn(s[14:])
	}
	return milli, n, is
}

// httpTimeIn is the seconds of a time as HTTP has it.
func httpTimeIn(s string) (n uint64, is bool) {
	if len(s) != len(timeFormat) || s[3] != ',' || s[26:] != "GMT" {
		return 0, false
	}
	at, err := time.Parse(timeFormat, s)
	if err != nil || at.Unix() < 0 || at.Unix() >= endOfTime || at.UTC().Format(timeFormat) != s {
		return 0, false
	}
	return uint64(at.Unix()), true
}

// bytes takes the next ones.
func (p *packing) bytes(n uint64) (s string) {
	if n > uint64(len(p.in)) {
		return p.refuse()
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

// Identifiers are identifiers, ten bytes of each: how it stands in what is packed, behind its
// prefix and its time. Of a text of another form there is nothing.
func Identifiers(ids ...string) string {
	var b [32]byte
	all := b[:0]
	for _, id := range ids {
		if high, low, is := identifierIn(id[strings.LastIndexByte(id, '_')+1:]); is {
			all = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(all, uint16(high)), low)
		}
	}
	return string(all)
}

// AppendIdentifier appends an identifier without prefix in 16 bytes; nothing of a text of
// another form.
func AppendIdentifier(b []byte, s string) []byte {
	high, low, is := identifierIn(s)
	if !is {
		return b
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, high), low)
}

// IdentifierOf reads what AppendIdentifier has appended.
func IdentifierOf(b string) string {
	return identifierOf(binary.BigEndian.Uint64([]byte(b)), binary.BigEndian.Uint64([]byte(b[8:])))
}

func identifierOf(high, low uint64) string {
	var s [26]byte
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = base32[low&31]
		high, low = high>>5, low>>5|high<<59
	}
	return string(s[:])
}
