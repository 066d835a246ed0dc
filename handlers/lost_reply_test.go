package handlers_test

import (
	"fmt"
	"testing"
	"time"

	"tollgate/rediskv/redistest"
)

// sends is how often go-redis sends a command in all before it gives up.
const sends = 4

// lose loses the replies to the next n commands and returns a check that all
// of them were carried out and lost.
func lose(t *testing.T, wire *redistest.Wire, command string, n int) (check func()) {
	t.Helper()
	lost := make([]<-chan struct{}, n)
	for i := range lost {
		lost[i] = wire.SwallowReply(command)
	}
	return func() {
		t.Helper()
		for i, l := range lost {
			select {
			case <-l:
			case <-time.After(30 * time.Second):
				t.Fatalf("%d of %d replies were lost", i, n)
			}
		}
	}
}

// lastScript is the script that was sent last.
func lastScript(t *testing.T, wire *redistest.Wire) string {
	t.Helper()
	sent := wire.Sent()
	if len(sent) == 0 || sent[len(sent)-1].Name != "EVALSHA" {
		t.Fatalf("sent last: %+v", sent)
	}
	return "EVALSHA " + sent[len(sent)-1].Arg
}

// Redis carries a change out and its reply is lost. Where the script is sent
// again and answered, the client notices nothing. Where no reply comes through,
// it gets 503, asks again with its key, and finds one payment, or one capture.
func TestReplyLost(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	i.authenticate()
	count := func(path string) int {
		r := i.call("GET", path, "")
		i.want(r, 200, "")
		return len(r.body["data"].([]any))
	}
	for _, change := range []struct{ name, path, body, transactions string }{
		{"payment", "/v1/payments", `{` + good + `}`, "authorization"},
		{"capture", "", `{"amount":"1.00","final_capture":false}`, "capture"},
	} {
		post := func(key string) reply {
			return i.call("POST", change.path, change.body, "Idempotency-Key", key)
		}
		if change.path == "" {
			p := i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "to-capture")
			i.want(p, 201, "")
			change.path = "/v1/payments/" + p.body["id"].(string) + "/captures"
		}
		i.want(post(change.name+"-before"), 201, "")
		script := lastScript(t, wire)
		transactions, events := count("/v1/transactions?limit=100&type="+change.transactions), count("/v1/events?limit=100&types=payment.*")

		check := lose(t, wire, script, 1)
		once := post(change.name + "-once")
		i.want(once, 201, "")
		check()
		if once.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: the client repeated nothing, and is told that it did", change.name)
		}
		check = lose(t, wire, script, sends)
		lost := post(change.name + "-all")
		i.want(lost, 503, "store_unavailable")
		check()
		if lost.Header.Get("Retry-After") == "" {
			t.Errorf("%s: 503 without Retry-After", change.name)
		}
		again := post(change.name + "-all")
		i.want(again, 201, "")
		if again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: carried out anew", change.name)
		}
		if got := count("/v1/transactions?limit=100&type=" + change.transactions); got != transactions+2 {
			t.Errorf("%s: %d transactions, want %d", change.name, got, transactions+2)
		}
		if got := count("/v1/events?limit=100&types=payment.*"); got != events+2 {
			t.Errorf("%s: %d events, want %d", change.name, got, events+2)
		}
	}
}

// A capture without a key that was carried out is found to be this very one
// when the script is sent again; the client gets its answer, not a conflict.
func TestReplyLostWithoutKey(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	i.authenticate()
	p := i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "one")
	i.want(p, 201, "")
	path := "/v1/payments/" + p.body["id"].(string)
	body := `{"amount":"1.00","final_capture":false}`
	i.want(i.call("POST", path+"/captures", body), 201, "")
	check := lose(t, wire, lastScript(t, wire), 2)
	i.want(i.call("POST", path+"/captures", body), 201, "")
	check()
	r := i.call("GET", path, "")
	if i.want(r, 200, ""); r.body["amount_captured"] != "2.00" {
		t.Errorf("captured twice 1.00: %s", r.text)
	}
}

// A token whose reply was lost is handed out when the script finds that it was
// this request that burnt the assertion. Where no reply comes through, the
// assertion is used up (RFC 7523 §3: jti), and a new one gets a token.
func TestReplyLostToTokens(t *testing.T) {
	wire := redistest.Proxy(t, redistest.Single(t).URL)
	i := startOn(t, wire.URL)
	i.authenticate()
	script := lastScript(t, wire)
	check := lose(t, wire, script, 1)
	i.authenticate()
	check()

	assertion := i.assertion()
	check = lose(t, wire, script, sends)
	lost := i.askToken(tokenForm(assertion))
	i.want(lost, 503, "store_unavailable")
	check()
	if lost.Header.Get("Retry-After") == "" || lost.body["error"] != "temporarily_unavailable" {
		t.Errorf("%v %s", lost.Header, lost.text)
	}
	i.want(i.askToken(tokenForm(assertion)), 401, "token_invalid")
	i.authenticate()
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`), 200, "")
}

// besides is a world whose server speaks to Redis through a wire, and an
// instance that does not.
func besides(t *testing.T) (w, other *world, wire *redistest.Wire) {
	t.Helper()
	server := redistest.Single(t)
	wire = redistest.Proxy(t, server.URL)
	w = newWorldOn(t, wire.URL, newRecorder(t))
	direct := *w
	direct.redis = server.URL
	return w, direct.twin(), wire
}

// One request without a key is carried out once, although its reply is lost and
// another instance changes the same before it is sent again.
func TestReplyLostBetweenChanges(t *testing.T) {
	w, other, wire := besides(t)
	p := w.get(w.want(w.pay("one", fmt.Sprintf(`{"merchant_account_id":%q,"amount":"10.00","currency":"EUR","payee":"shop.example"}`, w.vars["eur"])), 201, ""), "id")
	capture := func(w *world, amount string) reply {
		return w.want(w.call("POST", "/v1/payments/"+p+"/captures", `{"amount":"`+amount+`","final_capture":false}`), 201, "")
	}
	capture(w, "1.00")
	script := lastScript(t, wire)
	capture(other, "1.00")               // has a token, and its caches are full
	w.call("GET", "/v1/payments/"+p, "") // its copy is the payment as it is
	lost := wire.SwallowReplyAfter(script, func() { capture(other, "2.00") })
	mine := capture(w, "3.00")
	<-lost
	if w.get(mine, "amount") != "3.00" || w.get(mine, "payment.amount_captured") != "5.00" {
		t.Errorf("not the answer of the first sending: %s", mine.text)
	}
	if got := w.get(w.call("GET", "/v1/payments/"+p, ""), "amount_captured"); got != "7.00" {
		t.Errorf("captured %s of 1.00, 1.00, 2.00 and 3.00", got)
	}

	hook := w.get(w.want(w.hook(""), 201, ""), "id")
	rotate := func(w *world) reply { return w.want(w.call("POST", "/v1/webhooks/"+hook+"/secrets", ""), 201, "") }
	lost = wire.SwallowReplyAfter(lastScript(t, wire), func() { rotate(other) })
	shown := w.get(rotate(w), "secret")
	<-lost
	e, keys := w.signingKeys(hook)
	if len(e.SigningKeys) != 3 {
		t.Fatalf("%d keys after two rotations", len(e.SigningKeys))
	}
	if keys[1].Version != 2 || keys[1].Text() != shown {
		t.Error("the secret that was shown is not the one that was made first")
	}
}
