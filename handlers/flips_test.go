package handlers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tollgate/rediskv"
)

// turned is a text of which one bit is another one. Turned at the top it is no UTF-8
// any more, at the bottom as a rule another word.
func turned(text string, at int, bit byte) string {
	b := []byte(text)
	b[at] ^= bit
	return string(b)
}

// TestOneBitOfAnEvent: whichever part of an event's entry has a bit that is another
// one, that event stands marked in its place, and all others as they were.
func TestOneBitOfAnEvent(t *testing.T) {
	w := damaged(t)
	key, log := "", []string(nil)
	for k, v := range dump(t, w.redis) {
		if strings.HasSuffix(k, w.vars["org"]+":events") {
			key, log = k, strings.Split(strings.TrimPrefix(v, "stream "), "\x00")
		}
	}
	entriesOf := slices.Collect(slices.Chunk(log, 11)) // id, i, its value, t, …, e, its value
	const victim = 2
	sound := w.want(w.call("GET", "/v1/events?limit=100", ""), 200, "")
	for part, name := range []string{"", "i", "its id", "t", "its type", "a", "its account", "b", "its text", "e", "its envelope"} {
		for _, bit := range []byte{1, 0x80} {
			if part == 0 {
				continue
			}
			text := entriesOf[victim][part]
			check(t, command(t, w.redis, "DEL", key))
			for i, entry := range entriesOf {
				entry = slices.Clone(entry)
				if i == victim {
					entry[part] = turned(text, len(text)/2, bit)
				}
				check(t, command(t, w.redis, append([]string{"XADD", key}, entry...)...))
			}
			r := w.call("GET", "/v1/events?limit=100", "")
			if r.StatusCode != 200 || strings.Count(r.text, `"damaged":true`) != 1 || entries(r) != entries(sound) {
				t.Errorf("%s, bit %#x: %d, %d entries of %d: %.300s", name, bit, r.StatusCode, entries(r), entries(sound), r.text)
			}
		}
	}
}

// TestOneBitOfADelivery: it stands marked in its place in the endpoint's list, and all
// others as they were.
func TestOneBitOfADelivery(t *testing.T) {
	for _, layout := range []rediskv.Layout{rediskv.Compact, rediskv.Dense} {
		oneBitOfADelivery(t, layout)
	}
}

func oneBitOfADelivery(t *testing.T, layout rediskv.Layout) {
	w := damaged(t, layout)
	path := "/v1/webhooks/" + w.vars["webhook"] + "/deliveries?limit=100"
	sound := w.want(w.call("GET", path, ""), 200, "")
	key, fields := "", map[string]string{}
	for k, v := range dump(t, w.redis) {
		if strings.Contains(k, ":dlv_") && strings.HasPrefix(v, "hash ") && !strings.HasSuffix(k, ":att") {
			key = k
			for pair := range strings.SplitSeq(strings.TrimPrefix(v, "hash "), "\x00") {
				name, value, _ := strings.Cut(pair, "=")
				fields[name] = value
			}
		}
	}
	if layout >= rediskv.Dense { // it may have any byte in it
		fields["p"] = hashField(t, w.redis, key, "p")
	}
	inPlace := fmt.Sprintf(`{"object":"delivery","id":"%s","damaged":true}`, key[strings.Index(key, "dlv_"):])
	names := []string{"we", "evt", "et", "sid", "crt", "e"}
	if layout >= rediskv.Dense {
		names = []string{"p"}
	}
	for _, name := range names {
		for _, bit := range []byte{1, 0x80} {
			check(t, command(t, w.redis, "HSET", key, name, turned(fields[name], len(fields[name])-1, bit)))
			if r := w.call("GET", path, ""); r.StatusCode != 200 || strings.Count(r.text, inPlace) != 1 || entries(r) != entries(sound) {
				t.Errorf("%s, bit %#x: %d, %d entries of %d: %.300s", name, bit, r.StatusCode, entries(r), entries(sound), r.text)
			}
		}
		check(t, command(t, w.redis, "HSET", key, name, fields[name]))
	}
	if r := w.want(w.call("GET", path, ""), 200, ""); r.text != sound.text {
		t.Errorf("layout %d, repaired: %s", layout, r.text)
	}
}

// TestOneBitOfARequest: a repeat whose record is another one is neither answered with
// it nor taken for another request, and nothing is carried out.
func TestOneBitOfARequest(t *testing.T) {
	for layout, parts := range map[rediskv.Layout][]string{
		rediskv.Together: {"1;;", "/", " cli_", "\n", `"amount":"100.00"`, `"id":"`, "shop.example"},
		rediskv.Compact:  {"1;", "1;p;", "/", " cli_", "\n", "\n201\n\n"},
	} {
		oneBitOfARequest(t, layout, parts)
	}
}

func oneBitOfARequest(t *testing.T, layout rediskv.Layout, parts []string) {
	w := newWorld(t)
	check(t, w.store.WriteLayout(t.Context(), layout))
	body := `{"merchant_account_id":"` + w.vars["eur"] + `","amount":"100.00","currency":"EUR","payee":"shop.example"}`
	first := w.want(w.pay("once", body), 201, "")
	key, whole := "", ""
	for k, v := range dump(t, w.redis) {
		if strings.Contains(k, ":idem:") {
			key, whole = k, strings.TrimPrefix(v, "string ")
		}
	}
	for _, part := range parts {
		at := strings.Index(whole, part)
		if at < 0 {
			t.Fatalf("there is no %q in %s", part, whole)
		}
		check(t, command(t, w.redis, "SET", key, turned(whole, at+len(part), 1)))
		if r := w.pay("once", body); r.StatusCode != 500 || r.body["code"] != "record_damaged" {
			t.Errorf("behind %q: %d %s", part, r.StatusCode, r.text)
		}
	}
	// A bit of each byte of what stands for the answer.
	for at := len(whole) - 1; layout == rediskv.Compact && !strings.HasSuffix(whole[:at], "\n201\n\n"); at-- {
		check(t, command(t, w.redis, "SET", key, turned(whole, at, 1<<(at%8))))
		if r := w.pay("once", body); r.StatusCode != 500 || r.body["code"] != "record_damaged" {
			t.Fatalf("byte %d, %q: %d %s", at, whole[at], r.StatusCode, r.text)
		}
	}
	// Each bit of the time in its id, by which it would be forgotten and the payment made
	// a second time, and of what is around it.
	for at := range strings.Index(whole, "\n") {
		for bit := range 8 {
			check(t, command(t, w.redis, "SET", key, turned(whole, at, 1<<bit)))
			if r := w.pay("once", body); r.StatusCode != 500 || r.body["code"] != "record_damaged" {
				t.Fatalf("bit %d of byte %d, %q: %d %s", bit, at, whole[at], r.StatusCode, r.text)
			}
		}
	}
	check(t, command(t, w.redis, "SET", key, whole))
	if r := w.want(w.pay("once", body), 201, ""); r.text != first.text {
		t.Errorf("repaired: %s", r.text)
	}
}
