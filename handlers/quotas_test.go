package handlers_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestQuotas: over a quota nothing more is added; two at once exceed none. The
// numbers are the interface's.
func TestQuotas(t *testing.T) {
	w := newWorld(t)
	exceeded := func(r reply, param string) {
		t.Helper()
		if w.want(r, 422, "quota_exceeded"); r.body["param"] != param {
			t.Errorf("param is %v, not %s", r.body["param"], param)
		}
	}
	publish := func(rule string) reply {
		p := w.newPublication(rule, "1", "team")
		return w.call("POST", "/v1/rules", p.body(t))
	}
	for v := range 100 {
		w.want(publish(fmt.Sprintf("rule:many@v%d", v+1)), 201, "")
	}
	exceeded(publish("rule:many@v200"), "rule")
	w.want(publish("rule:many@v7"), 200, "") // what is there is there
	for n := range 200 - 2 {
		w.want(publish(fmt.Sprintf("rule:name_%d@v1", n)), 201, "")
	}
	last := w.atOnce(2, func(i int) (method, path, body string, headers []string) {
		return "POST", "/v1/rules", w.newPublication(fmt.Sprintf("rule:last_%d@v1", i), "1", "team").body(t), nil
	})
	if a, b := last[0].StatusCode, last[1].StatusCode; a+b != 201+422 {
		t.Errorf("two at once: %d and %d", a, b)
	}
	w.want(publish("rule:name_3@v2"), 201, "")

	for range 5 {
		w.want(w.call("POST", "/v1/shadows", `{"rule":"rule:name_1@v1","against":"rule:card_fee@v2"}`), 201, "")
	}
	exceeded(w.call("POST", "/v1/shadows", `{"rule":"rule:name_1@v1","against":"rule:card_fee@v2"}`), "shadows")

	metadata := func(last int) string {
		var list []string
		for n := range 16 { // 16 × (2 + 500)
			list = append(list, fmt.Sprintf(`"%02d":%q`, n, strings.Repeat("x", 500)))
		}
		return fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example","metadata":{%s,"z":%q}}`,
			w.vars["eur"], strings.Join(list, ","), strings.Repeat("x", last))
	}
	w.want(w.pay("fits", metadata(8192-16*502-1)), 201, "")
	exceeded(w.pay("too-large", metadata(8192-16*502)), "metadata")
}
