package record

import (
	"math/rand/v2"
	"testing"
)

// TestSealOrder: the checksum of a hash is that of its fields, in whichever order they
// are written, and of what stands beside them.
func TestSealOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, key := range []string{"{p07}:org_1:pay_1", "{p07}:org_1:txn_1", "{p07}:org_1:po_1", "{p07}:org_1:dlv_1"} {
		k := KindOf(key)
		f := map[string]string{}
		for i, name := range k.Covered {
			if i%3 != 0 {
				f[name] = name + "'s"
			}
		}
		if k.Numbered != "" {
			f[k.Numbered+"0"], f[k.Numbered+"1"] = "first", uncounted
		}
		for range 50 {
			var pairs []any
			beside := map[string]string{}
			for name, value := range f { // in another order each time
				switch random.IntN(4) {
				case 0:
					beside[name] = value
				case 1:
					beside[name] = "before" // which is what it is no more
					fallthrough
				default:
					pairs = append(pairs, name, value)
				}
			}
			pairs = append(pairs, Field, Format)
			f[Field] = Seal(key, pairs, beside)
			if !k.matches(key, f) {
				t.Fatalf("%s: %q of %q beside %q", key, f[Field], pairs, beside)
			}
			delete(f, Field)
		}
	}
}
