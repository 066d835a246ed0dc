package handlers_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Each request's line in the log names the payment, the ticket and the error
// code, as far as there are any.
func TestLogLinesNameTheirSubject(t *testing.T) {
	w := newWorld(t)
	body := func(payee string) string {
		return `{"amount":"10.00","currency":"EUR","payee":"` + payee + `","merchant_account_id":"` + w.vars["eur"] + `"}`
	}
	made := w.want(w.pay("made", body("shop.example")), 201, "")
	pay := w.get(made, "id")
	ticket := "tkt_" + strings.TrimPrefix(pay, "pay_")
	denied := w.want(w.pay("denied", body("deny.test")), 403, "perimeter_denied")
	for name, c := range map[string]struct {
		answer                reply
		payment, ticket, code any
	}{
		"create":          {made, pay, ticket, nil},
		"create, again":   {w.want(w.pay("made", body("shop.example")), 201, ""), pay, ticket, nil},
		"denied":          {denied, w.get(denied, "payment_id"), w.get(denied, "ticket_id"), "perimeter_denied"},
		"denied, again":   {w.want(w.pay("denied", body("deny.test")), 403, "perimeter_denied"), w.get(denied, "payment_id"), w.get(denied, "ticket_id"), "perimeter_denied"},
		"read":            {w.want(w.call("GET", "/v1/payments/"+pay, ""), 200, ""), pay, ticket, nil},
		"read of ticket":  {w.want(w.call("GET", "/v1/tickets/"+ticket, ""), 200, ""), pay, ticket, nil},
		"too much":        {w.want(w.call("POST", "/v1/payments/"+pay+"/captures", `{"amount":"99.00"}`), 422, "capture_amount_exceeds_capturable"), pay, ticket, "capture_amount_exceeds_capturable"},
		"capture":         {w.want(w.call("POST", "/v1/payments/"+pay+"/captures", `{"amount":"4.00"}`), 201, ""), pay, ticket, nil},
		"refused":         {w.want(w.pay("refused", body("refuse.test")), 422, "rule_rejected"), nil, nil, "rule_rejected"},
		"without a token": {w.want(w.call("GET", "/v1/payments/"+pay, "", "Authorization", ""), 401, "token_missing"), pay, ticket, "token_missing"},
		"nowhere":         {w.want(w.call("GET", "/nowhere", ""), 404, "not_found"), nil, nil, "not_found"},
		"quote":           {w.want(w.call("POST", "/v1/quotes", body("shop.example")), 200, ""), nil, nil, nil},
	} {
		line := loggedRequest(w, c.answer)
		for attribute, want := range map[string]any{"payment_id": c.payment, "ticket_id": c.ticket, "code": c.code} {
			if have, there := line[attribute]; have != want || there != (want != nil) {
				t.Errorf("%s: the log has %s %v, want %v", name, attribute, have, want)
			}
		}
	}
}

// loggedRequest is the line of the request that was answered so: it is written
// before the answer is sent.
func loggedRequest(w *world, r reply) map[string]any {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		var attributes map[string]any
		check(w.t, json.Unmarshal([]byte(line), &attributes))
		if attributes["msg"] == "request" && attributes["request_id"] == r.Header.Get("Request-Id") {
			return attributes
		}
	}
	w.t.Fatalf("%s is not in the log", r.Header.Get("Request-Id"))
	return nil
}
