package record

import (
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv/bodies"
)

// Records of a kind may stand in one hash with others, each by a name: what is covered is
// one text in the field of that name, and what scripts change is in "name.field". The text
// is a JSON object, or, packed, the values in the order of Covered, behind that of the
// envelope. The checksum is that of the key which such a record would have by itself.
//
// What later records repeat of the first one (Kind.Repeats) takes a byte of their packed
// texts. So who reads one of them asks for the first one's text as well, and where that is
// damaged or another one, the checksum of the later one says that it is. The first one may
// have any form.

// Redis keeps a hash in a third of the room while none of its values is longer than a piece,
// unless hash-max-listpack-value is another one. So a packed text that is longer stands in
// several fields, of which the last has the rest.
const (
	piece = 64
	// MostPieces are the fields of a capture, a refund or an attempt: more than most need.
	// What is covered of a transaction is shorter.
	MostPieces = 4

	sharedPieces = 3
	rests        = "+++"
)

// Pieces are the fields that a text stands in.
func Pieces(field string) []string { return piecesOf(MostPieces, field, field) }

func piecesOf(most int, first, prefix string) []string {
	names := append(make([]string, 0, most+4), first)
	for n := 1; n < most; n++ {
		names = append(names, prefix+rests[:n])
	}
	return names
}

// PutPieces puts a text into the fields of Pieces, as scripts do (put_pieces, in
// prelude.lua): what is packed into as many as it needs, JSON into the first.
func PutPieces(hash map[string]string, field, text string) {
	if strings.HasPrefix(text, "{") {
		hash[field] = text
		return
	}
	for n, name := range Pieces(field) {
		end := min(piece, len(text))
		if n == MostPieces-1 {
			end = len(text)
		}
		if hash[name], text = text[:end], text[end:]; text == "" {
			return
		}
	}
}

// PiecePairs are these fields and their values, one after the other.
func PiecePairs(field string, text []byte) []any {
	if len(text) > 0 && text[0] == '{' {
		return []any{field, text}
	}
	pairs := make([]any, 0, 2*MostPieces)
	for n, name := range Pieces(field) {
		end := min(piece, len(text))
		if n == MostPieces-1 {
			end = len(text)
		}
		if pairs, text = append(pairs, name, string(text[:end])), text[end:]; len(text) == 0 {
			break
		}
	}
	return pairs
}

// Joined is the text in the fields of Pieces; false where there is none.
func Joined(values []any) (text string, there bool) {
	for _, value := range values {
		if part, is := value.(string); is {
			text, there = text+part, true
		}
	}
	return text, there
}

// Whole has the texts of a hash in one piece each, by the first names of their fields. What
// is left of one whose first piece is not there keeps its own name.
func Whole(hash map[string]string) map[string]string {
	whole := make(map[string]string, len(hash))
	for field, text := range hash {
		first := strings.TrimRight(field, "+")
		if _, there := hash[first]; there {
			field, text = first, ""
			for _, name := range Pieces(first) {
				text += hash[name]
			}
		}
		whole[field] = text
	}
	return whole
}

// SharedNames are the fields of such a hash that are a record's. Nobody changes them.
func (k *Kind) SharedNames(name string) []string {
	n := sharedPieces + len(k.Scripts)
	return k.sharedAs(name).names[:n:n]
}

// Asked are those that reading it asks for: with the text of the first record.
func (k *Kind) Asked(name string) []string { return k.sharedAs(name).names }

// shared are the names of a record's fields, and the same as arguments of a command.
type shared struct {
	names     []string // of it, and behind them those of the first record's text
	arguments []any
}

// sharedNames keeps those of numbers: each payment has the same ones.
var sharedNames sync.Map

type sharedName struct {
	*Kind
	name string
}

func (k *Kind) sharedAs(name string) *shared {
	if known, is := sharedNames.Load(sharedName{k, name}); is {
		return known.(*shared)
	}
	as := &shared{names: piecesOf(sharedPieces, name, name+".")}
	for _, field := range k.Scripts {
		as.names = append(as.names, name+"."+field)
	}
	for _, one := range as.names {
		as.arguments = append(as.arguments, one)
	}
	if first := tollgate.FirstNumber; name != first {
		as.names = append(as.names, piecesOf(sharedPieces, first, first+".")...)
	}
	if len(name) == 2 { // else it is no number, but damage
		sharedNames.Store(sharedName{k, name}, as)
	}
	return as
}

// Share is a record as fields of such a hash, made of its fields and their values. of is
// what the identifiers of all records of the hash share, and first what the first one has
// (Repeated), if the hash has that; it is not used for the first one itself.
func (k *Kind) Share(of, name string, pairs []any, form Form, first []string) []any {
	fields, as := make([]any, 2, 14), k.sharedAs(name).arguments
	texts := make([]string, len(k.Covered)+1) // that of the envelope, and those of Covered
	for i := 0; i+1 < len(pairs); i += 2 {
		field, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		if n := slices.Index(k.Scripts, field); n >= 0 {
			fields = append(fields, as[sharedPieces+n], pairs[i+1])
			continue
		}
		texts[slices.Index(k.Covered, field)+1] = value // the envelope's is not among them
	}
	if form == JSON {
		fields[0], fields[1] = as[0], k.object(texts)
		return fields
	}
	texts[0] = strings.TrimPrefix(texts[0], begin)
	if name == tollgate.FirstNumber {
		first = nil
	}
	text := packTexts(make([]byte, 0, 3*piece), texts, form, of, first...)
	end := min(piece, len(text))
	fields[0], fields[1], text = as[0], text[:end], text[end:]
	for n := 1; n < sharedPieces && len(text) > 0; n++ {
		if end = min(piece, len(text)); n == sharedPieces-1 {
			end = len(text)
		}
		fields, text = append(fields, as[n], text[:end]), text[end:]
	}
	return fields
}

