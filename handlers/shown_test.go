package handlers_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/redistest"
)

// one is a request with its first answer.
type one struct {
	path, body, key string
	first           reply
}

// happenings makes payments of all shapes, and lets happen to each what can.
func (w *world) happenings(random *rand.Rand, name string, payments int) (all []one) {
	w.t.Helper()
	send := func(path, body string) reply {
		o := one{path: path, body: body, key: fmt.Sprint(name, len(all))}
		o.first = w.call("POST", path, body, "Idempotency-Key", o.key)
		if o.first.StatusCode < 300 {
			all = append(all, o)
		}
		return o.first
	}
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range payments {
		made := send("/v1/payments", fmt.Sprintf(`{"merchant_account_id":%q,"amount":"%d.%02d","currency":"EUR","payee":"shop.example"%s%s%s%s}`,
			w.vars["eur"], 1+random.IntN(1500), random.IntN(100), pick("", `,"capture_method":"automatic"`), pick("", `,"reference":"a, \"b\""`),
			pick("", `,"description":"Grüße\u2028 <&> 🎁"`), pick("", `,"metadata":{}`, `,"metadata":{"z":"1","a":"\\ü"}`)))
		w.want(made, http.StatusCreated, "")
		at := "/v1/payments/" + w.get(made, "id")
		for range random.IntN(6) {
			w.clock.Advance(time.Duration(random.IntN(3_600_000)) * time.Millisecond)
			clear(w.tokens)
			amount := fmt.Sprintf(`"amount":"0.%02d"`, 1+random.IntN(99))
			switch random.IntN(5) {
			case 0, 1:
				send(at+"/captures", "{"+amount+pick("", `,"final_capture":false`)+pick("", `,"reference":"part"`)+pick("", `,"metadata":{"k":"v"}`)+"}")
			case 2:
				send(at+"/refunds", "{"+amount+pick("", `,"reason":"It broke,\\nsaid \"they\""`, `,"reason":"broken"`)+"}")
			case 3:
				send(at+"/"+pick("approve", "approve", "reject"), pick("{}", `{"reason":"known"}`))
			case 4:
				if random.IntN(2) == 0 {
					send(at+"/cancel", pick("{}", `{"reason":"no, thanks"}`))
				}
			}
		}
	}
	return all
}

// TestAnswersAreMadeAgain: a repeat has the bytes of the first answer whatever has become
// of the payment, and they are kept only where the layout says so.
func TestAnswersAreMadeAgain(t *testing.T) {
	server := redistest.Single(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	random := rand.New(rand.NewPCG(18, 1))
	all := w.happenings(random, "shown-", 120)
	check(t, w.store.WriteLayout(t.Context(), rediskv.Together))
	whole := w.happenings(random, "whole-", 5)
	shown := 0
	for key, value := range dump(t, w.redis) {
		if strings.Contains(key, ":idem:") && strings.HasPrefix(value, "string 1;p;") {
			shown++
			if strings.Contains(value, `"object"`) || len(value) > 350 {
				t.Errorf("%s is kept", value)
			}
		}
	}
	if shown != len(all) || shown < 150 {
		t.Errorf("%d answers are not kept, of %d", shown, len(all))
	}
	w.clock.Advance(36 * time.Hour)
	clear(w.tokens)
	for _, o := range append(all, whole...) {
		again := w.call("POST", o.path, o.body, "Idempotency-Key", o.key)
		if again.text != o.first.text || again.StatusCode != o.first.StatusCode || again.Header.Get("Location") != o.first.Header.Get("Location") || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s %s\n%d %s\n%d %s %s", o.path, o.body, o.first.StatusCode, o.first.text, again.StatusCode, again.text, again.Header.Get("Location"))
		}
	}
}

