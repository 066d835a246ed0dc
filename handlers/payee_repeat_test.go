package handlers_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// earlierPrint is the fingerprint of a payment as releases made it that kept
// payees as they were sent.
func earlierPrint(account, payee string) string {
	sum := sha256.Sum256([]byte(`{"operation":"payments.create","id":"","request":{"merchant_account_id":"` + account +
		`","amount":"10.00","currency":"EUR","payee":"` + payee + `","capture_method":"manual","reference":"r","description":null,"metadata":{"a":"b"}}}`))
	return fmt.Sprintf("%x", sum)
}

// TestRepeatsOfEarlierPayees: a key that was used before payees had one form is
// repeated by the same request, also where its payee is none any more; another
// request does not get its answer.
func TestRepeatsOfEarlierPayees(t *testing.T) {
	for payee, print := range map[string]string{ // as commit 6025134 made them
		"HTTPS://Shop.Example:443/a": "04ee5d05dd556fc0a92e5ba4369680189c88f3d6ee12275261d4ab41c3c1f1ab",
		"https:shop.example":         "a9bd7caf2e3c524cc4d64679fee020fb1f4c1cdaeb1391a4ea833a34d82a915e",
	} {
		if got := earlierPrint("ma_1", payee); got != print {
			t.Fatalf("%s: %s", payee, got)
		}
	}
	server := redistest.Single(t)
	w := newWorldOn(t, server.URL, newRecorder(t))
	check(t, w.store.WriteLayout(t.Context(), rediskv.Together)) // earlier releases keep every answer whole
	pay := func(key, payee string) reply {
		return w.call("POST", "/v1/payments", `{"merchant_account_id":"`+w.vars["eur"]+`","amount":"10.00","currency":"EUR","payee":"`+payee+`","reference":"r","metadata":{"a":"b"}}`, "Idempotency-Key", key)
	}
	for _, c := range []struct{ sent, now string }{
		{"HTTPS://Shop.Example:443/a", "https://shop.example/a"},
		{"2001:DB8:0::7", "2001:db8::7"},
		{"https:shop.example", ""},
		{"shop.example:443", ""},
		{"0x7f.1", ""},
	} {
		known := dump(t, w.redis)
		first := pay("k-"+c.sent, "stored.example") // stands for what was answered then
		w.want(first, 201, "")
		for key, value := range dump(t, w.redis) {
			if _, there := known[key]; there || !strings.Contains(key, w.vars["org"]+":idem:") {
				continue
			}
			lines := strings.SplitN(strings.TrimPrefix(value, "string "), "\n", 5)
			lines[0], _, _ = strings.Cut(lines[0], " ")
			_, lines[0], _ = strings.Cut(lines[0], "/") // it has no checksum
			lines[1] = earlierPrint(w.vars["eur"], c.sent)
			check(t, server.Command("SET", key, strings.Join(lines, "\n"), "KEEPTTL"))
		}
		again := pay("k-"+c.sent, c.sent)
		if again.StatusCode != 201 || again.text != first.text || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s", c.sent, again.StatusCode, again.text)
		}
		w.want(pay("k-"+c.sent, "https:other.example"), 422, "idempotency_key_reused")
		w.want(pay("k-"+c.sent, "other.example"), 422, "idempotency_key_reused")
		if c.now == "" {
			w.want(pay("fresh-"+c.sent, c.sent), 422, "payee_invalid")
		} else if r := pay("fresh-"+c.sent, c.sent); r.StatusCode != 201 || r.body["payee"] != c.now {
			t.Errorf("%s: %d %s", c.sent, r.StatusCode, r.text)
		}
	}
	// What else is wrong is said, too.
	w.want(w.call("POST", "/v1/payments", `{"amount":"x","currency":"EUR","payee":"https:shop.example"}`, "Idempotency-Key", "wrong"), 422, "amount_invalid")
	w.want(w.call("POST", "/v1/payments", `{"merchant_account_id":"ma_none","amount":"1.00","currency":"EUR","payee":"https:shop.example"}`, "Idempotency-Key", "wrong"), 422, "payee_invalid")
}
