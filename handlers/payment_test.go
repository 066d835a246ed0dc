package handlers_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestAPaymentEndToEnd(t *testing.T) {
	i := start(t)
	i.authenticate()
	key := []string{"Idempotency-Key", "one"}
	quote := i.call("POST", "/v1/quotes", `{"tool":"quote_ticket","input":{"amount":"100.00","currency":"EUR","payee":"shop.example"}}`)
	i.want(quote, 200, "")

	first := i.call("POST", "/v1/payments", `{`+good+`,"metadata":{"a":"b"}}`, key...)
	i.want(first, 201, "")
	again := i.call("POST", "/v1/payments", ` {"metadata":{"a":"b"},"capture_method":"manual",`+good+`}`, "Idempotency-Key", `"one"`)
	i.want(again, 201, "")
	if again.text != first.text || again.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" ||
		again.Header.Get("Location") != first.Header.Get("Location") {
		t.Fatalf("repeated: %v %s", again.Header, again.text)
	}
	i.want(i.call("POST", "/v1/payments", `{`+good+`}`, key...), 422, "idempotency_key_reused")

	id := first.body["id"].(string)
	i.want(i.call("GET", "/v1/payments/"+id, ""), 200, "")
	i.want(i.call("POST", "/v1/payments/"+id+"/captures", `{"amount":"10.01"}`), 422, "capture_amount_exceeds_capturable")
	i.want(i.call("POST", "/v1/payments/"+id+"/captures", `{"amount":"4.001"}`), 422, "amount_scale_invalid")
	part := i.call("POST", "/v1/payments/"+id+"/captures", `{"amount":"4","final_capture":false}`, "Idempotency-Key", "c")
	i.want(part, 201, "")
	rest := i.call("POST", "/v1/payments/"+id+"/captures", "", "Idempotency-Key", "d")
	i.want(rest, 201, "")
	if status := rest.body["payment"].(map[string]any)["status"]; status != "captured" {
		t.Fatalf("the payment is %v", status)
	}
	i.want(i.call("POST", "/v1/payments/"+id+"/captures", "{}"), 409, "payment_state_invalid")
	for key, before := range map[string]reply{"c": part, "d": rest} { // repeats, though the state now forbids it
		body := ""
		if key == "c" {
			body = `{"final_capture":false,"amount":"4.00"}`
		}
		repeated := i.call("POST", "/v1/payments/"+id+"/captures", body, "Idempotency-Key", key)
		i.want(repeated, 201, "")
		if repeated.text != before.text || repeated.Header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("capture %s repeated: %s", key, repeated.text)
		}
	}
	state := i.call("POST", "/v1/payments/"+id+"/cancel", "")
	i.want(state, 409, "payment_state_invalid")
	if state.body["payment_status"] != "captured" || state.body["payment_id"] != id {
		t.Fatalf("%s", state.text)
	}

	i.want(i.call("GET", "/v1/tickets/"+first.body["ticket_id"].(string), ""), 200, "")
	i.want(i.call("GET", "/v1/transactions?status=captured&payment_id="+id, ""), 200, "")
	events := i.call("GET", "/v1/events?types=payment.*", "")
	i.want(events, 200, "")
	if data := events.body["data"].([]any); len(data) != 3 || events.body["next_cursor"] == nil {
		t.Fatalf("%s", events.text)
	}
	i.Close() // waits for what is still being logged
	if strings.Contains(i.log.String(), i.token) || !strings.Contains(i.log.String(), `"route":"POST /v1/payments"`) {
		t.Errorf("log:\n%s", i.log)
	}
}

