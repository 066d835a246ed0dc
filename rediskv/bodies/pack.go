package bodies

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"tollgate"
)

// Packed is the form of what Pack writes, its first byte. A field that a packed type gets
// has the tag pack:"n" with the next number: what was packed before is read without it.
// Fields are neither taken away nor moved (TestPackedAsThen).
const Packed = 3

// plainTexts is the form of packed texts that has identifiers, numbers and dates as they are, as
// the forms of objects before Packed have them.
const plainTexts = 1

// words are what packed texts are made of: whole, or in front of another text if they end
// with "_". These are of the forms before those that are dense.
var words = [...]string{
	"", "ticket", "capture", "refund", "succeeded", "allow", "review", "authorization", "EUR", "USD", "GBP", "CHF", "JPY",
	"tkt_", "pay_", "ma_", "per_", "evt_", "txn_", "cap_", "rfd_", "le_", "org_",
	"attempt", "schedule", "failed", "standard", "content-type", "dlv_", "att_", "rpl_",
}

// denseWords are those of the dense forms. The first sixteen take up one byte: most of what a
// captured payment has. More go to the end, with the next form.
var denseWords = [...]string{
	"", "ticket", "capture", "succeeded", "allow", "authorization", "EUR", "USD", "tkt_", "pay_", "ma_", "evt_", "per_", "txn_", "captured", "fee",
	"refund", "review", "GBP", "CHF", "JPY", "cap_", "rfd_", "le_", "org_",
	"attempt", "schedule", "failed", "standard", "content-type", "dlv_", "att_", "rpl_",
	"payment.captured", "payment.authorized", "we_", "v1", "Content-Length", "Content-Type", "Date",
	"text/plain; charset=utf-8", "application/json", "authorized", "manual", "automatic",
}

// wordsIn are those that a form has, one that is dense or one of before.
func wordsIn(dense bool) []string {
	if dense {
		return denseWords[:]
	}
	return words[:]
}

func inFront(word string) bool { return strings.HasSuffix(word, "_") }

// begun are the words that begin with a byte, by their numbers: those of the forms of before,
// and those of the dense ones.
var begun = func() (by [2][256][]uint8) {
	for form := range by {
		for i, w := range wordsIn(form == 1) {
			if w != "" {
				by[form][w[0]] = append(by[form][w[0]], uint8(i))
			}
		}
	}
	return by
}()

// wordIn is the first word of a form that a text is, or that stands in front of it.
func wordIn(s string, dense bool) (n int, rest string, is bool) {
	if s == "" {
		return 0, "", true
	}
	for _, n := range begun[flag(dense)][s[0]] {
		w := wordsIn(dense)[n]
		if rest, is = strings.CutPrefix(s, w); is && (rest == "" || inFront(w)) {
			return int(n), rest, true
		}
	}
	return 0, "", false
}

// The kinds of a packed text, its two lowest bits: one that stood before, by its number; as
// many bytes, as they are; as many bytes, for a text in hex; one of words.
const (
	before = iota
	plain
	inHex
	word
)

// Pack appends an object of which every text stands once, and no names: a ticket has a
// quarter of its JSON. v is a *Ticket, *Capture, *Refund or *Attempt. known is what an
// identifier that is kept beside it has behind its prefix: the object says it again, and
// its times are not far from that one's. The error is one of text that is not UTF-8.
func Pack(b []byte, v any, known string) ([]byte, error) {
	p := packing{out: append(b, Packed), writes: true, form: Packed, dense: true, seen: make([]string, 0, 32)}
	p.ticket, _ = v.(*tollgate.Ticket)
	p.know(known)
	p.value(reflect.ValueOf(v).Elem())
	return p.out, p.err
}

// PackPlainly is Pack in the first form of before that has all fields of an object that say
// something: earlier builds read what they know.
func PackPlainly(b []byte, v any) ([]byte, error) {
	of := reflect.ValueOf(v).Elem()
	form := 1
	for _, f := range packedFields(of.Type()) {
		if f.since > form && !of.Field(f.index).IsZero() {
			form = f.since
		}
	}
	p := packing{out: append(b, byte(form)), writes: true, form: form, seen: make([]string, 0, 24)}
	p.value(of)
	return p.out, p.err
}

// know begins with what is known: what an identifier has behind its prefix, or what all
// identifiers of a payment share of that.
func (p *packing) know(known string) {
	if !p.dense || known == "" {
		return
	}
	if len(known) == shared {
		if high, low, is := identifierIn("0000000000" + known + "00"); is {
			p.kin, p.kinHigh, p.kinLow = true, high, low
		}
		return
	}
	p.seen = append(p.seen, known)
	if high, low, is := identifierIn(known); is {
		p.at, p.kin, p.kinHigh, p.kinLow = int64(high>>16), true, high&0xffff, low&^number
	}
}

