package handlers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tollgate"
)

// tagged is what was ever answered with an ETag, by path and ETag, and the ETags in their
// order.
type tagged struct {
	w      *world
	bodies map[string]string
	last   map[string]string
}

// read reads an object: what has the ETag of an earlier answer has its bytes, and what has
// changed has another. Whoever names the ETag is told that nothing has.
func (x *tagged) read(path string) {
	x.w.t.Helper()
	r := x.w.want(x.w.call("GET", path, ""), 200, "")
	etag := r.Header.Get("ETag")
	if etag == "" || r.Header.Get("Cache-Control") != "private, no-cache" {
		x.w.t.Fatalf("%s: ETag %q, Cache-Control %q", path, etag, r.Header.Get("Cache-Control"))
	}
	if body, known := x.bodies[path+etag]; known && body != r.text {
		x.w.t.Fatalf("%s: two bodies have the ETag %s:\n%s\n%s", path, etag, body, r.text)
	}
	if last := x.last[path]; last != "" && last != etag && x.bodies[path+last] == r.text {
		x.w.t.Fatalf("%s: nothing has changed, and its ETag was %s and is %s", path, last, etag)
	}
	if last := x.last[path]; last != "" && last != etag {
		x.w.want(x.w.call("GET", path, "", "If-None-Match", last), 200, "")
	}
	x.bodies[path+etag], x.last[path] = r.text, etag
	same := x.w.call("GET", path, "", "If-None-Match", `"other", W/`+etag)
	if same.StatusCode != 304 || same.text != "" || same.Header.Get("ETag") != etag || same.Header.Get("Content-Length") != "" {
		x.w.t.Fatalf("%s: %d %q %v", path, same.StatusCode, same.text, same.Header)
	}
}

// Over random histories of payments, all read again and again, an ETag stands for one
// body alone. The clock moves between any two, and changes none of them by itself.
func TestETagsStandForOneBody(t *testing.T) {
	w := newWorld(t)
	random := rand.New(rand.NewPCG(11, 12))
	x := &tagged{w, map[string]string{}, map[string]string{}}
	var payments []string
	changed := 0
	for n := range 150 {
		w.ahead.Add(int64(random.IntN(7_200)) * int64(time.Second))
		if len(payments) == 0 || random.IntN(5) == 0 {
			method := []string{"manual", "automatic"}[random.IntN(2)]
			r := w.want(w.pay(fmt.Sprint("key-", n), fmt.Sprintf(
				`{"amount":"%d.00","currency":"EUR","payee":"shop.example","merchant_account_id":%q,"capture_method":%q,"metadata":{"n":"%d"}}`, 10+n, w.vars["eur"], method, n)), 201, "")
			payments = append(payments, w.get(r, "id"))
		}
		path := "/v1/payments/" + payments[random.IntN(len(payments))]
		action := []string{`/captures {"amount":"1.00","final_capture":false}`, `/captures {}`, `/cancel {}`, `/refunds {"amount":"0.50"}`, `/refunds {}`}[random.IntN(5)]
		var name, body string
		_, _ = fmt.Sscan(action, &name, &body)
		if r := w.call("POST", path+name, body, "Idempotency-Key", fmt.Sprint("change-", n)); r.StatusCode < 300 {
			changed++
		}
		for range 3 {
			id := payments[random.IntN(len(payments))]
			x.read("/v1/payments/" + id)
			x.read("/v1/tickets/" + tollgate.TicketOf(id))
			x.read("/v1/merchant-accounts/" + w.vars["eur"])
		}
	}
	if changed < 40 {
		t.Errorf("%d changes: this proves little", changed)
	}
}
