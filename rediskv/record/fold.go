package record

import (
	"slices"
	"strconv"
	"strings"

	"tollgate/rediskv/bodies"
)

// What no script looks at may stand in one field of a record: the values of Folded, packed,
// in pieces. Half of what a short hash takes up are the names and lengths of its fields. A
// build that does not know the field misses what is in it, and takes the record for damaged.

// FoldField is the first name of that field.
const FoldField = "p"

// Fold is what of a hash's fields and their values is folded, as one text; the witness is
// among them, too. Of the envelope it has the checksum alone where that is all there is to it.
func (k *Kind) Fold(pairs []any) []byte {
	texts, then := make([]string, len(k.Folded)), ""
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		if n := slices.Index(k.Folded, name); n >= 0 {
			texts[n], _ = pairs[i+1].(string)
		} else if name == k.Witness {
			then, _ = pairs[i+1].(string)
		}
	}
	if n := slices.Index(k.Folded, Field); n >= 0 {
		if sum, is := strings.CutPrefix(texts[n], begin); is && len(sum) >= digits && sum[digits:] == k.witness(then) {
			texts[n] = sum[:digits]
		}
	}
	return bodies.PackTexts(make([]byte, 0, 3*piece), texts, "")
}

// witness is how the number that every change raises stands behind a checksum.
func (k *Kind) witness(value string) string {
	if k.Witness == "" {
		return ""
	}
	return strconv.FormatInt(number(value), 16)
}

// Folds reports whether a field can be folded.
func (k *Kind) Folds(name any) bool {
	text, _ := name.(string)
	return slices.Index(k.Folded, text) >= 0
}

// Knows reports whether a field of a hash whose kind has Folded can have a name.
func (k *Kind) Knows(name string) bool {
	if IsNumbered(name) {
		return k.Within
	}
	for _, list := range [][]string{k.Covered, k.Scripts, Pieces(FoldField), {Field}} {
		if slices.Index(list, name) >= 0 {
			return true
		}
	}
	return k.Numbered != "" && strings.HasPrefix(name, k.Numbered)
}

// strays reports whether a field of a hash without envelope may be the folded one under
// another name. Records of before have fields that nobody knows; those that are folded whole
// have none.
func (k *Kind) strays(name, value string) bool {
	return slices.Contains(k.Folded, Field) && !k.Knows(name) && (k.Within || strings.HasPrefix(value, string(rune(bodies.PackedTexts))))
}

// IsNumbered reports whether the name of a field is a number, from 1 on, or of another piece
// of such a one.
func IsNumbered(name string) bool {
	number := strings.TrimRight(name, "+")
	return number != "" && number[0] != '0' && strings.Trim(number, "0123456789") == ""
}

// UnfoldedAs is Unfolded for a hash whose identifier has a prefix.
func UnfoldedAs(prefix string, f map[string]string) map[string]string {
	return kinds[prefix].Unfolded(f)
}

// Unfolded are the fields of a hash as if nothing of it were folded.
func (k *Kind) Unfolded(f map[string]string) map[string]string {
	if k == nil || len(k.Folded) == 0 {
		return f
	}
	if _, folded := f[FoldField]; !folded {
		return f
	}
	all, text := make(map[string]string, len(f)+len(k.Folded)), ""
	for _, name := range Pieces(FoldField) {
		text += f[name]
	}
	for name, value := range f {
		if strings.TrimRight(name, "+") != FoldField {
			all[name] = value
		}
	}
	if text == "" { // it was asked for, and is not there
		return all
	}
	texts, err := bodies.UnpackTexts(text, "")
	if err != nil || len(texts) != len(k.Folded) {
		all[Field] = wrong
		return all
	}
	for i, name := range k.Folded {
		switch {
		case name == Field && f[name] == Format: // a script has, when it changed what the checksum covers
		case f[name] != "": // somebody has written it beside
			all[Field] = wrong
			return all
		case name == Field && len(texts[i]) == digits:
			all[name] = begin + texts[i] + k.witness(f[k.Witness])
		case texts[i] != "":
			all[name] = texts[i]
		}
	}
	return all
}
