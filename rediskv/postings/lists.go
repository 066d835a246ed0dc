package postings

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"strconv"

	"tollgate/rediskv"
)

// Field is what of a transaction a value is of.
type Field byte

const (
	Payee     Field = 'p' // in its canonical form
	Reference Field = 'r'
	Currency  Field = 'c'
	Type      Field = 't'
	// Unreadable has the transactions that could not be read when they were posted, under
	// the empty text: each search looks at them.
	Unreadable Field = 'u'
	// Open has the payouts that have not come to an end, under the empty text.
	Open Field = 'o'
)

func (f Field) String() string {
	names := map[Field]string{Payee: "payee", Reference: "reference", Currency: "currency", Type: "type", Open: "what may be given a reference"}
	return cmp.Or(names[f], "what cannot be read")
}

// Value is one that transactions are searched for.
type Value struct {
	Field Field
	Text  string
}

// Types are some types of transactions, one bit each.
type Types byte

// AllTypes are all of them, also those that a later release adds.
const AllTypes Types = 0xff

// A list is a string of postings in their order, and is shared by the values whose hashes
// fall together: a value of its own key would cost more than the posting itself. Lists are
// of a class of events, each class as large as all before it. There are as many lists in
// a class as keep them short, so that a rare value is found in some twenty reads of about
// a kilobyte, however many transactions there are.
//
// A posting is the event's number (5 bytes, big-endian), a tag that tells values of one
// list apart (2), and the types of its transactions that have the value (1). Two values
// with the same list and tag are told apart when the transactions are read.
const (
	postingSize = 8
	numberSize  = 5
	firstClass  = 8  // bits of the numbers in the first class
	perList     = 32 // events of a class for each of its lists, which have five postings each
)

type posting struct {
	number int64
	types  Types
}

// hash spreads values over lists, and gives them their tags.
func (v Value) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte{byte(v.Field)})
	_, _ = h.Write([]byte(v.Text))
	n := h.Sum64()
	n ^= n >> 32 // FNV leaves the high bits of short texts alike
	n *= 0x9e3779b97f4a7c15
	return n ^ n>>29
}

func (v Value) tag() uint16 { return uint16(v.hash() >> 48) }

// classOf is the class of an event.
func classOf(number int64) int { return max(0, bits.Len64(uint64(number))-firstClass) }

// listsIn is how many lists a class has.
func listsIn(class int) int64 { return int64(1) << (firstClass + max(0, class-1)) / perList }

// list is where a value's postings of a class are.
func (v Value) list(k rediskv.Space, class int) string {
	return listKey(k, class, int64(v.hash()%uint64(listsIn(class))))
}

func listKey(k rediskv.Space, class int, list int64) string {
	return k.Object("postings:" + strconv.Itoa(class) + ":" + strconv.FormatInt(list, 10))
}

// append adds a value's posting to a list.
func (p posting) append(list []byte, v Value) []byte {
	list = binary.BigEndian.AppendUint64(list, uint64(p.number)<<24)[:len(list)+numberSize]
	return append(binary.BigEndian.AppendUint16(list, v.tag()), byte(p.types))
}

// numberAt is the event of the posting that a text begins with.
func numberAt(text string) (n int64) {
	for i := range numberSize {
		n = n<<8 | int64(text[i])
	}
	return n
}

// each calls f with the postings in a part of a list that are a value's.
func (v Value) each(part string, f func(posting)) {
	tag := v.tag()
	for ; len(part) >= postingSize; part = part[postingSize:] {
		if uint16(part[numberSize])<<8|uint16(part[numberSize+1]) == tag {
			f(posting{numberAt(part), Types(part[postingSize-1])})
		}
	}
}
