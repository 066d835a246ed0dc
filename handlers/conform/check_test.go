package conform_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tollgate/handlers/conform"
)

func TestEveryExampleConforms(t *testing.T) {
	d := document(t)
	for _, e := range examples(t) {
		if err := d.Check(e.Exchange); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

// TestEveryKeyCounts breaks every example at every place: a key more, a key
// less, a value of another type. Each must be noticed.
func TestEveryKeyCounts(t *testing.T) {
	optional := []string{ // of problems; of a payment's event; of what a receiver answered
		"param", "errors", "since", "rule", "perimeter", "payment_id", "ticket_id", "payment_status", "capture_id", "Content-Type",
	}
	d := document(t)
	broken := 0
	for _, e := range examples(t) {
		if e.body == nil || strings.HasPrefix(e.name, "readOpenAPI 200") {
			continue
		}
		refused := func(what, at string) {
			broken++
			if d.Check(e.with(t, e.body)) == nil {
				t.Errorf("%s: %s at %s was not noticed", e.name, what, at)
			}
		}
		var walk func(v any, at string)
		walk = func(v any, at string) {
			list, _ := v.([]any)
			for i, item := range list {
				walk(item, at)
				list[i] = otherType(item)
				refused("another type", at+"[]")
				list[i] = item
			}
			members, _ := v.(object)
			if v, ok := members["undocumented"]; ok {
				t.Fatal(v)
			}
			if members != nil && !strings.HasSuffix(at, ".metadata") {
				members["undocumented"] = true
				refused("a key more", at)
				delete(members, "undocumented")
			}
			for _, key := range sorted(v) {
				member := members[key]
				if key != "constraints" { // of a perimeter: any, because a later release may know more
					walk(member, at+"."+key)
				}
				members[key] = otherType(member)
				refused("another type", at+"."+key)
				delete(members, key)
				if !slices.Contains(optional, key) && !strings.HasSuffix(at, ".metadata") && !strings.HasSuffix(at, ".filters") &&
					at+"."+key != ".golden.lines" && // a case may have no line
					at+"."+key != ".comparison" && // of the answer that makes an activation
					at+"."+key != ".currencies" { // of the problem of a rule that is silent about them
					refused("a key less", at+"."+key)
				}
				members[key] = member
			}
		}
		walk(e.body, "")
	}
	if broken < 1000 {
		t.Errorf("only %d ways to break the examples", broken)
	}
}

func otherType(v any) any {
	if _, ok := v.(float64); ok {
		return "7"
	}
	return 7
}

func find(t *testing.T, name string) example {
	t.Helper()
	all := examples(t)
	i := slices.IndexFunc(all, func(e example) bool { return e.name == name })
	if i < 0 {
		t.Fatalf("%s is not documented", name)
	}
	return all[i]
}

func TestAnswersThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		example string
		change  func(x *conform.Exchange)
	}{
		"status not documented":  {"readTicket 200", func(x *conform.Exchange) { x.Status = 202 }},
		"media type":             {"readTicket 200", func(x *conform.Exchange) { x.Header.Set("Content-Type", "text/html") }},
		"no media type":          {"readTicket 200", func(x *conform.Exchange) { x.Header.Del("Content-Type") }},
		"problem as plain JSON":  {"readTicket 404", func(x *conform.Exchange) { x.Header.Set("Content-Type", "application/json") }},
		"no request id":          {"readTicket 200", func(x *conform.Exchange) { x.Header.Del("Request-Id") }},
		"request id twice":       {"readTicket 200", func(x *conform.Exchange) { x.Header.Add("Request-Id", x.Header.Get("Request-Id")) }},
		"request id malformed":   {"readTicket 200", func(x *conform.Exchange) { x.Header.Set("Request-Id", "7") }},
		"sniffing":               {"readTicket 404", func(x *conform.Exchange) { x.Header.Del("X-Content-Type-Options") }},
		"cacheable":              {"readTicket 200", func(x *conform.Exchange) { x.Header.Set("Cache-Control", "public") }},
		"own header":             {"readTicket 404", func(x *conform.Exchange) { x.Header.Set("Tollgate-Revision", "1") }},
		"no location":            {"createPayment 201", func(x *conform.Exchange) { x.Header.Del("Location") }},
		"no entity tag":          {"readOrganization 200", func(x *conform.Exchange) { x.Header.Del("ETag") }},
		"no challenge":           {"readTicket 401", func(x *conform.Exchange) { x.Header.Del("WWW-Authenticate") }},
		"no time to retry":       {"readTicket 503", func(x *conform.Exchange) { x.Header.Del("Retry-After") }},
		"time to retry in words": {"readTicket 503", func(x *conform.Exchange) { x.Header.Set("Retry-After", "soon") }},
		"replayed, but not so":   {"createPayment 201", func(x *conform.Exchange) { x.Header.Set("Idempotent-Replayed", "false") }},
		"body with not modified": {"readOrganization 304", func(x *conform.Exchange) { x.Body = []byte("{}") }},
		"no body":                {"readTicket 200", func(x *conform.Exchange) { x.Body = nil }},
		"cut off":                {"readTicket 200", func(x *conform.Exchange) { x.Body = x.Body[:len(x.Body)-1] }},
		"more behind":            {"readTicket 200", func(x *conform.Exchange) { x.Body = append(x.Body, "{}"...) }},
		"a name twice": {"readTicket 200", func(x *conform.Exchange) {
			x.Body = replace(x.Body, `"object":"ticket"`, `"object":"ticket","object":"ticket"`)
		}},
		"code of another status":    {"readTicket 404", func(x *conform.Exchange) { x.Body = replace(x.Body, "not_found", "not_acceptable") }},
		"code of another operation": {"readTicket 400", func(x *conform.Exchange) { x.Body = replace(x.Body, "parameter_unknown", "cursor_invalid") }},
		"status inside differs":     {"readTicket 404", func(x *conform.Exchange) { x.Body = replace(x.Body, "404", "403") }},
		"type of another code":      {"readTicket 404", func(x *conform.Exchange) { x.Body = replace(x.Body, "error:not_found", "error:internal") }},
		"another request's id":      {"readTicket 404", func(x *conform.Exchange) { x.Header.Set("Request-Id", "req_01m6dmbe00etrrkv60mbnd34j7") }},
		"amount with a sign":        {"readPayment 200", func(x *conform.Exchange) { x.Body = replace(x.Body, `"100.00"`, `"-100.00"`) }},
		"time without milliseconds": {"readPayment 200", func(x *conform.Exchange) { x.Body = replace(x.Body, `.123Z`, `Z`) }},
		"impossible time":           {"readPayment 200", func(x *conform.Exchange) { x.Body = replace(x.Body, `2026-11-28T`, `2026-11-31T`) }},
		"event data":                {"listEvents 200", func(x *conform.Exchange) { x.Body = replace(x.Body, `"cancellation_reason"`, `"reason"`) }},
		"unknown event type":        {"listEvents 200", func(x *conform.Exchange) { x.Body = replace(x.Body, "payment.captured", "payment.lost") }},
	} {
		t.Run(name, func(t *testing.T) {
			e := find(t, c.example)
			c.change(&e.Exchange)
			if err := document(t).Check(e.Exchange); err == nil {
				t.Error("not noticed")
			}
		})
	}
}

