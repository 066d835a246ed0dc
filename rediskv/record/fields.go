package record

import (
	"cmp"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate/rediskv/bodies"
)

// Fields reads a hash reply (field, value, …).
type Fields map[string]string

// FieldsOf reads the reply to HGETALL of a script.
func FieldsOf(reply any) Fields {
	list, _ := reply.([]any)
	f := make(Fields, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		f[name], _ = list[i+1].(string)
	}
	return f
}

// FieldsIn reads the reply to HMGET.
func FieldsIn(values []any, names ...string) Fields {
	f := make(Fields, len(names))
	for i, v := range values {
		f[names[i]], _ = v.(string)
	}
	return f
}

// Int is a counter (v, last) of a hash in which counters found none that is no
// number; one that is not there is 0.
func (f Fields) Int(name string) int64 {
	n, _ := strconv.ParseInt(f[name], 10, 64)
	return n
}

// Optional is a field, nil while it is not there.
func (f Fields) Optional(name string) *string {
	if v, ok := f[name]; ok && v != "" {
		return &v
	}
	return nil
}

// Pairs collects the fields of a hash to write; empty values are left out.
type Pairs []any

// Add sets a field that has a value.
func (p *Pairs) Add(name, value string) {
	if value != "" {
		*p = append(*p, name, value)
	}
}

// Set sets a field.
func (p *Pairs) Set(name, value string) { *p = append(*p, name, value) }

// Int sets a field to an integer in decimal.
func (p *Pairs) Int(name string, value int64) { p.Set(name, strconv.FormatInt(value, 10)) }

// Document reads the document of a hash, and pairs of JSON text and target.
func (f Fields) Document(into any, more ...any) error {
	if err := Check(f[Field]); err != nil {
		return err
	}
	return Decode(f["json"], into, more...)
}

// Sealed puts the envelope of a hash into the fields that it is written with. All
// that its checksum covers is among them, or beside them, as it is.
func (p Pairs) Sealed(key string, beside Fields) Pairs {
	for i := 0; i+1 < len(p); i += 2 {
		if p[i] == Field {
			p[i+1] = Seal(key, p, beside)
		}
	}
	return p
}

// DecodeAt reads the text of its own that is kept at a key: JSON, or what is packed.
func DecodeAt(key, text string, into any) error {
	if b, ok, err := unpacked(key, text); ok {
		return cmp.Or(err, bodies.Unpack(b, into, namedIn(key)))
	}
	object, err := Opened(key, text)
	if err != nil {
		return err
	}
	return Decode(object, into)
}

// Decode reads pairs of JSON text and target.
func Decode(text string, into any, more ...any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return err
	}
	for i := 0; i+1 < len(more); i += 2 {
		text, _ := more[i].(string)
		if err := json.Unmarshal([]byte(text), more[i+1]); err != nil {
			return err
		}
	}
	return nil
}
