package handlers_test

import "strings"

// Kinds of the parameters of webhooks.
const (
	address     kindOf = "a URL to deliver to"
	eventTypes  kindOf = "a list of event types"
	accountList kindOf = "a list of merchant accounts"
	seconds     kindOf = "a number of seconds"
	moment      kindOf = "a time that has passed"
)

// webhookOperations are those of webhooks, on an endpoint with a delivery and a
// recovery; another endpoint is there to be deleted.
func (w *world) webhookOperations() []*operation {
	w.t.Helper()
	hook, gone := w.get(w.want(w.hook(""), 201, ""), "id"), w.get(w.want(w.hook(`,"event_types":["payout.*"]`), 201, ""), "id")
	at := "/v1/webhooks/" + hook
	recovery := w.get(w.want(w.call("POST", at+"/recoveries", `{"since":"2026-03-02T08:00:00Z"}`), 202, ""), "id")
	w.want(w.pay("delivered", `{"merchant_account_id":"`+w.vars["eur"]+`","amount":"10.00","currency":"EUR","payee":"shop.example"}`), 201, "")
	w.want(w.pay("delivered-too", `{"merchant_account_id":"`+w.vars["eur"]+`","amount":"10.00","currency":"EUR","payee":"shop.example"}`), 201, "")
	check(w.t, w.fanOut())
	check(w.t, w.attempt("retrying", 500))
	w.advance(5e9)
	check(w.t, w.attempt("succeeded", 204))
	deliveries := w.want(w.call("GET", at+"/deliveries", ""), 200, "").body["data"].([]any)
	delivery := deliveries[0].(map[string]any)["id"].(string)
	page := []queryParameter{
		{"limit", "10", []string{"0", "101", "-1", "1.0", "%2B1", "ten", "01"}},
		{"cursor", "", []string{"AAAA", "a%20b", "%3D%3D", "null", "0", "%2Fw"}},
	}
	filters := append([]queryParameter{
		{"state", "succeeded", []string{"nonsense", "failed,", "Failed", "failed%3Bheld"}},
		{"event_type", "payment.authorized", []string{"payment.*", "payment", "webhook_endpoint.created", "PAYMENT.CAPTURED", "payment.captured,payment.expired"}},
	}, page...)
	endpoint := []member{
		{"url", `"https://shop.example/hooks"`, address, true},
		{"description", `"orders"`, text255, false},
		{"event_types", `["payment.*"]`, eventTypes, false},
		{"merchant_account_ids", `["` + w.vars["eur"] + `"]`, accountList, false},
		{"signature_scheme", `"both"`, choice, false},
		{"metadata", `{"team":"orders"}`, labels, false},
	}
	change := append([]member{{"url", `"https://shop.example/hooks"`, address, false}}, endpoint[1:]...)
	change = append(change, member{"status", `"active"`, choice, false})
	reason := []member{{"reason", `"lost"`, text255, false}}
	const jsonMedia = "application/json"
	return []*operation{
		{id: "createWebhook", method: "POST", path: "/v1/webhooks", media: jsonMedia, body: endpoint, key: "accepted"},
		{id: "listWebhooks", method: "GET", path: "/v1/webhooks", query: page},
		{id: "readWebhook", method: "GET", path: at, pathID: hook},
		{id: "updateWebhook", method: "PATCH", path: at, pathID: hook, media: jsonMedia, body: change},
		{id: "rotateWebhookSecrets", method: "POST", path: at + "/secrets", pathID: hook, media: jsonMedia, optional: true, body: []member{{"overlap_seconds", "60", seconds, false}}, key: "accepted"},
		{id: "recoverWebhook", method: "POST", path: at + "/recoveries", pathID: hook, media: jsonMedia, body: []member{{"since", `"2026-03-02T09:00:00Z"`, moment, true}}, key: "accepted"},
		{id: "readRecovery", method: "GET", path: at + "/recoveries/" + recovery, pathID: recovery},
		{id: "readRecovery", method: "GET", path: at + "/recoveries/" + recovery, pathID: hook},
		{id: "listDeliveries", method: "GET", path: at + "/deliveries", pathID: hook, query: filters},
		{id: "listAttempts", method: "GET", path: at + "/deliveries/" + delivery + "/attempts", pathID: delivery, query: page},
		{id: "listAttempts", method: "GET", path: at + "/deliveries/" + delivery + "/attempts", pathID: hook, query: page},
		{id: "replayDelivery", method: "POST", path: at + "/deliveries/" + delivery + "/replays", pathID: delivery, media: jsonMedia, optional: true, body: reason, key: "accepted"},
		{id: "testWebhook", method: "POST", path: at + "/test", pathID: hook, key: "accepted"},
		{id: "deleteWebhook", method: "DELETE", path: "/v1/webhooks/" + gone, pathID: gone},
	}
}

// wrongForWebhooks are wrong values of these kinds.
func wrongForWebhooks(kind kindOf) (list []wrongValue) {
	add := func(status int, code string, raws ...string) {
		for _, raw := range raws {
			list = append(list, wrongValue{raw, status, code, ""})
		}
	}
	long := strings.Repeat("x", 60000)
	switch kind {
	case address:
		for _, text := range []string{
			"", " ", "nonsense", "http://shop.example/", "https://127.0.0.1/", "https://u@shop.example/", "https://shop.example:80/", "https://shop.example/#a",
			`https://shop.example/\u0000`, "https://ü.example/", "https://shop.example/" + long,
		} {
			add(422, "webhook_url_invalid", quotedJSON(text))
		}
	case moment:
		for _, text := range []string{
			"", "yesterday", "2026-03-02", "2026-03-02T09:00:00", "2026-02-30T09:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", long,
			"2026-03-02T09:00:05.001Z", // the clock stands a millisecond before
		} {
			add(400, "parameter_invalid", quotedJSON(text))
		}
	case seconds:
		add(400, "parameter_invalid", "-1", "604801", "1.5", "1e2", "-0", "99999999999999999999")
	case eventTypes:
		for _, item := range []string{
			`""`, `"*"`, `"payment"`, `"payment.*,payment.captured"`, `"PAYMENT.*"`, `"webhook_endpoint.*"`, `"delivery.replayed"`, `" payment.*"`, `"ping"`,
			"1", "null", "[]", quotedJSON(long),
		} {
			add(400, "parameter_invalid", `["payment.captured",`+item+"]")
		}
		add(400, "parameter_invalid", "["+strings.Repeat(`"payment.captured",`, 50)+`"payment.*"]`)
	case accountList:
		for _, item := range []string{`""`, `"a-b"`, `"ü"`, "1", "null", "{}", quotedJSON(strings.Repeat("a", 65)), quotedJSON(long)} {
			add(400, "parameter_invalid", "["+item+"]")
		}
		add(400, "parameter_invalid", "["+strings.Repeat(`"ma_x",`, 100)+`"ma_x"]`)
	}
	return list
}