// shared is how many digits of an identifier a payment's share, behind ten of its time and
// in front of two of a number: the lowest bits.
const (
	shared = 14
	number = 1<<10 - 1
)

// Unpack reads what Pack or PackPlainly has written of an object of the same type.
func Unpack(b string, v any, known string) error {
	switch v.(type) {
	case *tollgate.Ticket, *tollgate.Capture, *tollgate.Refund, *tollgate.Attempt:
	default:
		return errPacked
	}
	if len(b) == 0 || b[0] == 0 || b[0] > Packed {
		return errPacked
	}
	p := packing{in: b[1:], form: int(b[0]), dense: b[0] == Packed}
	p.ticket, _ = v.(*tollgate.Ticket)
	p.know(known)
	p.value(reflect.ValueOf(v).Elem())
	if len(p.in) > 0 {
		return errPacked
	}
	return p.err
}

var (
	errText   = errors.New("a text is not UTF-8")
	errPacked = errors.New("what is packed cannot be read")
)

// packing goes through an object in one order, and writes or reads all of it.
type packing struct {
	out    []byte
	in     string
	writes bool
	form   int
	dense  bool
	seen   []string
	at     int64 // the last instant
	err    error
	// What identifiers that belong together share.
	kin             bool
	kinHigh, kinLow uint64
	// That of which the digest of its lines is packed, and the ticket that has the lines.
	evaluation *tollgate.Evaluation
	ticket     *tollgate.Ticket
	rules      *[]tollgate.RuleRef // those of the evaluation before
}

func (p *packing) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if p.writes {
			p.write(v.String())
		} else {
			v.SetString(p.read())
		}
	case reflect.Bool:
		v.SetBool(p.number(flag(v.Bool())) == 1)
	case reflect.Int, reflect.Int64:
		if v.Type() != reflect.TypeFor[tollgate.Instant]() {
			v.SetInt(p.signed(v.Int()))
			return
		}
		v.SetInt(p.instant(v.Int()))
	case reflect.Uint32:
		v.SetUint(p.number(v.Uint()))
	case reflect.Pointer:
		if p.number(flag(!v.IsNil())) == 0 {
			v.SetZero()
			return
		}
		if !p.writes {
			v.Set(reflect.New(v.Type().Elem()))
		}
		p.value(v.Elem())
	case reflect.Slice:
		if p.sameRules(v) {
			return
		}
		listed := p.listed(v)
		n := listed + p.count(v.Len()-listed)
		if !p.writes {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			if i >= listed {
				p.value(v.Index(i))
			} else if !p.writes {
				v.Index(i).SetString(p.ticket.Evaluations[i].EventID)
			}
		}
	case reflect.Map:
		p.texts(v.Addr().Convert(reflect.TypeFor[*map[string]string]()).Interface().(*map[string]string))
	case reflect.Struct:
		for _, f := range packedFields(v.Type()) {
			if f.ofLines && p.dense {
				p.evaluation, _ = v.Addr().Interface().(*tollgate.Evaluation)
			}
			if f.since <= p.form {
				p.value(v.Field(f.index))
			}
			p.evaluation = nil
		}
	default:
		panic("bodies: " + v.Type().String() + " is not packed") // TestPack
	}
}

// sameRules writes, in a ticket, whether the rules of an evaluation are those of the one before,
// as they are of most captures, or reads it; and all of those that are.
func (p *packing) sameRules(v reflect.Value) bool {
	rules, is := v.Addr().Interface().(*[]tollgate.RuleRef)
	if !is || !p.dense {
		return false
	}
	was := p.rules
	if p.rules = rules; was == nil || len(*was) == 0 || p.number(flag(slices.Equal(*rules, *was))) == 0 {
		return false
	}
	if !p.writes {
		*rules = slices.Clone(*was)
	}
	return true
}

// listed writes how many of a ticket's events are, one after the other, those of its
// evaluations, or reads it. The others follow.
func (p *packing) listed(v reflect.Value) (n int) {
	ids, is := v.Addr().Interface().(*[]string)
	if !is || !p.dense || p.ticket == nil || ids != &p.ticket.EventIDs {
		return 0
	}
	all := p.ticket.Evaluations
	for n < min(len(*ids), len(all)) && (*ids)[n] == all[n].EventID {
		n++
	}
	return p.below(p.number(uint64(n)), len(all)+1)
}