func TestRefusals(t *testing.T) {
	i := start(t)
	i.want(i.call("GET", "/v1/events", ""), 401, "token_missing")
	i.authenticate()
	pay := func(payee, amount, key string) reply {
		return i.call("POST", "/v1/payments", fmt.Sprintf(`{"amount":%q,"currency":"EUR","payee":%q}`, amount, payee), "Idempotency-Key", key)
	}
	denied := pay("deny.test", "10.00", "deny")
	i.want(denied, 403, "perimeter_denied")
	again := pay("DENY.test.", "10", "deny")
	i.want(again, 403, "perimeter_denied")
	if again.text != denied.text || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("%s", again.text)
	}
	i.want(i.call("GET", "/v1/payments/"+denied.body["payment_id"].(string), ""), 200, "")
	refused := pay("refuse.test", "10.00", "refuse")
	i.want(refused, 422, "rule_rejected")
	if again := pay("refuse.test", "10.00", "refuse"); again.text != refused.text || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("%s", again.text)
	}
	for _, payee := range []string{"trap.test", "loop.test"} {
		failed := pay(payee, "10.00", payee)
		i.want(failed, 503, "rule_failed")
		if failed.body["rule"] != "rule:sandbox@v1" {
			t.Fatalf("%s", failed.text)
		}
	}
	review := pay("shop.example", "1000.01", "review")
	i.want(review, 201, "")
	id := review.body["id"].(string)
	i.want(i.call("POST", "/v1/payments/"+id+"/captures", ""), 409, "payment_state_invalid")
	i.want(i.call("POST", "/v1/payments/"+id+"/reviews", `{"decision":"approve"}`), 200, "")
	i.want(i.call("POST", "/v1/payments/"+id+"/cancel", `{"reason":"changed their mind"}`), 200, "")

	i.want(i.call("POST", "/v1/payments", `{`+good+`}`), 400, "idempotency_key_required")
	i.want(i.call("POST", "/v1/payments", `{`+good+`}`, "Idempotency-Key", "a", "Idempotency-Key", "b"), 400, "idempotency_key_invalid")
	i.want(i.call("POST", "/v1/payments", `{"amount":"1.00","currency":"USD","payee":"a.example"}`, "Idempotency-Key", "u"), 422, "currency_unsupported")
	i.want(i.call("POST", "/v1/quotes", `{`+good+`,"merchant_account_id":"ma_unknown"}`), 404, "not_found")
	i.want(i.call("POST", "/v1/quotes", `{`+good+`}`, "Content-Encoding", "gzip"), 415, "media_type_unsupported")
	i.want(i.call("POST", "/v1/quotes", strings.Repeat(" ", 64<<10)+`{}`), 413, "body_too_large")
	i.want(i.call("GET", "/v1/events", "", "Accept", "text/html"), 406, "not_acceptable")
	i.want(i.call("GET", "/v1/events?limit=0", ""), 400, "parameter_invalid")
	i.want(i.call("GET", "/v1/events?x="+strings.Repeat("x", 4096), ""), 414, "uri_too_long")
	i.want(i.call("GET", "/v1/events", "", "X-Filler", strings.Repeat("x", 16<<10)), 431, "headers_too_large")
	i.want(i.call("GET", "/v1/payments/pay_nobody", ""), 404, "not_found")
	i.want(i.call("GET", "/v1/payments/"+id+"%2Fcaptures", ""), 404, "not_found")
	i.want(i.call("GET", "/v1/payments/%00", ""), 404, "not_found")
	i.want(i.call("GET", "/v1/organizations/org_other", ""), 404, "not_found")
	i.want(i.call("GET", "/nowhere", ""), 404, "not_found")
	i.want(i.call("GET", "/v1/events/", ""), 404, "not_found")
	i.want(i.call("GET", "/V1/events", ""), 404, "not_found")
	method := i.call("DELETE", "/v1/payments", "")
	i.want(method, 405, "method_not_allowed")
	if method.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow: %s", method.Header.Get("Allow"))
	}
	i.token += "x"
	invalid := i.call("GET", "/v1/events", "")
	i.want(invalid, 401, "token_invalid")
	if !strings.Contains(invalid.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
		t.Errorf("%v", invalid.Header)
	}
}
