// Package bodies writes the JSON of what is stored and answered, with the same bytes as
// package json (json.Marshal, deterministic) in half its time and without its allocations:
// how a type is written is found out once, from the tags of its fields.
package bodies

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// usual is room for most objects.
const usual = 1 << 10

// Version changes with the JSON of payments and tickets: of one payment two versions may
// write other bytes, and their ETags must differ (TestVersion).
const Version = "2"

// Of is the JSON of a value. The error is one of text that is not UTF-8.
func Of(v any) ([]byte, error) { return Append(make([]byte, 0, usual), v) }

// Append appends the JSON of a value. Structs are fastest by pointer.
func Append(b []byte, v any) ([]byte, error) {
	of := reflect.ValueOf(v)
	if of.Kind() == reflect.Pointer && !of.IsNil() {
		of = of.Elem()
	}
	if of.Kind() == reflect.Struct {
		if write := known(of.Type()); write != nil {
			return write(b, addressable(of))
		}
	}
	text, err := json.Marshal(v, json.Deterministic(true))
	return append(b, text...), err
}

func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	one := reflect.New(v.Type()).Elem()
	one.Set(v)
	return one
}

// writer appends the JSON of an addressable value.
type writer func(b []byte, v reflect.Value) ([]byte, error)

// writers are those of structs, by type; types do not change.
var writers sync.Map

func known(t reflect.Type) writer {
	if found, ok := writers.Load(t); ok {
		return found.(writer)
	}
	write := writerOf(t, nil)
	writers.Store(t, write)
	return write
}

// writerOf is nil for a type that is left to package json: one that writes itself, is
// within itself, or has options that no hot type uses.
func writerOf(t reflect.Type, within []reflect.Type) writer {
	if write, ok := own[t]; ok {
		return write
	}
	if writesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return func(b []byte, v reflect.Value) ([]byte, error) { return jsontext.AppendQuote(b, v.String()) }
	case reflect.Bool:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendBool(b, v.Bool()), nil }
	case reflect.Int, reflect.Int32, reflect.Int64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendInt(b, v.Int(), 10), nil }
	case reflect.Uint32, reflect.Uint64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendUint(b, v.Uint(), 10), nil }
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return dynamic
		}
	case reflect.Pointer:
		return pointer(writerOf(t.Elem(), within))
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			return list(writerOf(t.Elem(), within))
		}
	case reflect.Map:
		if t == reflect.TypeFor[tollgate.Metadata]() {
			return metadata
		}
	case reflect.Struct:
		if !slices.Contains(within, t) {
			return object(t, append(slices.Clone(within), t))
		}
	}
	return nil
}

// own are the forms that types of the root give themselves.
var own = map[reflect.Type]writer{
	reflect.TypeFor[tollgate.Money](): func(b []byte, v reflect.Value) ([]byte, error) {
		return append(v.Addr().Interface().(*tollgate.Money).AppendText(append(b, '"')), '"'), nil
	},
	reflect.TypeFor[tollgate.Citation](): func(b []byte, v reflect.Value) ([]byte, error) {
		c := v.Addr().Interface().(*tollgate.Citation)
		b, err := jsontext.AppendQuote(b, "rule:"+c.Name+"@v")
		return append(strconv.AppendInt(b[:len(b)-1], int64(c.Version), 10), '"'), err
	},
	reflect.TypeFor[tollgate.Instant](): func(b []byte, v reflect.Value) ([]byte, error) {
		return appendInstant(b, tollgate.Instant(v.Int())), nil
	},
	reflect.TypeFor[tollgate.Reason](): func(b []byte, v reflect.Value) ([]byte, error) {
		if v.Len() == 0 {
			return append(b, null...), nil
		}
		return jsontext.AppendQuote(b, v.String())
	},
	reflect.TypeFor[tollgate.KeptPayee](): func(b []byte, v reflect.Value) ([]byte, error) {
		if v.Len() == 0 {
			return append(b, null...), nil
		}
		return jsontext.AppendQuote(b, v.String())
	},
	reflect.TypeFor[jsontext.Value](): func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, null...), nil
		}
		return jsontext.AppendFormat(b, v.Bytes())
	},
}

func appendInstant(b []byte, i tollgate.Instant) []byte {
	if i == 0 {
		return append(b, null...)
	}
	return append(i.Time().AppendFormat(append(b, '"'), "2006-01-02T15:04:05.000Z"), '"')
}

const null = "null"

// writesItself reports whether package json asks a type, or a pointer to it, for its JSON.
func writesItself(t reflect.Type) bool {
	return slices.ContainsFunc(forms, reflect.PointerTo(t).Implements)
}

var forms = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender](),
}

func dynamic(b []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(b, null...), nil
	}
	return Append(b, v.Interface())
}

func pointer(write writer) writer {
	if write == nil {
		return nil
	}
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, null...), nil
		}
		return write(b, v.Elem())
	}
}

func list(write writer) writer {
	if write == nil {
		return nil
	}
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = write(b, v.Index(i)); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	}
}

func metadata(b []byte, v reflect.Value) (_ []byte, err error) {
	m := *v.Addr().Interface().(*tollgate.Metadata)
	if len(m) == 0 {
		return append(b, "{}"...), nil
	}
	text, err := json.Marshal(m, json.Deterministic(true))
	return append(b, text...), err
}

// member is a field, with its name as it stands behind the field before.
type member struct {
	name  string
	index int
	write writer
	omit  func(reflect.Value) bool
}

// object is nil if one of the fields is left to package json.
func object(t reflect.Type, within []reflect.Type) writer {
	var members []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		m := member{index: i, write: writerOf(f.Type, within), omit: omits(option, f.Type)}
		if f.Anonymous || name == "" || m.write == nil || (m.omit == nil) != (option == "") {
			return nil
		}
		quoted, _ := jsontext.AppendQuote([]byte{','}, name)
		m.name = string(append(quoted, ':'))
		members = append(members, m)
	}
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		begin := len(b)
		for i := range members {
			m := &members[i]
			field := v.Field(m.index)
			if m.omit != nil && m.omit(field) {
				continue
			}
			if b, err = m.write(append(b, m.name...), field); err != nil {
				return b, err
			}
		}
		if len(b) == begin {
			b = append(b, ',')
		}
		b[begin] = '{'
		return append(b, '}'), nil
	}
}

// omits is when a field with an option has no member: nil where it always has one, or
// where package json alone knows.
func omits(option string, t reflect.Type) func(reflect.Value) bool {
	switch {
	case option == "omitzero" && t.Kind() == reflect.String && own[t] == nil,
		option == "omitzero" && t == reflect.TypeFor[tollgate.Reason](),
		option == "omitempty" && t.Kind() == reflect.String && own[t] == nil:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case option == "omitempty" && t == reflect.TypeFor[*tollgate.Money]():
		return reflect.Value.IsNil
	case option == "omitempty" && t == reflect.TypeFor[*string]():
		return func(v reflect.Value) bool { return v.IsNil() || v.Elem().Len() == 0 }
	}
	return nil
}
