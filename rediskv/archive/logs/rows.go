package logs

import (
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
)

// row is an entry as a pack has it.
type row struct {
	ID string `json:"id"` // keyOf
	// Body is the JSON that was frozen, byte for byte, and Fields what stands beside it.
	Body   jsontext.Value    `json:"body,omitzero"`
	Fields map[string]string `json:"fields,omitzero"`
	// Raw are all fields of an entry that is damaged, which may be any bytes.
	Raw map[string][]byte `json:"raw,omitzero"`
}

// body is the field that has the JSON.
const body = "b"

// rowOf makes the row of an entry. It is read again as the same entry.
func rowOf(org string, m redis.XMessage) (key string, text []byte, err error) {
	key = keyOf(org, m.ID)
	if _, place, ok := placeOf(key); !ok || place != m.ID {
		return "", nil, fmt.Errorf("the log of %s has an entry at %s, which is no place", org, m.ID)
	}
	if text = plain(key, m); text != nil {
		if is, err := entryOf(text); err == nil && maps.Equal(is.Values, m.Values) {
			return key, text, nil
		}
	}
	r := row{ID: key, Raw: map[string][]byte{}}
	for name := range m.Values {
		r.Raw[name] = []byte(rediskv.Text(m, name))
	}
	if text, err = json.Marshal(&r, json.Deterministic(true)); err != nil {
		return "", nil, err
	}
	is, err := entryOf(text)
	if err == nil && !maps.Equal(is.Values, m.Values) {
		err = fmt.Errorf("the entry of the log of %s at %s is not read as it was written", org, m.ID)
	}
	return key, text, err
}

// plain is the row of an entry whose body is JSON, nil of any other.
func plain(key string, m redis.XMessage) []byte {
	text := rediskv.Text(m, body)
	fields := map[string]string{}
	for name := range m.Values {
		if value := rediskv.Text(m, name); name != body {
			if fields[name] = value; !utf8.ValidString(value) {
				return nil
			}
		}
	}
	if !jsontext.Value(text).IsValid() {
		return nil
	}
	beside, err := json.Marshal(fields, json.Deterministic(true))
	if err != nil {
		return nil
	}
	// The body is not written by package json, which may write it in another way.
	return fmt.Appendf(nil, `{"id":%q,"body":%s,"fields":%s}`, key, text, beside)
}

// entryOf is the entry that a row has.
func entryOf(text []byte) (m redis.XMessage, err error) {
	var r row
	if err := json.Unmarshal(text, &r); err != nil {
		return m, err
	}
	_, place, ok := placeOf(r.ID)
	if !ok {
		return m, fmt.Errorf("%.80q is no entry of a log", r.ID)
	}
	m = redis.XMessage{ID: place, Values: map[string]any{}}
	for name, value := range r.Raw {
		m.Values[name] = string(value)
	}
	for name, value := range r.Fields {
		m.Values[name] = value
	}
	if r.Body != nil {
		m.Values[body] = string(r.Body)
	}
	return m, nil
}
