package input

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
)

// Fields are the members of one JSON object. Reading one makes its name known;
// close refuses those that nobody read. null is the same as absent.
type Fields struct {
	Prefix string // "input." inside input
	members
	known []string
	inner []*Fields
	*faults
}

// members are those of an object, in its order. What they hold is part of its text.
type members struct {
	text []byte
	list []member
}

type member struct {
	name  string
	value jsontext.Value
}

// of is a member's value, nil where there is none.
func (m *members) of(name string) jsontext.Value {
	for i := range m.list {
		if m.list[i].name == name {
			return m.list[i].value
		}
	}
	return nil
}

// sorted are the members by their names: pointers, of which one sort serves all types.
func (m *members) sorted() []*member {
	list := make([]*member, len(m.list))
	for i := range list {
		list[i] = &m.list[i]
	}
	slices.SortFunc(list, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	return list
}

var errNoObject = errors.New("it is no object")

// UnmarshalJSONFrom reads the members; package json refuses names that stand twice, bad
// UTF-8, and what stands behind the object.
func (m *members) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return errNoObject
	}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var name, value jsontext.Value
		if name, err = m.next(d); err != nil {
			break
		}
		text := unquote(name)
		if value, err = m.next(d); err == nil {
			m.list = append(m.list, member{text, value})
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}

// next is the next name or value, as it stands in the text.
func (m *members) next(d *jsontext.Decoder) (jsontext.Value, error) {
	value, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	end := d.InputOffset()
	return m.text[end-int64(len(value)) : end : end], nil
}

// membersOf takes an object apart.
func membersOf(object jsontext.Value, prefix string, found *faults) (*Fields, error) {
	f := &Fields{Prefix: prefix, faults: found, known: make([]string, 0, 8)}
	f.text, f.list = object, make([]member, 0, 8)
	return f, json.Unmarshal(object, &f.members)
}

// close reports the names that are not known. One that differs from a known
// name only in case is no typing error but a second parser's chance to see
// another request.
func (f *Fields) close() error {
	for _, name := range f.strange() {
		if slices.ContainsFunc(f.known, func(known string) bool { return strings.EqualFold(known, name) }) {
			return invalidJSON("The body has a name that differs from a parameter's only in case.", nil)
		}
		f.faults.unknown(f.Prefix + name)
	}
	for _, inner := range f.inner {
		if err := inner.close(); err != nil {
			return err
		}
	}
	return nil
}

// strange are the names that nobody read, sorted.
func (f *Fields) strange() (names []string) {
	for name := range f.Names() {
		if !slices.Contains(f.known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Wrong notes what is wrong with a member, such as "is a date".
func (f *Fields) Wrong(name, how string) { f.faults.wrong(f.Prefix+name, how) }

// Missing notes that a member is not there.
func (f *Fields) Missing(name string) { f.faults.missing(f.Prefix + name) }

// Check collects an error of the root under this object's name for it.
func (f *Fields) Check(err error, name string) {
	if err == nil {
		return
	}
	e := *problem.From(err)
	if name != "" {
		e.Param = f.Prefix + name
	}
	f.Refuse(&e)
}

// Has reports whether a member is there and not null.
func (f *Fields) Has(name string) bool {
	value := f.of(name)
	return value != nil && value.Kind() != 'n'
}

// Names are those of the members, in their order.
func (f *Fields) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f.list {
			if !yield(f.list[i].name) {
				return
			}
		}
	}
}

// peek is a member before its turn, empty when it is no string.
func (f *Fields) peek(name string) string {
	value := f.of(name)
	if value.Kind() != '"' {
		return ""
	}
	return unquote(value)
}

// Value is a member of the wanted kind; any other kind is a fault.
func (f *Fields) Value(name string, required bool, form string, kinds ...jsontext.Kind) (jsontext.Value, bool) {
	f.known = append(f.known, name)
	value := f.of(name)
	if value == nil || value.Kind() == 'n' {
		if required {
			f.Missing(name)
		}
		return nil, false
	}
	if !slices.Contains(kinds, value.Kind()) {
		f.Wrong(name, "is "+form)
		return nil, false
	}
	return value, true
}

// Text is a string of any content.
func (f *Fields) Text(name string, required bool) (string, bool) {
	value, ok := f.Value(name, required, "a string", '"')
	if !ok {
		return "", false
	}
	return unquote(value), true
}

func unquote(value jsontext.Value) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil { // opened has read the same bytes
		panic(err)
	}
	return string(text)
}