// TestAnswersThatCannotBeMadeAgain: what is made is what was given, or damage; a build that
// writes other JSON shows the payment of then in its own.
func TestAnswersThatCannotBeMadeAgain(t *testing.T) {
	server := redistest.Single(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	body := `{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"shop.example"}`
	pay := func() reply { return w.pay("once", body) }
	first := w.want(pay(), http.StatusCreated, "")
	key, kept := "", record.Request{}
	for k, v := range dump(t, w.redis) {
		if strings.Contains(k, ":idem:") {
			r, err := record.ReadRequest(strings.TrimPrefix(v, "string "))
			key, kept = k, r
			check(t, err)
		}
	}
	_, kept.Operation, _ = strings.Cut(kept.Operation, "/")
	as := func(shown string) reply {
		t.Helper()
		changed := kept
		changed.Shown = shown
		text, _ := changed.At(key, record.Plain)
		check(t, server.Command("SET", key, text))
		return pay()
	}
	if r := as(kept.Shown); r.text != first.text || r.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", r.StatusCode, r.text)
	}
	head, fields, _ := strings.Cut(kept.Shown, "\n")
	member := strings.Fields(head) // version, checksum, payment
	if r := as("0 00000000 " + member[2] + "\n" + fields); r.text != first.text || r.StatusCode != http.StatusCreated {
		t.Errorf("of another version: %d %s", r.StatusCode, r.text)
	}
	for name, shown := range map[string]string{
		"of another sum":     member[0] + " 00000000 " + member[2] + "\n" + fields,
		"of another amount":  head + "\n" + strings.Replace(fields, "1000", "1001", 1),
		"without fields":     head,
		"without a payment":  member[0] + " " + member[1],
		"of a capture":       head + " cap_07\n" + fields,
		"of a thing unknown": head + " x\n" + fields,
		"of another kind":    strings.Replace(head, "pay_", "tkt_", 1) + "\n" + fields,
	} {
		if r := as(shown); r.StatusCode != http.StatusInternalServerError || r.body["code"] != "record_damaged" {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.text)
		}
	}
	as(kept.Shown)
	payment := strings.Split(key, ":idem:")[0] + ":" + member[2]
	check(t, server.Command("HSET", payment, "amt", "1001"))
	if r := pay(); r.StatusCode != http.StatusInternalServerError || !strings.Contains(r.text, "The payment "+member[2]) {
		t.Errorf("a damaged payment: %d %s", r.StatusCode, r.text)
	}
	check(t, server.Command("DEL", payment))
	if r := pay(); r.StatusCode != http.StatusInternalServerError || r.body["code"] != "record_damaged" {
		t.Errorf("a lost payment: %d %s", r.StatusCode, r.text)
	}
}

// TestDamageOfWhatIsPacked: a ticket, a capture or a refund of which one bit is another is
// named, and nothing is computed from it.
func TestDamageOfWhatIsPacked(t *testing.T) {
	server := redistest.Single(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	paid := w.want(w.pay("one", `{"merchant_account_id":"`+w.vars["eur"]+`","amount":"10.00","currency":"EUR","payee":"shop.example"}`), http.StatusCreated, "")
	at := "/v1/payments/" + w.get(paid, "id")
	capture := func() reply {
		return w.call("POST", at+"/captures", `{"amount":"5.00","final_capture":false}`, "Idempotency-Key", "two")
	}
	first := w.want(capture(), http.StatusCreated, "")
	refund := w.want(w.call("POST", at+"/refunds", `{"amount":"1.00"}`, "Idempotency-Key", "three"), http.StatusCreated, "")
	ticket := w.want(w.call("GET", "/v1/tickets/"+w.get(paid, "ticket_id"), ""), http.StatusOK, "")
	seen := 0
	for key, value := range dump(t, w.redis) {
		if !strings.HasSuffix(key, w.get(paid, "ticket_id")) {
			continue
		}
		whole := strings.TrimPrefix(value, "string ")
		for place := range len(whole) {
			check(t, server.Command("SET", key, turned(whole, place, 1<<(place%8))))
			if r := w.call("GET", "/v1/tickets/"+w.get(paid, "ticket_id"), ""); r.StatusCode != http.StatusInternalServerError || r.body["code"] != "record_damaged" {
				t.Fatalf("byte %d: %d %s", place, r.StatusCode, r.text)
			}
		}
		check(t, server.Command("SET", key, whole))
		if r := w.call("GET", "/v1/tickets/"+w.get(paid, "ticket_id"), ""); r.text != ticket.text || len(whole) > len(ticket.text)/3 {
			t.Errorf("repaired, of %d bytes: %s", len(whole), r.text)
		}
		seen++
	}
	parts := strings.Replace(w.get(paid, "id"), "pay_", "", 1)[10:24]
	for key, value := range dump(t, w.redis) {
		if !strings.HasSuffix(key, ":parts:"+parts) {
			continue
		}
		for _, id := range []string{w.get(first, "id"), w.get(refund, "id")} {
			field := id[len(id)-2:] + ".doc"
			_, rest, _ := strings.Cut(value, field+"=")
			text, _, _ := strings.Cut(rest, "\x00"+field[:2]+".")
			check(t, server.Command("HSET", key, field, turned(text, 20, 1)))
			seen++
		}
	}
	w.want(capture(), http.StatusInternalServerError, "record_damaged") // its answer shows the capture
	if r := w.call("GET", at+"/refunds", ""); r.StatusCode != http.StatusOK || !strings.Contains(r.text, fmt.Sprintf(`{"object":"refund","id":%q,"damaged":true}`, w.get(refund, "id"))) {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	if seen != 3 {
		t.Errorf("%d records", seen)
	}
}
