package tollgate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CheckText refuses text that is longer than max characters, is not valid
// UTF-8 or holds control characters.
func CheckText(param, s string, max int) error {
	switch {
	case !utf8.ValidString(s):
		return Invalid(param, "%s must be valid UTF-8.", param)
	case utf8.RuneCountInString(s) > max:
		return Invalid(param, "%s has at most %d characters.", param, max)
	case strings.ContainsFunc(s, unicode.IsControl):
		return Invalid(param, "%s must not hold control characters.", param)
	}
	return nil
}

// Metadata is what a client attaches to an object: at most 50 keys of 1–40
// characters with string values of at most 500.
type Metadata map[string]string

// Check reports the first key or value, in the order of the keys, that is too
// long or holds control characters.
func (m Metadata) Check() error {
	if len(m) > 50 {
		return Invalid("metadata", "metadata has at most 50 keys.")
	}
	size := 0
	for _, key := range sortedKeys(m) {
		if size += len(key) + len(m[key]); size > maxMetadata {
			return quotaExceeded("metadata", "metadata has at most %d bytes, keys and values together.", maxMetadata)
		}
		if key == "" {
			return Invalid("metadata", "A metadata key has 1 to 40 characters.")
		}
		if err := CheckText("metadata", key, 40); err != nil {
			return Invalid("metadata", "A metadata key has 1 to 40 characters and no control characters.")
		}
		if err := CheckText("metadata."+key, m[key], 500); err != nil {
			return err
		}
	}
	return nil
}

// List is the body of every listing (interface §0).
type List[T any] struct {
	Object     string  `json:"object"` // "list"
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

// Listed is an entry of a list, or what stands in its place (interface §11, "damage").
type Listed[T any] struct {
	Value  T
	Damage *DamagedObject
}

// MarshalJSONTo writes the one that is there.
func (l Listed[T]) MarshalJSONTo(e *jsontext.Encoder) error {
	if l.Damage != nil {
		return json.MarshalEncode(e, l.Damage)
	}
	return json.MarshalEncode(e, &l.Value)
}

// UnmarshalJSONFrom reads what MarshalJSONTo writes.
func (l *Listed[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = Listed[T]{}
	return readListed(d, &l.Damage, &l.Value)
}

func readListed(d *jsontext.Decoder, damage **DamagedObject, value any) error {
	text, err := d.ReadValue()
	if found := new(DamagedObject); err == nil && json.Unmarshal(text, found) == nil && found.Damaged {
		*damage = found
	} else if err == nil {
		err = json.Unmarshal(text, value)
	}
	return err
}