// Given is a string of any content, nil when it is not there.
func (f *Fields) Given(name string) *string {
	text, ok := f.Text(name, false)
	if !ok {
		return nil
	}
	return &text
}

// Note is optional text of at most max characters; an empty one is none.
func (f *Fields) Note(name string, max int) *string {
	text, ok := f.Text(name, false)
	if !ok || text == "" {
		return nil
	}
	f.Check(tollgate.CheckText(f.Prefix+name, text, max), "")
	return &text
}

// Choice is one of the known words, fallback when absent.
func (f *Fields) Choice(name, fallback string, known ...string) string {
	text, ok := f.Text(name, fallback == "")
	if !ok {
		return fallback
	}
	if !slices.Contains(known, text) {
		f.Wrong(name, "is one of "+strings.Join(known, ", "))
	}
	return text
}

// Flag is a boolean.
func (f *Fields) Flag(name string, fallback bool) bool {
	value, ok := f.Value(name, false, "true or false", 't', 'f')
	if !ok {
		return fallback
	}
	return value.Kind() == 't'
}

// Whole is a whole number, written without fraction and exponent.
func (f *Fields) Whole(name string, fallback, least, most int) int {
	value, ok := f.Value(name, false, "a number", '0')
	if !ok {
		return fallback
	}
	n, how := whole(string(value), least, most)
	if how != "" {
		f.Wrong(name, how)
	}
	return n
}

// List is an array of at most most strings, each once and in the order in
// which they first stand. check says what is wrong with one of them.
func (f *Fields) List(name string, most int, check func(param, item string) error) []string {
	value, ok := f.Value(name, false, "a list of strings", '[')
	if !ok {
		return nil
	}
	items, ok := elementsOf(value)
	switch {
	case !ok:
		f.Wrong(name, "is a list of strings")
		return nil
	case len(items) > most:
		f.Wrong(name, fmt.Sprintf("has at most %d elements", most))
		return nil
	}
	var list []string
	for _, item := range items {
		if err := check(f.Prefix+name, item); err != nil {
			f.Check(err, "")
			return nil
		}
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

// elementsOf takes an array apart that opened has accepted; false when not
// all of it are strings.
func elementsOf(array jsontext.Value) (items []string, ok bool) {
	var values []jsontext.Value
	if err := json.Unmarshal(array, &values); err != nil { // opened has read the same bytes
		panic(err)
	}
	for _, value := range values {
		if value.Kind() != '"' {
			return nil, false
		}
		items = append(items, unquote(value))
	}
	return items, true
}

// Object is a member that is an object itself; nil when it is not there.
func (f *Fields) Object(name string, required bool) *Fields {
	value, ok := f.Value(name, required, "an object", '{')
	if !ok {
		return nil
	}
	return f.inside(name, value)
}

// inside are the members of a member.
func (f *Fields) inside(name string, object jsontext.Value) *Fields {
	inner := f.within(name, object)
	f.inner = append(f.inner, inner)
	return inner
}

// within is inside for names that are the client's own.
func (f *Fields) within(name string, object jsontext.Value) *Fields {
	inner, err := membersOf(object, f.Prefix+name+".", f.faults)
	if err != nil { // opened has read the same bytes
		panic(err)
	}
	return inner
}

// NeedsValue refuses null, which in a change takes a value away, for a member that
// cannot be taken away. Everywhere else null is the same as absent.
func (f *Fields) NeedsValue(name string) {
	if f.of(name).Kind() == 'n' {
		f.Wrong(name, "cannot be taken away; leave it out to keep it")
	}
}
