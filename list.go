package tollgate

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// List is the body of every listing (interface §0).
type List[T any] struct {
	Object     string  `json:"object"` // "list"
	Data       []T     `json:"data"`
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

// Listed is an entry of a list: a value, or what stands in the place of one that
// is stored and cannot be read (interface §11, "damage").
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
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	var damage DamagedObject
	if err := json.Unmarshal(text, &damage); err == nil && damage.Damaged {
		*l = Listed[T]{Damage: &damage}
		return nil
	}
	*l = Listed[T]{}
	return json.Unmarshal(text, &l.Value)
}
