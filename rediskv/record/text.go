package record

import (
	"hash/crc32"
	"strings"

	"tollgate/rediskv/bodies"
)

// member is how a JSON text with an envelope begins.
const member = `{"$":"`

// Enveloped is the JSON of an object as a text of its own, to be kept at a key.
func Enveloped(key string, object any) ([]byte, error) {
	text, err := bodies.Append(append(make([]byte, 0, 2048), room...), object)
	if err != nil {
		return nil, err
	}
	return seal(key, text), nil
}

// EnvelopedJSON is Enveloped for an object that is JSON already.
func EnvelopedJSON(key, object string) string {
	return string(seal(key, append([]byte(room), object...)))
}

// packed is how the text of an object begins that is packed (bodies.Pack).
const packed = Format + ";b;"

// Form is how what belongs to a payment or a delivery is written. What was written in one
// is read in any.
type Form int

// FormIn is the form of a layout (rediskv.Layout).
func FormIn[L ~int32](layout L) Form { return Form(max(0, min(layout, 4)-2)) }

// The forms: in the layouts together, compact and dense.
const (
	JSON  Form = iota
	Plain      // packed, as earlier builds read it
	Dense      // packed, and what never changes of a hash in one field (fold.go)
)

// Text is an object as a text of its own, to be kept at a key: that of Enveloped, or,
// packed, a quarter of its bytes. DecodeAt reads all.
func Text(key string, object any, form Form) (text []byte, err error) {
	text = append(make([]byte, 0, 1024), packed+"00000000/"...)
	switch form {
	case JSON:
		return Enveloped(key, object)
	case Plain:
		text, err = bodies.PackPlainly(text, object)
	default:
		text, err = bodies.Pack(text, object, namedIn(key))
	}
	rest := len(packed) + digits
	b := hexOf(textSum(key, text[rest:]))
	copy(text[len(packed):], b[:])
	return text, err
}

// namedIn is what the identifier in a key has behind its prefix.
func namedIn(key string) string {
	name, _, _ := strings.Cut(key[strings.LastIndexByte(key, '_')+1:], ":")
	return name
}

// IsPacked reports whether a text is a packed one of Text.
func IsPacked(text string) bool { return strings.HasPrefix(text, packed) }

// FormOf is the form of a text that Text has made.
func FormOf(text string) Form {
	at := len(packed) + digits + 1
	switch {
	case !IsPacked(text) || len(text) <= at:
		return JSON
	case text[at] == bodies.Packed:
		return Dense
	}
	return Plain
}

// FormShared is that of a record that Share has made, by the first of its pieces.
func FormShared(text string) Form {
	switch {
	case text == "" || text[0] == '{':
		return JSON
	case text[0] >= bodies.PackedTexts:
		return Dense
	}
	return Plain
}

// unpacked is what Text has put behind its envelope; ok is false for another text.
func unpacked(key, text string) (b string, ok bool, err error) {
	sum, ok := strings.CutPrefix(text, packed)
	if !ok {
		return "", false, nil
	}
	if len(sum) <= digits || !is(textSum(key, []byte(sum[digits:])), sum[:digits]) {
		return "", true, errSum
	}
	return sum[digits+1:], true, nil
}

// room is where an envelope goes; what stands behind it begins with a brace.
const room = member + begin + `00000000"`

// seal fills the room in front of an object.
func seal(key string, text []byte) []byte {
	text[len(room)] = ','
	b := hexOf(textSum(key, text[len(room):]))
	copy(text[len(member)+len(begin):], b[:])
	return text
}

func textSum(key string, rest []byte) uint32 {
	return crc32.Update(sum(key, func(*summer) {}), castagnoli, rest)
}

// Opened is what Enveloped was given, as JSON. Its error says that the text is not
// what was written at that key.
func Opened(key, text string) (object string, err error) {
	rest, ok := strings.CutPrefix(text, member)
	if !ok {
		if strings.Contains(text[:min(len(text), len(room))], ";;") {
			return "", errName
		}
		return text, nil // of before
	}
	envelope, rest, ok := strings.Cut(rest, `"`)
	if !ok || !strings.HasPrefix(rest, ",") {
		return "", errEnd
	}
	sum, err := sumIn(envelope)
	if err != nil {
		return "", err
	}
	if sum != "" && !is(textSum(key, []byte(rest)), sum) {
		return "", errSum
	}
	return "{" + rest[1:], nil
}

// CheckText is Opened for who reads the text as it is.
func CheckText(key, text string) error {
	_, ok, err := unpacked(key, text)
	if ok {
		return err
	}
	if text != "" && text[0] != '{' {
		return errName
	}
	_, err = Opened(key, text)
	return err
}
