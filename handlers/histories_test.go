package handlers_test

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate"
	"tollgate/rediskv/redistest"
)

// A client that knows more than Redis has is told of it, and nothing is done for it
// until it has a token of the history that goes on.
func TestHistoryChanges(t *testing.T) {
	w := newWorld(t)
	ctx, org := t.Context(), w.vars["org"]
	const one, two = `{"amount":"1.00","currency":"EUR","payee":"shop.example","merchant_account_id":"`, `","reference":"order-1"}`
	body := one + w.vars["wide"] + two
	kept := w.want(w.pay("a", body), 201, "")
	w.want(w.pay("b", body), 201, "")
	events := w.want(w.call("GET", "/v1/events?types=payment.*&limit=2", ""), 200, "")
	first, _ := events.body["data"].([]any)[0].(map[string]any)["history_id"].(string)
	tail := "/v1/events?types=payment.*&cursor=" + url.QueryEscape(w.get(events, "next_cursor"))
	list := "/v1/payments?limit=1&cursor=" + url.QueryEscape(w.get(w.want(w.call("GET", "/v1/payments?limit=1", ""), 200, ""), "next_cursor"))
	w.want(w.call("GET", tail, ""), 200, "")
	w.want(w.call("GET", list, ""), 200, "")

	// Redis is as it was before the second payment.
	k := w.store.Space(org)
	last, err := w.store.Redis.XRevRangeN(ctx, k.Events(), "+", "-", 1).Result()
	must(t, last, err)
	check(t, w.store.Redis.XDel(ctx, k.Events(), last[0].ID).Err())
	check(t, w.store.Redis.HIncrBy(ctx, k.Sequences(), "event", -1).Err())
	last, err = w.store.Redis.XRevRangeN(ctx, k.Events(), "+", "-", 1).Result()
	must(t, last, err)
	milli, _, _ := strings.Cut(last[0].ID, "-")
	n, err := strconv.ParseInt(milli, 10, 64)
	must(t, n, err)
	at := tollgate.Instant(n)

	w.want(w.call("GET", tail, ""), 503, "history_lost")
	w.want(w.pay("c", body), 503, "history_lost")
	w.want(w.pay("a", body), 503, "history_lost") // a repeat is told, too
	w.want(w.call("POST", "/v1/payments/"+w.get(kept, "id")+"/captures", `{}`), 503, "history_lost")
	w.want(w.call("GET", list, ""), 503, "history_lost")
	form := tokenForm(w.assertion("shop"))
	form.Set("grant_id", w.vars["grant_all"])
	r := w.want(w.send(w.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")), 503, "history_lost")
	if r.body["error"] != "temporarily_unavailable" || r.Header.Get("Retry-After") == "" {
		t.Errorf("a token: %s", r.text)
	}
	w.want(w.call("GET", "/v1/payments/"+w.get(kept, "id"), ""), 200, "")
	w.want(w.call("POST", "/v1/quotes", one+w.vars["wide"]+`"}`), 200, "")
	w.want(w.call("GET", "/v1/events", ""), 200, "")

	next, err := w.store.Histories.Accept(ctx, k.Partition, false, 0)
	must(t, next, err)
	gone := w.want(w.pay("c", body), 410, "history_changed")
	if since := gone.body["since"]; since != at.String() { // of the last event that is there
		t.Errorf("%s, want since %s", gone.text, at)
	}
	w.want(w.pay("a", body), 410, "history_changed")
	w.want(w.call("GET", tail, ""), 410, "history_changed")
	w.want(w.call("GET", list, ""), 410, "history_changed")
	w.want(w.call("GET", "/v1/payments?reference=order-1", ""), 200, "")
	w.want(w.call("POST", "/v1/quotes", one+w.vars["wide"]+`"}`), 200, "")

	clear(w.tokens)
	if again := w.want(w.pay("a", body), 201, ""); again.text != kept.text {
		t.Errorf("the repeat of what is there: %s", again.text)
	}
	w.want(w.pay("c", body), 201, "")
	events = w.want(w.call("GET", "/v1/events?order=desc&limit=1", ""), 200, "")
	if newest := events.body["data"].([]any)[0].(map[string]any); newest["history_id"] != next.ID || next.ID == first || first == "" {
		t.Errorf("%v is of the history %v, and %s is behind %s", newest["type"], newest["history_id"], next.ID, first)
	}
	w.want(w.call("GET", "/v1/events?cursor="+url.QueryEscape(w.get(events, "next_cursor"))+"&order=desc", ""), 200, "")
}

// Where Redis has lost everything, a grant that is still known from before does not make
// a stranger of its client.
func TestHistoryLostWithTheGrant(t *testing.T) {
	w := newWorldOn(t, redistest.Fresh(t).URL, newRecorder(t))
	w.want(w.call("GET", "/v1/payments?limit=1", ""), 200, "")
	check(t, w.store.Redis.FlushAll(t.Context()).Err())
	w.want(w.call("GET", "/v1/payments?limit=1", ""), 503, "history_lost")
}

// Nor is a write told that what it names does not exist.
func TestHistoryLostWithWhatIsNamed(t *testing.T) {
	w := newWorldOn(t, redistest.Fresh(t).URL, newRecorder(t))
	w.want(w.call("GET", "/v1/payments?limit=1", ""), 200, "") // the grant is known
	check(t, w.store.Redis.FlushAll(t.Context()).Err())
	body := `{"amount":"1.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + w.vars["wide"] + `"}`
	w.want(w.pay("a", body), 503, "history_lost")
}

// Where Redis does not answer whether it has lost everything, nobody is told that they are
// unknown.
func TestHistoryNotKnown(t *testing.T) {
	w := newWorldOn(t, redistest.Fresh(t).URL, newRecorder(t))
	form := tokenForm(w.assertion("shop"))
	check(t, w.store.Redis.FlushAll(t.Context()).Err())
	w.store.Redis.AddHook(redistest.Unanswered("exists"))
	w.want(w.send(w.request("POST", "/oauth2/token", form.Encode(), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")), 503, "store_unavailable")
}

// Every operation that writes, and every list with a cursor, says that what the caller
// knows is of an earlier history, as the OpenAPI document has it, and does nothing.
func TestHistoryChangesForEveryOperation(t *testing.T) {
	recorder := newRecorder(t)
	w := newWorldOn(t, redistest.URL(t), recorder)
	operations := w.operations()
	for range 2 { // so that each list has another page
		for _, o := range operations {
			if slices.Contains([]string{"createWebhook", "createActivation", "startShadow"}, o.id) {
				w.call(o.method, o.path, o.text(nil), append(o.headers(), "Idempotency-Key", "")...)
			}
		}
	}
	pages := map[string]string{} // by path
	for _, o := range operations {
		if slices.ContainsFunc(o.query, func(q queryParameter) bool { return q.name == "cursor" }) {
			pages[o.path] = w.get(w.call("GET", o.path+"?limit=1", ""), "next_cursor")
		}
	}
	_, err := w.store.Histories.Accept(t.Context(), w.store.Space(w.vars["org"]).Partition, true, 0)
	check(t, err)
	before := dump(t, w.redis)
	for _, o := range operations {
		path := o.path
		if cursor := pages[path]; cursor != "" && o.method == "GET" {
			path += "?cursor=" + url.QueryEscape(cursor)
		}
		if o.scoped {
			_ = w.call(o.method, path, o.text(nil), o.headers()...)
		}
	}
	for _, answer := range recorder.Unseen() {
		if strings.HasSuffix(answer, " 410") && answer != "readExportFile 410" {
			t.Errorf("nobody was answered %s", answer)
		}
	}
	if changes := before.without().changes(dump(t, w.redis).without()); len(changes) > 0 {
		t.Errorf("written: %v", changes)
	}
}
