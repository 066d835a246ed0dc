package record

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/rediskv/bodies"
)

// Records of a kind may stand in one hash with others, each by a name: what is covered is
// one text in the field of that name, and what scripts change is in "name.field". The text
// is a JSON object, or, packed, the values in the order of Covered, behind that of the
// envelope. The checksum is that of the key which such a record would have by itself.

// SharedNames are the fields of such a hash that are a record's.
func (k *Kind) SharedNames(name string) []string {
	names := append(make([]string, 0, 1+len(k.Scripts)), name)
	for _, field := range k.Scripts {
		names = append(names, name+"."+field)
	}
	return names
}

// Share is a record as fields of such a hash, made of its fields and their values.
func (k *Kind) Share(name string, pairs []any, packed bool) []any {
	covered, fields := make(Fields, len(k.Covered)+1), make([]any, 2, 8)
	names := make([]string, 0, len(k.Covered)+1)
	for i := 0; i+1 < len(pairs); i += 2 {
		field, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		if slices.Contains(k.Scripts, field) {
			fields = append(fields, name+"."+field, value)
			continue
		}
		covered[field], names = value, append(names, field)
	}
	fields[0], fields[1] = name, k.textOf(covered, names, packed)
	return fields
}

func (k *Kind) textOf(covered Fields, names []string, packed bool) []byte {
	if packed {
		texts := make([]string, 1, len(k.Covered)+1)
		texts[0] = strings.TrimPrefix(covered[Field], begin)
		for _, name := range k.Covered {
			texts = append(texts, covered[name])
		}
		return bodies.PackTexts(nil, texts)
	}
	text := append(make([]byte, 0, 512), '{')
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, name)
		text = append(text, ':')
		text, _ = jsontext.AppendQuote(text, covered[name])
	}
	return append(text, '}')
}

// Unshared are the fields of a record as those of a hash of its own, made of the values of
// SharedNames; none where there is nothing. Check says of one whose text cannot be read
// that it is damaged.
func (k *Kind) Unshared(values []any) map[string]string {
	f := map[string]string{}
	text, covered := values[0].(string)
	if covered && !k.readText(f, text) {
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

// readText reads what textOf makes; what is empty is not there.
func (k *Kind) readText(f map[string]string, text string) bool {
	if strings.HasPrefix(text, "{") {
		return json.Unmarshal([]byte(text), &f) == nil && len(f) > 0
	}
	texts, err := bodies.UnpackTexts(text)
	if err != nil || len(texts) != len(k.Covered)+1 {
		return false
	}
	if f[Field] = texts[0]; !strings.Contains(texts[0], ";") {
		f[Field] = begin + texts[0]
	}
	for i, name := range k.Covered {
		if texts[i+1] != "" {
			f[name] = texts[i+1]
		}
	}
	return true
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