func replace(b []byte, old, with string) []byte {
	return []byte(strings.Replace(string(b), old, with, 1))
}

// TestRequestsThatMustNotSucceed holds the service to its document in the
// other direction.
func TestRequestsThatMustNotSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		example string
		change  func(x *conform.Exchange)
	}{
		"unknown query parameter": {"listEvents 200", query("page=2")},
		"parameter twice":         {"listEvents 200", query("limit=2&limit=2")},
		"not a number":            {"listEvents 200", query("limit=two")},
		"too many":                {"listEvents 200", query("limit=101")},
		"no such status":          {"listTransactions 200", query("status=pending,gone")},
		"not a time":              {"listTransactions 200", query("created_after=yesterday")},
		"bad encoding":            {"listTransactions 200", query("payee=%zz")},
		"key missing":             {"createPayment 201", func(x *conform.Exchange) { x.Request.Header.Del("Idempotency-Key") }},
		"key with a space":        {"createPayment 201", func(x *conform.Exchange) { x.Request.Header.Set("Idempotency-Key", "a b") }},
		"number for an amount":    {"createPayment 201", sent(`"100.00"`, `100.00`)},
		"zero":                    {"createPayment 201", sent(`"100.00"`, `"0.00"`)},
		"unknown member":          {"createPayment 201", sent(`"reference"`, `"memo"`)},
		"member twice":            {"createPayment 201", sent(`"currency":"EUR"`, `"currency":"EUR","currency":"EUR"`)},
		"no body":                 {"createPayment 201", func(x *conform.Exchange) { x.RequestBody = nil }},
		"not JSON by name":        {"createPayment 201", func(x *conform.Exchange) { x.Request.Header.Set("Content-Type", "text/plain") }},
		"bare and wrapped":        {"createQuote 200", sent(`{"amount"`, `{"tool":"quote_ticket","amount"`)},
		"no such decision":        {"reviewPayment 200", sent("approve", "perhaps")},
		"other grant":             {"issueToken 200", sent("client_credentials", "password")},
		"form parameter twice":    {"issueToken 200", sent("scope=", "scope=a&scope=")},
		"id of a wrong shape":     {"readTicket 200", func(x *conform.Exchange) { x.Request.URL.Path = "/v1/tickets/tkt-1" }},
	} {
		t.Run(name, func(t *testing.T) {
			e := find(t, c.example)
			c.change(&e.Exchange)
			if err := document(t).Check(e.Exchange); err == nil {
				t.Error("not noticed")
			}
		})
	}
	e := find(t, "listTransactions 200")
	query("status=pending,available&limit=5&order=asc&created_after=2026-11-21T00:00:00%2B01:00")(&e.Exchange)
	if err := document(t).Check(e.Exchange); err != nil {
		t.Errorf("a good query: %v", err)
	}
	e = find(t, "capturePayment 201")
	e.RequestBody = nil
	if err := document(t).Check(e.Exchange); err != nil {
		t.Errorf("a capture without a body: %v", err)
	}
}

