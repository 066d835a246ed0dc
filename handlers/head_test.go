package handlers_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A HEAD is answered wherever GET is, with the status and the headers of GET
// and without its body (interface §11): for what is there, for what is not, and
// for what is refused.
func TestHeadIsGetWithoutTheBody(t *testing.T) {
	w := newWorld(t)
	payment := w.get(w.want(w.pay("k", `{"amount":"10.00","currency":"EUR","payee":"shop.example","merchant_account_id":"`+w.vars["eur"]+`"}`), 201, ""), "id")
	ids := map[string]string{
		"organization_id": w.vars["org"], "legal_entity_id": w.vars["entity"], "merchant_account_id": w.vars["eur"],
		"grant_id": w.vars["grant_all"], "perimeter_id": w.vars["eur_perimeter"], "payment_id": payment,
		"ticket_id": "tkt_" + strings.TrimPrefix(payment, "pay_"), "rule_set_id": w.vars["eur_rules"],
		"job_id": madeExport(w), "rule_id": "rul_card_fee_v2",
	}
	found := 0
	for _, route := range w.server.Routes() {
		if route.Method != http.MethodGet {
			continue
		}
		path := route.Path
		for name, id := range ids {
			path = strings.ReplaceAll(path, "{"+name+"}", id)
		}
		path = strings.NewReplacer("{", "", "}", "").Replace(path) // the others are not there
		for _, headers := range [][]string{nil, {"Authorization", ""}, {"Accept", "text/plain"}, {"If-None-Match", "*"}} {
			get, head := w.call("GET", path, "", headers...), w.call("HEAD", path, "", headers...)
			if get.StatusCode == http.StatusOK {
				found++
			}
			alike(t, path, get, head)
		}
		w.want(w.call("HEAD", path+"?unknown=1", ""), w.call("GET", path+"?unknown=1", "").StatusCode, "")
	}
	if found < 40 {
		t.Errorf("%d requests found something", found)
	}
}

// alike holds the answer of a HEAD to that of a GET.
func alike(t *testing.T, path string, get, head reply) {
	t.Helper()
	if head.StatusCode != get.StatusCode {
		t.Errorf("HEAD %s: %d, and GET %d", path, head.StatusCode, get.StatusCode)
	}
	if head.text != "" {
		t.Errorf("HEAD %s has the body %q", path, head.text)
	}
	for _, name := range []string{"Request-Id", "Date"} {
		if head.Header.Get(name) == "" {
			t.Errorf("HEAD %s: no %s", path, name)
		}
		get.Header.Del(name)
		head.Header.Del(name)
	}
	if get.StatusCode != http.StatusNotModified && head.ContentLength != int64(len(get.text)) {
		t.Errorf("HEAD %s: Content-Length %d of %d bytes", path, head.ContentLength, len(get.text))
	}
	for name := range get.Header {
		if have, want := strings.Join(head.Header.Values(name), ","), strings.Join(get.Header.Values(name), ","); have != want {
			t.Errorf("HEAD %s: %s is %q, and of GET %q", path, name, have, want)
		}
	}
	for name := range head.Header {
		if get.Header.Values(name) == nil {
			t.Errorf("HEAD %s: %s, which GET does not have", path, name)
		}
	}
}

// A HEAD of the events asks for no place among those that wait. One of a file says how long it is and that it has
// ranges, and has none itself (RFC 9110 §14.2).
func TestHeadsOfWhatTakesLong(t *testing.T) {
	w := newWorld(t)
	if r := w.call("HEAD", "/v1/events?wait=20&after=latest", ""); r.StatusCode != 200 || r.text != "" {
		t.Errorf("events: %d", r.StatusCode)
	}
	if r := w.call("HEAD", "/v1/events?wait=21", ""); r.StatusCode != 400 {
		t.Errorf("events that wait too long: %d", r.StatusCode)
	}
	path := "/v1/exports/" + madeExport(w) + "/file"
	get, head := w.call("GET", path, ""), w.call("HEAD", path, "", "Range", "bytes=0-3")
	if get.StatusCode != 200 || get.text == "" || head.Header.Get("Accept-Ranges") != "bytes" {
		t.Fatalf("file: %d, %v", get.StatusCode, head.Header)
	}
	if head.Header.Get("Content-Length") != strconv.Itoa(len(get.text)) {
		t.Errorf("the file has %d bytes, HEAD says %s", len(get.text), head.Header.Get("Content-Length"))
	}
	alike(t, path, get, head)
}

// madeExport is an export whose file is there.
func madeExport(w *world) string {
	w.t.Helper()
	r := w.want(w.call("POST", "/v1/exports/preview", `{"dataset":"payments"}`, "Idempotency-Key", "export"), 202, "")
	check(w.t, w.exports())
	return w.get(r, "id")
}
