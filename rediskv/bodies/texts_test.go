package bodies

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// like are texts that look like what is kept in binary, and some that are.
var like = []string{
	"", "0", "00", "7", "-7", "+7", "1795865203909", "9223372036854775807", "999999999999999999", "1000000000000000000", "9223372036854775808", "99999999999999999999",
	"2026-11-28", "2026-11-31", "2026-12-03", "2015-09-17", "2015-09-16", "1969-12-31", "0026-11-28", "2026-11-2x", "2026+11-28", "+026-11-28", "9999-99-99", "20261128",
	"01m8gygn5w30f8bz7bph8n6y00", "7zzzzzzzzzzzzzzzzzzzzzzzzz", "8zzzzzzzzzzzzzzzzzzzzzzzzz", "01M8GYGN5W30F8BZ7BPH8N6Y00", "01m8gygn5w30f8bz7bph8n6y0", "01m8gygn5w30f8bz7bph8n6yil",
	"01m8gygn5w5w30f8bz7bph8n00", "cap_01m8gygn6a5w30f8bz7bph8n01", "txn_01m8gygn6a5w30f8bz7bph8nzz", "01m8gygn6a5w30f8bz7bph8n6y", "1795865203909", "1795865203901", "1795999999999", "1795865203909-0",
	"pay_01m8gygn5w30f8bz7bph8n6y00", "tkt_01m8gygn5w30f8bz7bph8n6y00", "pay_", "pay_pay_", "pay", "authorization", "fee",
	"9d44fde4", "9d44fde", "9D44FDE4", "ab", "1;;9d44fde4", "shop.example", "\xff\x00",
	"1795914453694-3", "1795914453694-03", "1795914453694-", "0795914453694-3", "17959144536940-3", "1795914453694-1795914453694",
	"Sun, 29 Nov 2026 01:07:34 GMT", "Mon, 29 Nov 2026 01:07:34 GMT", "Sun, 29 Nov 2026 01:07:34 UTC", "Sun, 29 Nov 2026 01:07:60 GMT", "Wed, 31 Dec 1969 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
	strings.Repeat("x", 300), strings.Repeat("0f", 200),
}

func TestPackTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		texts := make([]string, random.IntN(20))
		for i := range texts {
			if texts[i] = like[random.IntN(len(like))]; random.IntN(4) == 0 {
				texts[i] = fmt.Sprint(random.Uint64() >> random.IntN(64))
			}
		}
		const next = "\x04"
		var first []string
		if random.IntN(2) == 0 {
			first = []string{like[random.IntN(len(like))], like[random.IntN(len(like))], "1795865203909"}
		}
		known := []string{"", "5w30f8bz7bph8n"}[random.IntN(2)]
		packed := string(PackTexts(nil, texts, known, first...))
		if random.IntN(2) == 0 { // as earlier builds write it
			packed = string(PackTextsPlainly(nil, texts))
		}
		is, err := UnpackTexts(packed, known, first...)
		if err != nil || !slices.Equal(is, texts) {
			t.Fatalf("%q is\n%q, %v", texts, is, err)
		}
		for _, wrong := range []string{"", "\x00" + packed[1:], next + packed[1:], packed + "\x00", packed[:len(packed)-1]} {
			if is, err := UnpackTexts(wrong, known, first...); err == nil {
				t.Fatalf("%q is read as %q", wrong, is)
			}
		}
		if _, err := UnpackTexts(packed, known); (err != nil) != (packed[0] == PackedBehind) {
			t.Fatalf("%q, without what is in front of it: %v", packed, err)
		}
	}
}

// TestTextsAsThen: what was packed stays readable. Another form has another number.
func TestTextsAsThen(t *testing.T) {
	texts := []string{"9d44fde4", "1795865203909", "capture", "pay_01m8gygn5w30f8bz7bph8n6y00", "cap_01m8gygn6530f8bz7bph8n6y01", "", "tkt_01m8gygn5w30f8bz7bph8n6y00", "3338", "GBP", "tea-00107.example", "2026-11-28", "1795914453694-3", "Sun, 29 Nov 2026 01:07:34 GMT", "payment.captured"}
	then := map[int]string{1: "010b229d44fde404c5a9a18fa23413730501a221e854bc181e85fcebb4515378009b010501a221e854c5181e85fcebb451537801036b10048a1a5389017465612d30303130372e6578616d706c650688d2d409", 2: "020e229d44fde404c5a9a18fa234134b0d11181e85fcebb451537800ab010d00181e85fcebb451537801034310048a1a930189017465612d30303130372e6578616d706c6527001ff2f7fb2e030fd6f5add8068b02", 3: "030e229d44fde41710134b08ab010d10181e85fcebb451537801034308048a1a101827001f82f8fb2e030fd6f5add8068b02"}
	const known = "5w30f8bz7bph8n"
	first := []string{"1795865203901", "pay_01m8gygn5w30f8bz7bph8n6y00", "GBP", "tea-00107.example"}
	of := func(form int) []string {
		if form == plainTexts {
			return texts[:11]
		}
		return texts
	}
	if got := fmt.Sprintf("%x", PackTextsPlainly(nil, of(plainTexts))); got != then[plainTexts] {
		t.Errorf("form %d: %s", plainTexts, got)
	}
	if got := fmt.Sprintf("%x", PackTexts(nil, texts, known)); got != then[PackedTexts] {
		t.Errorf("form %d: %s", PackedTexts, got)
	}
	if got := fmt.Sprintf("%x", PackTexts(nil, texts, known, first...)); got != then[PackedBehind] {
		t.Errorf("form %d: %s", PackedBehind, got)
	}
	for form, text := range then {
		b, err := hex.DecodeString(text)
		check(t, err)
		if is, err := UnpackTexts(string(b), known, first...); err != nil || !reflect.DeepEqual(is, of(form)) {
			t.Errorf("form %d: %q, %v", form, is, err)
		}
	}
}

// FuzzUnpackTexts: whatever is read, a text that is refused is the worst of it.
func FuzzUnpackTexts(f *testing.F) {
	f.Add(string(PackTexts(nil, like, "")))
	f.Fuzz(func(t *testing.T, b string) {
		if texts, err := UnpackTexts(b, ""); err == nil {
			if again, err := UnpackTexts(string(PackTexts(nil, texts, "")), ""); err != nil || !slices.Equal(again, texts) {
				t.Errorf("%q is read as %q, and then as %q, %v", b, texts, again, err)
			}
		}
	})
}