// digest is that of the lines which a ticket has of its evaluation. Where it has none, those
// of the first that has are taken: a capture's take the place of the authorization's, and
// are often the same. Both are in front of it.
func (p *packing) digest() string {
	all, number := p.ticket.Lines, p.evaluation.Number
	if len(all) > 0 && !slices.ContainsFunc(all, func(l tollgate.TicketLine) bool { return l.Evaluation == number }) {
		number = all[0].Evaluation
	}
	lines := make([]tollgate.FeeLine, 0, 8)
	for _, l := range all {
		if l.Evaluation == number {
			lines = append(lines, tollgate.FeeLine{Label: l.Label, Amount: l.Amount, Rule: l.Rule})
		}
	}
	return tollgate.LinesSHA256(lines)
}

// instant is an instant as what has passed since the one before; from form 2 on, none is
// one of its own.
func (p *packing) instant(at int64) int64 {
	if !p.dense {
		p.at += p.signed(at - p.at)
		return p.at
	}
	since := uint64(0)
	if at != 0 {
		since = zigzag(at-p.at) + 1
	}
	if since = p.number(since); since == 0 {
		return 0
	}
	p.at += unzigzag(since - 1)
	return p.at
}

func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func flag(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func (p *packing) texts(m *map[string]string) {
	n := p.count(len(*m))
	if p.writes {
		for _, name := range slices.Sorted(maps.Keys(*m)) {
			p.write(name)
			p.write((*m)[name])
		}
		return
	}
	*m = map[string]string{}
	for range n {
		name := p.read()
		(*m)[name] = p.read()
	}
}

// number writes a number, or reads one; so do the others.
func (p *packing) number(n uint64) uint64 {
	if p.writes {
		p.out = binary.AppendUvarint(p.out, n)
		return n
	}
	n = 0
	for shift := 0; ; shift += 7 {
		if len(p.in) == 0 || shift > 63 {
			p.in, p.err = "", errPacked
			return 0
		}
		c := p.in[0]
		p.in = p.in[1:]
		if n |= uint64(c&0x7f) << shift; c < 0x80 {
			return n
		}
	}
}

func (p *packing) signed(n int64) int64 {
	return unzigzag(p.number(zigzag(n)))
}

// count is how many follow: each takes a byte at least.
func (p *packing) count(n int) int {
	u := p.number(uint64(n))
	if p.writes {
		return n
	}
	return p.below(u, len(p.in)+1)
}

// below is a number that is below another one, or 0.
func (p *packing) below(n uint64, end int) int {
	if n >= uint64(end) {
		p.in, p.err = "", errPacked
		return 0
	}
	return int(n)
}

func (p *packing) write(s string) {
	if p.dense {
		p.writeShort(s)
		return
	}
	for i, one := range p.seen {
		if one == s {
			p.head(i, before)
			return
		}
	}
	if n, rest, is := wordIn(s, false); is {
		if p.head(n, word); inFront(words[n]) {
			p.write(rest)
		}
		return
	}
	if p.seen = append(p.seen, s); !utf8.ValidString(s) {
		p.err = errText
	}
	if isDigest(s) {
		p.head(len(s)/2, inHex)
		p.out, _ = hex.AppendDecode(p.out, []byte(s))
		return
	}
	p.head(len(s), plain)
	p.out = append(p.out, s...)
}

func (p *packing) head(n, kind int) { p.number(uint64(n)<<2 | uint64(kind)) }

func (p *packing) read() string {
	if p.dense {
		return p.readShort()
	}
	head := p.number(0)
	n, kind := head>>2, head&3
	switch kind {
	case before:
		if i := p.below(n, len(p.seen)); p.err == nil {
			return p.seen[i]
		}
		return ""
	case word:
		w := words[p.below(n, len(wordsIn(false)))]
		if inFront(w) {
			return w + p.read()
		}
		return w
	}
	size := p.below(n, len(p.in)+1)
	s := p.in[:size]
	p.in = p.in[size:]
	if kind == inHex {
		s = hex.EncodeToString([]byte(s))
	}
	p.seen = append(p.seen, s)
	return s
}

// isDigest reports whether a text is one in lower-case hex. Shorter ones stay as they are:
// scripts look for identifiers.
func isDigest(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

type packedField struct {
	index, since int
	ofLines      bool // it is Evaluation.LinesSHA256
}

var packedTypes sync.Map

// packedFields are the fields of a struct that its JSON has.
func packedFields(t reflect.Type) []packedField {
	if known, ok := packedTypes.Load(t); ok {
		return known.([]packedField)
	}
	var list []packedField
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
			since, _ := strconv.Atoi(f.Tag.Get("pack"))
			list = append(list, packedField{i, max(since, 1), t == reflect.TypeFor[tollgate.Evaluation]() && f.Name == "LinesSHA256"})
		}
	}
	packedTypes.Store(t, list)
	return list
}
