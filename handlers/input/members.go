package input

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
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
	Prefix  string // "input." inside input
	members map[string]jsontext.Value
	known   []string
	inner   []*Fields
	*faults
}

// membersOf takes an object apart that checkJSON has accepted.
func membersOf(object jsontext.Value, prefix string, found *faults) *Fields {
	f := &Fields{Prefix: prefix, members: make(map[string]jsontext.Value), faults: found}
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' {
		var name jsontext.Token
		if name, err = d.ReadToken(); err != nil {
			break
		}
		key := name.String()
		var value jsontext.Value
		if value, err = d.ReadValue(); err == nil {
			f.members[key] = value.Clone()
		}
	}
	if err != nil { // checkJSON has read the same bytes
		panic(err)
	}
	return f
}

// close reports the names that are not known. One that differs from a known
// name only in case is no typing error but a second parser's chance to see
// another request.
func (f *Fields) close() error {
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if slices.Contains(f.known, name) {
			continue
		}
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
	value, ok := f.members[name]
	return ok && value.Kind() != 'n'
}

// Names are those of the members, in no order.
func (f *Fields) Names() iter.Seq[string] { return maps.Keys(f.members) }

// peek is a member before its turn, empty when it is no string.
func (f *Fields) peek(name string) string {
	value := f.members[name]
	if value.Kind() != '"' {
		return ""
	}
	return unquote(value)
}

// Value is a member of the wanted kind; any other kind is a fault.
func (f *Fields) Value(name string, required bool, form string, kinds ...jsontext.Kind) (jsontext.Value, bool) {
	f.known = append(f.known, name)
	if !f.Has(name) {
		if required {
			f.Missing(name)
		}
		return nil, false
	}
	value := f.members[name]
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
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil { // checkJSON has read the same bytes
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

// elementsOf takes an array apart that checkJSON has accepted; false when not
// all of it are strings.
func elementsOf(array jsontext.Value) (items []string, ok bool) {
	var values []jsontext.Value
	if err := json.Unmarshal(array, &values); err != nil { // checkJSON has read the same bytes
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
	inner := membersOf(object, f.Prefix+name+".", f.faults)
	f.inner = append(f.inner, inner)
	return inner
}

// NeedsValue refuses null, which in a change takes a value away, for a member that
// cannot be taken away. Everywhere else null is the same as absent.
func (f *Fields) NeedsValue(name string) {
	if value, ok := f.members[name]; ok && value.Kind() == 'n' {
		f.Wrong(name, "cannot be taken away; leave it out to keep it")
	}
}
