package record

import (
	"strings"

	"tollgate"
)

// Place is where a record is: at a key of its own, or, by Name, in a hash with others,
// where its checksum is that of the key As.
type Place struct{ Key, Name, As string }

// Own is the place of a record at a key of its own.
func Own(key string) Place { return Place{Key: key} }

// of is what the identifiers of all records of the hash share.
func (p Place) of() string {
	of, _, _ := tollgate.NumberIn(p.As[strings.LastIndexByte(p.As, ':')+1:])
	return of
}

// Names are the fields to ask for, of some of the record: none for all of its hash.
func (p Place) Names(names []string) []string {
	if p.Name != "" {
		return KindOf(p.As).Asked(p.Name)
	}
	return KindOf(p.Key).Names(names)
}

// Read makes the record, or some of its fields, of the values of Names, which were asked
// for; all reads a whole hash.
func (p Place) Read(values []any, names []string) Fields {
	return p.ReadWith(new(First), values, names)
}

// ReadWith is Read for who reads several records, with one First.
func (p Place) ReadWith(first *First, values []any, names []string) Fields {
	if p.Name != "" {
		if len(values) == 0 {
			return Fields{}
		}
		return Verified(p.As, KindOf(p.As).Unshared(p.of(), values, first))
	}
	names = KindOf(p.Key).Names(names)
	return Verified(p.Key, FieldsIn(values, names...), names...)
}
