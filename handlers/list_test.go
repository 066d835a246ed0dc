package handlers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPages(t *testing.T) {
	i := start(t)
	i.authenticate()
	for n := range 7 {
		i.want(i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", fmt.Sprint("k", n)), 201, "")
	}
	for _, path := range []string{"/v1/transactions?payee=SHOP.example&", "/v1/events?types=payment.authorized&", "/v1/events?order=desc&types=payment.*&"} {
		seen := map[string]bool{}
		r := i.call("GET", path+"limit=3", "")
		for page := range 4 {
			i.want(r, 200, "")
			for _, row := range r.body["data"].([]any) {
				id := row.(map[string]any)["id"].(string)
				if seen[id] {
					t.Fatalf("%s: %s twice", path, id)
				}
				seen[id] = true
			}
			if r.body["has_more"] == false {
				break
			}
			cursor := r.body["next_cursor"].(string)
			base, _, _ := strings.Cut(path, "?")
			if page == 0 {
				i.want(i.call("GET", base+"?merchant_account_id="+i.config.MerchantAccounts[0].ID+"&cursor="+cursor, ""), 400, "cursor_mismatch")
				i.want(i.call("GET", path+"limit=1&cursor="+cursor, ""), 200, "")
				i.want(i.call("GET", base+"?cursor="+cursor[1:], ""), 400, "cursor_invalid")
			}
			r = i.call("GET", base+"?limit=3&cursor="+cursor, "")
		}
		if len(seen) != 7 {
			t.Errorf("%s: %d of 7", path, len(seen))
		}
	}
}

func TestWaitingForEvents(t *testing.T) {
	i := start(t)
	i.authenticate()
	tail := i.call("GET", "/v1/events?types=payment.*", "").body["next_cursor"].(string)
	answers := make(chan reply, 1)
	wait := func() {
		req := i.request("GET", "/v1/events?wait=20&cursor="+tail, "")
		go func() {
			r, err := i.do(req)
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	receive := func() reply {
		select {
		case r := <-answers:
			return r
		case <-time.After(15 * time.Second):
			t.Fatal("no answer")
			return reply{}
		}
	}
	wait()
	i.want(i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "w"), 201, "")
	r := receive()
	if len(r.body["data"].([]any)) != 1 {
		t.Fatalf("%s", r.text)
	}
	tail = r.body["next_cursor"].(string)
	wait()
	i.handler.Drain()
	if r := receive(); r.StatusCode != 200 || len(r.body["data"].([]any)) != 0 || r.body["next_cursor"] == nil {
		t.Fatalf("%s", r.text)
	}
}
