package record

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Records of a kind may stand in one hash with others, each by a name: what is covered is
// one text, a JSON object, in the field of that name, and what scripts change is in
// "name.field". The checksum is that of the key which such a record would have by itself.

// SharedNames are the fields of such a hash that are a record's.
func (k *Kind) SharedNames(name string) []string {
	names := append(make([]string, 0, 1+len(k.Scripts)), name)
	for _, field := range k.Scripts {
		names = append(names, name+"."+field)
	}
	return names
}

// Share is a record as fields of such a hash, made of its fields and their values.
func (k *Kind) Share(name string, pairs []any) []any {
	text, fields := append(make([]byte, 0, 512), '{'), make([]any, 2, 8)
	for i := 0; i+1 < len(pairs); i += 2 {
		field, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		if slices.Contains(k.Scripts, field) {
			fields = append(fields, name+"."+field, value)
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, field)
		text = append(text, ':')
		text, _ = jsontext.AppendQuote(text, value)
	}
	fields[0], fields[1] = name, append(text, '}')
	return fields
}

// Unshared are the fields of a record as those of a hash of its own, made of the values of
// SharedNames; none where there is nothing. Check says of one whose text cannot be read
// that it is damaged.
func (k *Kind) Unshared(values []any) map[string]string {
	f := map[string]string{}
	text, covered := values[0].(string)
	if covered && (json.Unmarshal([]byte(text), &f) != nil || len(f) == 0) {
		f = map[string]string{Field: wrong}
	}
	for i, name := range k.Scripts {
		if delete(f, name); values[i+1] == nil {
			continue
		}
		if f[name], _ = values[i+1].(string); !covered {
			f[Field] = wrong
		}
	}
	return f
}

// SharedIn are the records of a hash that has several, by their names.
func (k *Kind) SharedIn(hash map[string]string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for field := range hash {
		name, _, _ := strings.Cut(field, ".")
		if all[name] != nil {
			continue
		}
		names := k.SharedNames(name)
		values := make([]any, len(names))
		for i, one := range names {
			if text, ok := hash[one]; ok {
				values[i] = text
			}
		}
		all[name] = k.Unshared(values)
	}
	return all
}
