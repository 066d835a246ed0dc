package handlers_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A usage counter that is no number is damage of that counter alone: what would
// be counted in it is neither quoted nor paid, it stands marked in the usage of
// its perimeter, and a payment that was counted before comes to its end.
func TestDamagedCounter(t *testing.T) {
	w := newWorld(t)
	body := func(payee string) string {
		return fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":%q}`, w.vars["budgeted"], payee)
	}
	path := "/v1/perimeters/" + w.vars["budgeted_perimeter"] + "?payee=shop.example"
	bad := map[string][]string{
		"empty": {"SET", "k", ""}, "a word": {"SET", "k", "many"}, "an exponent": {"SET", "k", "1e3"}, "a fraction": {"SET", "k", "1.5"},
		"a zero in front": {"SET", "k", "007"}, "a space": {"SET", "k", " 5"}, "a plus": {"SET", "k", "+5"}, "minus zero": {"SET", "k", "-0"},
		"too long": {"SET", "k", "1000000000000000"}, "nul": {"SET", "k", "5\x00"}, "a hash": {"HSET", "k", "a", "b"},
	}
	n := 0
	for _, kind := range []string{"b", "f"} {
		for _, name := range slices.Sorted(maps.Keys(bad)) {
			t.Run(kind+" "+name, func(t *testing.T) {
				w := *w
				w.t = t
				n++
				defer func() { // the next begins anew
					for key := range dump(t, w.redis) {
						if strings.Contains(key, w.vars["org"]+":use:") {
							check(t, command(t, w.redis, "DEL", key))
						}
					}
				}()
				paid := w.get(w.want(w.pay(fmt.Sprint("first-", n), body("shop.example")), 201, ""), "id")
				counter := ""
				for key := range dump(t, w.redis) {
					if strings.Contains(key, w.vars["org"]+":use:"+kind) {
						counter = key
					}
				}
				_, id, _ := strings.Cut(counter, ":use:")
				write := slices.Clone(bad[name])
				write[1] = counter
				check(t, command(t, w.redis, "DEL", counter))
				check(t, command(t, w.redis, write...))
				inPlace := `{"object":"counter","id":"` + id + `","damaged":true}`

				w.want(w.call("POST", "/v1/quotes", body("shop.example")), 500, "record_damaged")
				kept := dump(t, w.redis).without()
				r := w.want(w.pay(fmt.Sprint("second-", n), body("shop.example")), 500, "record_damaged")
				if !strings.Contains(r.text, id) {
					t.Errorf("which one is not said: %s", r.text)
				}
				w.want(w.call("POST", "/v1/quotes", body("shop.example")), 500, "record_damaged")
				if changes := kept.changes(dump(t, w.redis).without()); len(changes) > 0 {
					t.Errorf("written: %s", strings.Join(changes, "\n"))
				}
				if kind == "f" { // another payee has another
					w.want(w.call("POST", "/v1/quotes", body("other.example")), 200, "")
				}
				for _, path := range []string{path, "/v1/perimeters?payee=shop.example&limit=100"} {
					r := w.want(w.call("GET", path, ""), 200, "")
					if strings.Count(r.text, `"damaged":true`) != 1 || !strings.Contains(r.text, inPlace) {
						t.Errorf("%s: %s", path, r.text)
					}
				}
				if name == "a word" && kind == "b" {
					w.want(w.call("POST", "/v1/payments/"+paid+"/captures", `{"amount":"4.00","final_capture":true}`), 201, "")
				} else if name == "a hash" {
					w.advance(8 * 24 * time.Hour)
					check(t, w.store.ExpirePayment(t.Context(), w.vars["org"], paid))
					r := w.want(w.call("GET", "/v1/payments/"+paid, ""), 200, "")
					if r.body["status"] != "expired" {
						t.Errorf("it is not expired: %s", r.text)
					}
					w.advance(-8 * 24 * time.Hour)
				} else {
					w.want(w.call("POST", "/v1/payments/"+paid+"/cancel", ""), 200, "")
				}
				after := dump(t, w.redis)
				if now := kept[counter]; now == "" || after[counter] != now {
					t.Errorf("the counter was %q, is %q", now, after[counter])
				}
			})
		}
	}
	r := w.want(w.call("GET", "/v1/events?types=integrity.failed&limit=100", ""), 200, "")
	if entries(r) != 2 || strings.Count(r.text, `"object_type":"counter"`) != 2 {
		t.Errorf("told: %s", r.text)
	}
}