func query(raw string) func(x *conform.Exchange) {
	return func(x *conform.Exchange) { x.Request.URL.RawQuery = raw }
}

func sent(old, with string) func(x *conform.Exchange) {
	return func(x *conform.Exchange) { x.RequestBody = replace(x.RequestBody, old, with) }
}

func TestRequestsOutsideTheDocument(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		code         string
		allow        string
		ok           bool
	}{
		{"GET", "/v1/nothing", 404, "not_found", "", true},
		{"HEAD", "/v1/quotes", 405, "", "POST", true},
		{"GET", "/oauth2/token", 405, "", "POST", false},
		{"GET", "/v1/tickets/", 404, "not_found", "", true},
		{"DELETE", "/v1/events", 405, "method_not_allowed", "GET", true},
		{"DELETE", "/v1/events", 405, "method_not_allowed", "", false},
		{"DELETE", "/v1/events", 405, "not_found", "GET", false},
		{"GET", "/v1/nothing", 200, "not_found", "", false},
		{"GET", "/v1/nothing", 500, "internal", "", false},
	} {
		body, err := json.Marshal(object{
			"type": "urn:tollgate:error:" + c.code, "title": "No", "status": c.status, "code": c.code, "message": "No.",
			"request_id": "req_01m6dmbe00etrrkv60mbnd34j7",
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.method == "HEAD" {
			body = nil
		}
		header := http.Header{"Content-Type": {"application/problem+json"}, "Request-Id": {"req_01m6dmbe00etrrkv60mbnd34j7"}}
		if c.allow != "" {
			header.Set("Allow", c.allow)
		}
		x := conform.Exchange{Request: httptest.NewRequest(c.method, c.path, nil), Status: c.status, Header: header, Body: body}
		if err := document(t).Check(x); (err == nil) != c.ok {
			t.Errorf("%s %s, %d %s: %v", c.method, c.path, c.status, c.code, err)
		}
	}
}
