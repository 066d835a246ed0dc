package record

import (
	"maps"
	"strings"
	"testing"
)

const foldedKey = "{p07}:org_a:dlv_01m8jdfmq0h93c6laq2vtlomm1"

// foldedDelivery is a delivery as its hash has it, and as it is read.
func foldedDelivery() (stored, read map[string]string) {
	pairs := []any{
		"we", "we_01m8jdfmmr68wew4pkb4gmbvpf", "evt", "evt_01m8jdfmn23csaf30bf5qb8gzy", "et", "payment.captured", "sid", "1795914453694-3", "crt", "1795914453735",
	}
	pairs = append(pairs, Field, Seal(foldedKey, pairs, nil))
	stored, read = map[string]string{"st": "sending", "1": "an attempt"}, map[string]string{"st": "sending", "1": "an attempt"}
	for i := 0; i < len(pairs); i += 2 {
		read[pairs[i].(string)] = pairs[i+1].(string)
	}
	fold := PiecePairs(FoldField, KindOf(foldedKey).Fold(pairs))
	for i := 0; i < len(fold); i += 2 {
		stored[fold[i].(string)] = fold[i+1].(string)
	}
	return stored, read
}

func TestFold(t *testing.T) {
	stored, read := foldedDelivery()
	if is := Verified(foldedKey, maps.Clone(stored)); !maps.Equal(is, read) {
		t.Errorf("it is read as\n%v, and was\n%v", is, read)
	}
	if n := len(stored[FoldField]); n > piece || stored["p+"] != "" {
		t.Errorf("it takes up %d bytes and %q", n, stored["p+"])
	}
	if is := Verified(foldedKey, maps.Clone(read)); !maps.Equal(is, read) {
		t.Errorf("unfolded, it is read as %v", is)
	}
	for name, change := range map[string]func(map[string]string){
		"another name":    func(f map[string]string) { f["q"] = f["p"]; delete(f, "p") },
		"one beside":      func(f map[string]string) { f["evt"] = read["evt"] },
		"one byte less":   func(f map[string]string) { f["p"] = f["p"][1:] },
		"one more piece":  func(f map[string]string) { f["p+"] = "+" },
		"another's":       func(f map[string]string) { f["p"] = strings.Replace(f["p"], "\x02", "\x01", 1) },
		"an unknown form": func(f map[string]string) { f["p"] = "\x03" + f["p"][1:] },
	} {
		f := maps.Clone(stored)
		change(f)
		if Check(Verified(foldedKey, f)[Field]) == nil {
			t.Errorf("%s: nobody notices", name)
		}
	}
}

// TestFoldedEnvelope: of an envelope whose witness is the field beside it, the checksum alone
// is kept; and a script that changes what it covers takes the checksum away.
func TestFoldedEnvelope(t *testing.T) {
	const key = "{p07}:org_a:pay_01m8jdfmq0h93c6laq2vtlomm1"
	k := KindOf(key)
	fold := func(v, sealed string) (stored, read map[string]string) {
		pairs := []any{Field, "", "st", "captured", "v", sealed, "crt", "1795914453735"}
		if pairs[1] = Seal(key, pairs, nil); v != sealed { // somebody makes no checksums
			pairs[3], pairs[5] = "canceled", v
		}
		read, stored = map[string]string{}, map[string]string{"v": v}
		for i := 0; i < len(pairs); i += 2 {
			read[pairs[i].(string)] = pairs[i+1].(string)
		}
		PutPieces(stored, FoldField, string(k.Fold(pairs)))
		return stored, read
	}
	short, read := fold("27", "27")
	if is := Verified(key, maps.Clone(short)); !maps.Equal(is, read) || !strings.HasSuffix(is[Field], "1b") {
		t.Errorf("it is read as\n%v, and was\n%v", is, read)
	}
	if high, _ := fold("27000000", "27000000"); len(high[FoldField]) != len(short[FoldField]) {
		t.Errorf("with a higher revision it takes up %d bytes, and %d", len(high[FoldField]), len(short[FoldField]))
	}
	later, read := fold("28", "27")
	if is := Verified(key, maps.Clone(later)); !maps.Equal(is, read) {
		t.Errorf("changed since, it is read as\n%v, and was\n%v", is, read)
	}
	for name, change := range map[string]struct {
		beside map[string]string
		whole  bool
	}{
		"another revision":        {map[string]string{"v": "28"}, false},
		"no checksum any more":    {map[string]string{Field: Format, "use0": "-"}, true},
		"another checksum":        {map[string]string{Field: begin + "00000000"}, false},
		"one of what is folded":   {map[string]string{"st": "captured"}, false},
		"another state":           {map[string]string{"st": "canceled"}, false},
		"folded, by another name": {map[string]string{FoldField: "", "q": short[FoldField]}, false},
	} {
		f := maps.Clone(short)
		maps.Copy(f, change.beside)
		if f[FoldField] == "" {
			delete(f, FoldField)
		}
		if err := Check(Verified(key, f)[Field]); (err == nil) != change.whole {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDenseRequest: a record in binary has the same members as one in lines, and one that
// cannot be in binary is in lines.
func TestDenseRequest(t *testing.T) {
	const key = "{p07}:org_a:idem:x"
	print := strings.Repeat("0123456789abcdef", 4)
	of := Request{Operation: "01m8jdfmt4sfzr974ja9am4ytp cli_01kb7z2c000000000000000005", Fingerprint: print, Status: 201, Shown: "1 d37a75df pay_01m8jdfmxsg4qpmjy1fjeh4h00\nauthorized\n4970\n\n1795914453945"}
	text, envelope := of.At(key, Dense)
	r, err := ReadRequest(text)
	if err != nil || CheckRequest(key, text) != nil || !strings.HasPrefix(text, envelope) || !strings.HasPrefix(envelope, densely) {
		t.Fatalf("%q: %v, %v", text, err, CheckRequest(key, text))
	}
	if r.Operation != envelope+of.Operation || r.Fingerprint != print[:32] || r.Status != of.Status || r.Shown != of.Shown || r.Location != "" || r.Body != nil {
		t.Errorf("it is read as %+v", r)
	}
	if lines, _ := of.At(key, Plain); len(text) > len(lines)-90 {
		t.Errorf("it has %d bytes, and %d in lines", len(text), len(lines))
	}
	for name, change := range map[string]func(*Request){
		"an operation of another form": func(r *Request) { r.Operation = "op_1 cli_01kb7z2c000000000000000005" },
		"a client of another form":     func(r *Request) { r.Operation = "01m8jdfmt4sfzr974ja9am4ytp cli_shop" },
		"with a reach":                 func(r *Request) { r.Operation += " ma_1" },
		"another fingerprint":          func(r *Request) { r.Fingerprint = print[1:] },
		"no digits":                    func(r *Request) { r.Fingerprint = strings.Repeat("x", 64) },
		"a body":                       func(r *Request) { r.Shown, r.Body = "", []byte("{}") },
	} {
		one := of
		change(&one)
		text, envelope := one.At(key, Dense)
		if r, err := ReadRequest(text); err != nil || strings.HasPrefix(text, densely) || r.Operation != envelope+one.Operation || r.Fingerprint != one.Fingerprint || r.Shown != one.Shown {
			t.Errorf("%s: %q is read as %+v, %v", name, text, r, err)
		}
	}
	for at := range text {
		for bit := range 8 {
			b := []byte(text)
			b[at] ^= 1 << bit
			if CheckRequest(key, string(b)) == nil {
				t.Errorf("bit %d of byte %d: nobody notices", bit, at)
			}
		}
	}
}
