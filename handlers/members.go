package handlers

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/problem"
)

// fields are the members of one JSON object. Reading one makes its name known;
// close refuses those that nobody read. null is the same as absent.
type fields struct {
	prefix  string // "input." inside input
	members map[string]jsontext.Value
	known   []string
	inner   []*fields
	faults  *faults
}

// membersOf takes an object apart that checkJSON has accepted.
func membersOf(object jsontext.Value, prefix string, found *faults) *fields {
	f := &fields{prefix: prefix, members: make(map[string]jsontext.Value), faults: found}
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
func (f *fields) close() error {
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		if slices.Contains(f.known, name) {
			continue
		}
		if slices.ContainsFunc(f.known, func(known string) bool { return strings.EqualFold(known, name) }) {
			return invalidJSON("The body has a name that differs from a parameter's only in case.", nil)
		}
		f.faults.unknown(f.prefix + name)
	}
	for _, inner := range f.inner {
		if err := inner.close(); err != nil {
			return err
		}
	}
	return nil
}

// refuse notes a fault of a member, or between members.
func (f *fields) refuse(e *tollgate.Error) { f.faults.add(e) }

// wrong notes what is wrong with a member, such as "is a date".
func (f *fields) wrong(name, how string) { f.faults.wrong(f.prefix+name, how) }

// missing notes that a member is not there.
func (f *fields) missing(name string) { f.faults.missing(f.prefix + name) }

// check collects an error of the root under this object's name for it.
func (f *fields) check(err error, name string) {
	if err == nil {
		return
	}
	e := *problem.From(err)
	if name != "" {
		e.Param = f.prefix + name
	}
	f.faults.add(&e)
}

func (f *fields) has(name string) bool {
	value, ok := f.members[name]
	return ok && value.Kind() != 'n'
}

// names are those of the members, in no order.
func (f *fields) names() iter.Seq[string] { return maps.Keys(f.members) }

// peek is a member before its turn, empty when it is no string.
func (f *fields) peek(name string) string {
	value := f.members[name]
	if value.Kind() != '"' {
		return ""
	}
	return unquote(value)
}

// value is a member of the wanted kind; any other kind is a fault.
func (f *fields) value(name string, required bool, form string, kinds ...jsontext.Kind) (jsontext.Value, bool) {
	f.known = append(f.known, name)
	if !f.has(name) {
		if required {
			f.missing(name)
		}
		return nil, false
	}
	value := f.members[name]
	if !slices.Contains(kinds, value.Kind()) {
		f.wrong(name, "is "+form)
		return nil, false
	}
	return value, true
}

// text is a string of any content.
func (f *fields) text(name string, required bool) (string, bool) {
	value, ok := f.value(name, required, "a string", '"')
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

// given is a string of any content, nil when it is not there.
func (f *fields) given(name string) *string {
	text, ok := f.text(name, false)
	if !ok {
		return nil
	}
	return &text
}

// note is optional text of at most max characters; an empty one is none.
func (f *fields) note(name string, max int) *string {
	text, ok := f.text(name, false)
	if !ok || text == "" {
		return nil
	}
	f.check(tollgate.CheckText(f.prefix+name, text, max), "")
	return &text
}

// choice is one of the known words, fallback when absent.
func (f *fields) choice(name, fallback string, known ...string) string {
	text, ok := f.text(name, fallback == "")
	if !ok {
		return fallback
	}
	if !slices.Contains(known, text) {
		f.wrong(name, "is one of "+strings.Join(known, ", "))
	}
	return text
}

// flag is a boolean.
func (f *fields) flag(name string, fallback bool) bool {
	value, ok := f.value(name, false, "true or false", 't', 'f')
	if !ok {
		return fallback
	}
	return value.Kind() == 't'
}

// whole is a whole number, written without fraction and exponent.
func (f *fields) whole(name string, fallback, least, most int) int {
	value, ok := f.value(name, false, "a number", '0')
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < least || n > most || strconv.Itoa(n) != string(value) {
		f.wrong(name, fmt.Sprintf("is a whole number from %d to %d", least, most))
	}
	return n
}

// list is an array of at most most strings, each once and in the order in
// which they first stand. check says what is wrong with one of them.
func (f *fields) list(name string, most int, check func(param, item string) error) []string {
	value, ok := f.value(name, false, "a list of strings", '[')
	if !ok {
		return nil
	}
	items, ok := elementsOf(value)
	switch {
	case !ok:
		f.wrong(name, "is a list of strings")
		return nil
	case len(items) > most:
		f.wrong(name, fmt.Sprintf("has at most %d elements", most))
		return nil
	}
	var list []string
	for _, item := range items {
		if err := check(f.prefix+name, item); err != nil {
			f.check(err, "")
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
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != ']' {
		if d.PeekKind() != '"' {
			return nil, false
		}
		var item jsontext.Token
		if item, err = d.ReadToken(); err == nil {
			items = append(items, item.String())
		}
	}
	if err != nil { // checkJSON has read the same bytes
		panic(err)
	}
	return items, true
}

// object is a member that is an object itself; nil when it is not there.
func (f *fields) object(name string, required bool) *fields {
	value, ok := f.value(name, required, "an object", '{')
	if !ok {
		return nil
	}
	return f.inside(name, value)
}

// inside are the members of a member.
func (f *fields) inside(name string, object jsontext.Value) *fields {
	inner := membersOf(object, f.prefix+name+".", f.faults)
	f.inner = append(f.inner, inner)
	return inner
}

// cleared reports whether a member is there and null. In a change null takes
// a value away; everywhere else it is the same as absent.
func (f *fields) cleared(name string) bool {
	value, ok := f.members[name]
	return ok && value.Kind() == 'n'
}

// needsValue refuses null for a member that a change cannot take away.
func (f *fields) needsValue(name string) {
	if f.cleared(name) {
		f.wrong(name, "cannot be taken away; leave it out to keep it")
	}
}
