package handlers

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
)

// cleared reports whether a member is there and null. In a change null takes
// a value away; everywhere else it is the same as absent.
func (f *fields) cleared(name string) bool {
	value, ok := f.members[name]
	return ok && value.Kind() == 'n'
}

// needsValue refuses null for a member that a change cannot take away.
func (f *fields) needsValue(name string) {
	if f.cleared(name) {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s cannot be taken away; leave it out to keep it.", f.prefix+name))
	}
}

// list is an array of at most most strings, each once and in the order in
// which they first stand. check says what is wrong with one of them.
func (f *fields) list(name string, most int, check func(param, item string) error) []string {
	value, ok := f.value(name, false, "a list of strings", '[')
	if !ok {
		return nil
	}
	param := f.prefix + name
	items, ok := elementsOf(value)
	switch {
	case !ok:
		f.faults.add(tollgate.Invalid(param, "%s is a list of strings.", param))
		return nil
	case len(items) > most:
		f.faults.add(tollgate.Invalid(param, "%s has at most %d elements.", param, most))
		return nil
	}
	var list []string
	for _, item := range items {
		if err := check(param, item); err != nil {
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

// whole is a whole number, written without fraction and exponent.
func (f *fields) whole(name string, fallback, least, most int) int {
	value, ok := f.value(name, false, "a number", '0')
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < least || n > most || strconv.Itoa(n) != string(value) {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is a whole number from %d to %d.", f.prefix+name, least, most))
	}
	return n
}

// instant is an RFC 3339 time, 0 when it is not there.
func (f *fields) instant(name string, required bool) tollgate.Instant {
	text, ok := f.text(name, required)
	if !ok {
		return 0
	}
	at, err := tollgate.ParseInstant(text)
	if err != nil {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is an RFC 3339 time such as 2026-11-21T18:16:28Z.", f.prefix+name))
	}
	return at
}

// date is a day of the calendar, NoDate when it is not there.
func (f *fields) date(name string) tollgate.Date {
	text, ok := f.text(name, false)
	if !ok {
		return tollgate.NoDate
	}
	d, err := tollgate.ParseDate(text)
	if err != nil {
		f.faults.add(tollgate.Invalid(f.prefix+name, "%s is a date such as 2026-11-21.", f.prefix+name))
	}
	return d
}

// given is a string of any content, nil when it is not there.
func (f *fields) given(name string) *string {
	text, ok := f.text(name, false)
	if !ok {
		return nil
	}
	return &text
}