// packTexts packs texts in a form that is not JSON.
func packTexts(b []byte, texts []string, form Form, of string, first ...string) []byte {
	if form == Plain {
		return bodies.PackTextsPlainly(b, texts)
	}
	return bodies.PackTexts(b, texts, of, first...)
}

// object is a JSON object of texts, without those that are empty.
func (k *Kind) object(texts []string) []byte {
	text, _ := jsontext.AppendQuote(append(make([]byte, 0, 512), '{'), Field)
	text, _ = jsontext.AppendQuote(append(text, ':'), texts[0])
	for i, name := range k.Covered {
		if texts[i+1] == "" {
			continue
		}
		text, _ = jsontext.AppendQuote(append(text, ','), name)
		text, _ = jsontext.AppendQuote(append(text, ':'), texts[i+1])
	}
	return append(text, '}')
}

// Repeated are the values, of the first record of a hash, that others repeat.
func (k *Kind) Repeated(f map[string]string) []string {
	values := make([]string, len(k.Repeats))
	for i, name := range k.Repeats {
		values[i] = f[name]
	}
	return values
}

// First is the first record of a hash, which is read where another one needs it. Who reads
// several records keeps it: those of one payment are beside each other in lists.
type First struct {
	of     string
	pieces []any
	read   bool
	values []string // Repeated; none where it cannot be read
}

// ofHash makes it the one of a hash, which may be that of before.
func (r *First) ofHash(of string, pieces []any) *First {
	if r.of != of || !slices.Equal(r.pieces, pieces) {
		*r = First{of: of, pieces: pieces}
	}
	return r
}

func (r *First) repeated(k *Kind) []string {
	if r == nil {
		return nil
	}
	if !r.read {
		text, _ := Joined(r.pieces)
		r.read, r.values = true, k.repeatedIn(r.of, text)
	}
	return r.values
}

// repeatedIn are the values of Repeated in the text of a first record.
func (k *Kind) repeatedIn(of, text string) []string {
	if strings.HasPrefix(text, "{") {
		f := map[string]string{}
		if !k.readText(of, f, text, nil) {
			return nil
		}
		return k.Repeated(f)
	}
	texts, err := bodies.UnpackTexts(text, of)
	if err != nil || len(texts) != len(k.Covered)+1 {
		return nil
	}
	values := texts[:0] // they stand in the order of Covered
	for i, name := range k.Covered {
		if len(values) < len(k.Repeats) && k.Repeats[len(values)] == name {
			values = append(values, texts[i+1])
		}
	}
	return values
}

// Unshared are the fields of a record as those of a hash of its own, made of the values of
// Asked; none where there is nothing. Check says of one whose text cannot be read
// that it is damaged.
func (k *Kind) Unshared(of string, values []any, r *First) map[string]string {
	own := sharedPieces + len(k.Scripts)
	if len(values) == own {
		return k.unshared(of, values, nil)
	}
	return k.unshared(of, values[:own], r.ofHash(of, values[own:]))
}

func (k *Kind) unshared(of string, values []any, r *First) map[string]string {
	text, covered := Joined(values[:sharedPieces])
	room := 0
	if covered {
		room = len(k.Covered) + len(k.Scripts)
	}
	f := make(map[string]string, room)
	if covered && !k.readText(of, f, text, r) {
		f = map[string]string{Field: wrong}
	}
	for i, name := range k.Scripts {
		if delete(f, name); values[i+sharedPieces] == nil {
			continue
		}
		if f[name], _ = values[i+sharedPieces].(string); !covered {
			f[Field] = wrong
		}
	}
	return f
}

// IsBehind reports whether the text of a record, by the first of its pieces, repeats what the
// first record of its hash has.
func IsBehind(text string) bool { return text != "" && text[0] == bodies.PackedBehind }

// readText reads what Share makes of what is covered; what is empty is not there.
func (k *Kind) readText(of string, f map[string]string, text string, r *First) bool {
	if strings.HasPrefix(text, "{") {
		return json.Unmarshal([]byte(text), &f) == nil && len(f) > 0
	}
	var behind []string
	if IsBehind(text) {
		behind = r.repeated(k)
	}
	texts, err := bodies.UnpackTexts(text, of, behind...)
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
func (k *Kind) SharedIn(of string, hash map[string]string) map[string]map[string]string {
	all, r := map[string]map[string]string{}, &First{of: of}
	for _, name := range piecesOf(sharedPieces, tollgate.FirstNumber, tollgate.FirstNumber+".") {
		if text, ok := hash[name]; ok {
			r.pieces = append(r.pieces, text)
		}
	}
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
		all[name] = k.unshared(of, values, r)
	}
	return all
}
