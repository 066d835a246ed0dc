package record

import (
	"slices"
	"strconv"
)

// Golden is the field of a rule with the sum of its golden cases, which are too large
// to be read with each rule of a list.
const Golden = "gsum"

// GoldenSum is that sum.
func GoldenSum(key, cases string) string {
	b := hexOf(rowSum(key, cases))
	return string(b[:])
}

// uncounted stands in a numbered field for what a script has taken out.
const uncounted = "-"

// Seal is the envelope of the hash that is to be at a key, made of its fields and
// their values, one after the other. All that is covered has to be among them, or in
// beside, which stays as it is.
func Seal(key string, pairs []any, beside map[string]string) string {
	k := KindOf(key)
	if k == nil {
		return Format
	}
	get := func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				text, _ := pairs[i+1].(string)
				return text
			}
		}
		return beside[name]
	}
	k = k.of(get)
	then := int64(-1)
	if k.Witness != "" {
		then = number(get(k.Witness))
	}
	values := k.values(make([]string, 0, 40), pairs, beside)
	return enveloped(sum(key, func(s *summer) {
		for i, name := range k.Covered {
			s.field(name, values[i])
		}
		k.numbered(s, get)
	}), then)
}

// values are those of what is covered, in its order: of pairs, or else of beside. Most
// pairs stand in that order too, so that the next is found at once.
func (k *Kind) values(values []string, pairs []any, beside map[string]string) []string {
	for _, name := range k.Covered {
		values = append(values, beside[name])
	}
	next := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		for range k.Covered {
			at := next
			if next++; next == len(k.Covered) {
				next = 0
			}
			if k.Covered[at] == name {
				values[at], _ = pairs[i+1].(string)
				break
			}
		}
	}
	return values
}

// In is the kind of a record by its fields as well: a payout's own transaction is
// written by others than those of payments.
func (k *Kind) In(fields map[string]string) *Kind {
	return k.of(func(name string) string { return fields[name] })
}

func (k *Kind) of(get func(string) string) *Kind {
	if k.Name == "transaction" && get("ty") == payoutTransaction {
		return kinds[payoutTransaction]
	}
	return k
}

func (k *Kind) sum(key string, get func(string) string) uint32 {
	return sum(key, func(s *summer) {
		for _, name := range k.Covered {
			s.field(name, get(name))
		}
		k.numbered(s, get)
	})
}

func (k *Kind) numbered(s *summer, get func(string) string) {
	for i := 0; k.Numbered != ""; i++ {
		value := get(k.Numbered + strconv.Itoa(i))
		if value == "" {
			break
		}
		if value != uncounted {
			s.text(value)
		}
	}
}

// Verified are the fields of the hash at a key, as they were read: all of them, or
// those of names, none of them folded. Where the checksum is another one, Check says so of
// their envelope.
func Verified(key string, f map[string]string, names ...string) map[string]string {
	k := KindOf(key)
	if k == nil || len(f) == 0 {
		return f
	}
	k = k.In(f)
	f = k.Unfolded(f)
	if len(names) > 0 && !k.readIn(names) {
		return f
	}
	if !k.matches(key, f) {
		f[Field] = wrong
	}
	return f
}

// readIn reports whether all that is covered is among names.
func (k *Kind) readIn(names []string) bool {
	if k.Numbered != "" || !slices.Contains(names, Field) {
		return false
	}
	return !slices.ContainsFunc(k.Covered, func(name string) bool { return !slices.Contains(names, name) })
}

func (k *Kind) matches(key string, f map[string]string) bool {
	envelope := f[Field]
	if envelope == "" {
		for name, value := range f {
			if stray(value) || k.strays(name, value) {
				return false
			}
		}
		return true // of before
	}
	found, err := sumIn(envelope)
	if err != nil || found == "" {
		return true // Check says what is wrong with it
	}
	get := func(name string) string { return f[name] }
	witness := k.witness(f[k.Witness])
	if is(k.sum(key, get), found[:digits]) {
		return k.Witness == "" || witness == found[digits:]
	}
	if k.Witness == "" || len(found) == digits || witness == found[digits:] {
		return false
	}
	// Somebody has changed it since, who makes no checksums: unless it is the witness
	// alone that is another one.
	then := decimal(found[digits:])
	return !is(k.sum(key, func(name string) string {
		if name == k.Witness {
			return then
		}
		return f[name]
	}), found[:digits]) && later(f[k.Witness], then)
}

// later reports whether a number is higher than one that was there before.
func later(now, then string) bool {
	n, err := strconv.ParseInt(now, 10, 64)
	if then == "" {
		then = "0"
	}
	before, _ := strconv.ParseInt(then, 10, 64)
	return err == nil && n > before
}
