package handlers_test

import (
	"sync"
	"testing"
	"time"

	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// Two instances change one payment, each with a copy of its own that the other's
// changes make old. Each gets what the payment is in Redis: what its copy would
// refuse is done where it can be, and what its copy would do is refused where it
// cannot.
func TestCopiesOfTwoInstances(t *testing.T) {
	a := newWorld(t)
	b := a.twin()
	pay := func(w *world, key, amount string) string {
		body := `{"merchant_account_id":"` + w.vars["eur"] + `","amount":"` + amount + `","currency":"EUR","payee":"shop.example"}`
		return w.get(w.want(w.pay(key, body), 201, ""), "id")
	}
	post := func(w *world, path, body, key string) reply {
		return w.call("POST", "/v1/payments/"+path, body, "Idempotency-Key", key)
	}
	is := func(id, member, want string) {
		t.Helper()
		for _, w := range []*world{a, b} {
			if got := w.get(w.want(w.call("GET", "/v1/payments/"+id, ""), 200, ""), member); got != want {
				t.Errorf("%s of %s is %s, want %s", member, id, got, want)
			}
		}
	}

	// The copy is behind, and the change is possible all the same.
	id := pay(a, "one", "10.00")
	a.want(post(a, id+"/captures", `{"amount":"1.00","final_capture":false}`, "one-1"), 201, "")
	b.want(post(b, id+"/refunds", `{"amount":"1.00"}`, "one-2"), 201, "")
	a.want(post(a, id+"/captures", `{"amount":"2.00","final_capture":false}`, "one-3"), 201, "")
	is(id, "amount_captured", "3.00")
	is(id, "amount_refunded", "1.00")

	// The copy says no, and Redis says yes.
	b.want(post(b, id+"/captures", `{"amount":"3.00","final_capture":false}`, "one-4"), 201, "")
	a.want(post(a, id+"/refunds", `{"amount":"5.00"}`, "one-5"), 201, "")
	is(id, "amount_refunded", "6.00")
	review := pay(a, "two", "2000.00")
	b.want(post(b, review+"/reviews", `{"decision":"approve"}`, "two-1"), 200, "")
	a.want(post(a, review+"/captures", "", "two-2"), 201, "")

	// The copy says yes, and Redis says no.
	b.want(post(b, id+"/cancel", "", "one-6"), 200, "")
	a.want(post(a, id+"/captures", `{"amount":"1.00"}`, "one-7"), 409, "payment_state_invalid")
	is(id, "status", "captured")

	// A repeat is answered by whichever instance is asked, its copy being what it is.
	first := a.want(post(a, review+"/refunds", `{"amount":"1.00"}`, "two-3"), 201, "")
	again := b.want(post(b, review+"/refunds", `{"amount":"1.00"}`, "two-3"), 201, "")
	if again.text != first.text || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeat was answered\n%s\nand the first\n%s", again.text, first.text)
	}
	is(review, "amount_refunded", "1.00")
	a.want(post(a, review+"/refunds", `{"amount":"2.00"}`, "two-3"), 422, "idempotency_key_reused")

	// A grant that does not reach the account is told so, copy or not.
	other := pay(a, "three", "10.00")
	token := "Bearer " + a.token("elsewhere", "")
	a.want(a.call("POST", "/v1/payments/"+other+"/cancel", "", "Authorization", token, "Idempotency-Key", "three-1"), 403, "merchant_account_forbidden")
	is(other, "status", "authorized")
}

// However many captures race on two instances, each with its copies, no more is
// captured than there is, and each that was acknowledged is.
func TestRacingCopies(t *testing.T) {
	a := newWorld(t)
	b := a.twin()
	body := `{"merchant_account_id":"` + a.vars["eur"] + `","amount":"0.20","currency":"EUR","payee":"shop.example"}`
	id := a.get(a.want(a.pay("raced", body), 201, ""), "id")
	b.want(b.call("GET", "/v1/payments/"+id, ""), 200, "")
	var lock sync.Mutex
	done := 0
	var racing sync.WaitGroup
	for n := range 8 {
		w := []*world{a, b}[n%2]
		token := "Bearer " + w.token("all", "")
		racing.Go(func() {
			for range 5 {
				r, err := w.try(w.request("POST", "/v1/payments/"+id+"/captures", `{"amount":"0.01","final_capture":false}`, "Authorization", token))
				if err != nil || (r.StatusCode != 201 && r.StatusCode != 409 && r.StatusCode != 422) {
					t.Errorf("%v: %s", err, r.text)
				}
				lock.Lock()
				if r.StatusCode == 201 {
					done++
				}
				lock.Unlock()
			}
		})
	}
	racing.Wait()
	p := a.want(a.call("GET", "/v1/payments/"+id, ""), 200, "")
	if done != 20 || a.get(p, "amount_captured") != "0.20" || a.get(p, "status") != "captured" {
		t.Errorf("%d captures of 0.01 were acknowledged: %s", done, p.text)
	}
}

// The reply to a capture from a copy is lost and the client asks again: there is
// one capture. Where it asks without its key, the payment has gone on and the
// second capture is computed from what is there.
func TestReplyLostFromACopy(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startWith(t, rediskv.Options{URL: wire.URL, Clock: time.Now, Timeout: redistest.Patience})
	i.authenticate()
	p := i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "paid")
	i.want(p, 201, "")
	path := "/v1/payments/" + p.body["id"].(string) + "/captures"
	capture := func(headers ...string) reply {
		return i.call("POST", path, `{"amount":"1.00","final_capture":false}`, headers...)
	}
	wire.Reset()
	i.want(capture(), 201, "")
	if n := wire.Count("EVALSHA"); n != 1 {
		t.Fatalf("a capture from a copy ran %d scripts", n)
	}
	script := lastScript(t, wire)
	check := lose(t, wire, script, sends)
	i.want(capture("Idempotency-Key", "lost"), 503, "store_unavailable")
	check()
	again := capture("Idempotency-Key", "lost")
	i.want(again, 201, "")
	if again.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("it was carried out a second time")
	}
	check = lose(t, wire, script, sends)
	i.want(capture(), 503, "store_unavailable")
	check()
	i.want(capture(), 201, "")
	now := i.call("GET", path[:len(path)-len("/captures")], "")
	i.want(now, 200, "")
	if now.body["amount_captured"] != "4.00" { // of five answers two were of one capture
		t.Errorf("captured: %v", now.body["amount_captured"])
	}
}
