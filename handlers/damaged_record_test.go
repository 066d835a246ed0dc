package handlers_test

import (
	"strings"
	"testing"
)

// A record of a request that cannot be read is nobody's fault but the
// service's: the request is neither carried out again nor refused as another.
func TestDamagedRecordOfARequest(t *testing.T) {
	w := newWorld(t)
	payment := `{"merchant_account_id":"` + w.vars["eur"] + `","amount":"10.00","currency":"EUR","payee":"shop.example"}`
	pay := func() reply { return w.pay("once", payment) }
	other := func() reply { return w.pay("once", strings.Replace(payment, "10.00", "11.00", 1)) }
	hook := func() reply {
		return w.call("POST", "/v1/webhooks", `{"url":"https://shop.example/hook"}`, "Idempotency-Key", "hook")
	}
	for _, request := range []struct {
		name string
		send func() reply
	}{{"payment", pay}, {"webhook", hook}} {
		before := dump(t, w.redis)
		w.want(request.send(), 201, "")
		key, whole := "", ""
		for k, v := range dump(t, w.redis) {
			if strings.Contains(k, ":idem:") && before[k] == "" {
				key, whole = k, strings.TrimPrefix(v, "string ")
			}
		}
		line := strings.SplitN(whole, "\n", 5)
		record := func(place int, text string) string {
			changed := append([]string(nil), line...)
			changed[place] = text
			return strings.Join(changed, "\n")
		}
		for name, text := range map[string]string{
			"empty":                    "",
			"without a line":           line[0],
			"without a fingerprint":    record(1, ""),
			"half a fingerprint":       record(1, line[1][:32]),
			"no fingerprint":           record(1, "x"+line[1][1:]),
			"without a status":         record(2, ""),
			"a status of another kind": record(2, "2o1"),
			"a status of long ago":     record(2, "20"),
			"without an operation":     record(0, ""),
			"nobody's":                 record(0, strings.Replace(line[0], "cli_", "c_", 1)),
			"cut before the status":    strings.Join(line[:2], "\n") + "\n",
			"cut in the status":        strings.Join(line[:2], "\n") + "\n20",
			"cut before the body":      strings.Join(line[:4], "\n"),
			"without a body":           record(4, ""),
			"cut in the body":          whole[:len(whole)-7],
		} {
			t.Run(request.name+" "+name, func(t *testing.T) {
				w := *w
				w.t = t
				check(t, command(t, w.redis, "SET", key, text))
				w.want(request.send(), 500, "record_damaged") // the first one is told of
				kept := dump(t, w.redis).without()
				w.want(request.send(), 500, "record_damaged")
				if request.name == "payment" && !strings.Contains(name, "body") {
					w.want(other(), 500, "record_damaged")
				}
				if changes := kept.changes(dump(t, w.redis).without()); len(changes) > 0 {
					t.Errorf("written: %s", strings.Join(changes, "\n"))
				}
			})
		}
		check(t, command(t, w.redis, "DEL", key))
		check(t, command(t, w.redis, "HSET", key, "a", "b"))
		w.want(request.send(), 500, "record_damaged")
		check(t, command(t, w.redis, "DEL", key))
		check(t, command(t, w.redis, "SET", key, whole))
		if r := w.want(request.send(), 201, ""); r.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: repaired, it is no repeat", request.name)
		}
	}
	if n := entries(w.want(w.call("GET", "/v1/payments", ""), 200, "")); n != 1 {
		t.Errorf("%d payments", n)
	}
	r := w.want(w.call("GET", "/v1/events?types=integrity.failed", ""), 200, "")
	if entries(r) != 2 || strings.Count(r.text, `"object_type":"idempotency_record"`) != 2 {
		t.Errorf("told: %s", r.text)
	}
}
