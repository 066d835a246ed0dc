package handlers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tollgate/handlers"
)

// A door gets what has passed the limits of every request, under a request id; its
// methods are those that it lists, and the rest of the API is as before.
func TestDoor(t *testing.T) {
	w := newWorld(t)
	w.client = http.DefaultClient // the OpenAPI document does not know of it
	w.server.Open(handlers.Door{Methods: []string{"GET", "POST"}, Path: "/door/*page", Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = io.WriteString(w, req.URL.Path+" "+string(body))
	})})
	if r := w.want(w.call("GET", "/door/a/b", "", "Authorization", ""), 200, ""); r.text != "/door/a/b " || r.Header.Get("Request-Id") == "" {
		t.Errorf("%q with the request id %q", r.text, r.Header.Get("Request-Id"))
	}
	if r := w.want(w.call("POST", "/door/a", "body", "Authorization", ""), 200, ""); r.text != "/door/a body" {
		t.Errorf("%q", r.text)
	}
	if r := w.want(w.call("HEAD", "/door/a", "", "Authorization", ""), 200, ""); r.text != "" {
		t.Errorf("a HEAD has the body %q", r.text)
	}
	if r := w.want(w.call("DELETE", "/door/a", ""), 405, "method_not_allowed"); r.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow %q", r.Header.Get("Allow"))
	}
	w.want(w.call("GET", "/door/"+strings.Repeat("a", 5000), ""), 414, "uri_too_long")
	w.want(w.call("GET", "/v1/merchant-accounts", ""), 200, "")
}

// What a door writes for one request, it writes with the proof of that request, and each
// write is of the visitor.
func TestProofsOfDoors(t *testing.T) {
	w := newWorld(t)
	p := w.newProver()
	w.client = http.DefaultClient
	api := w.server.Handler()
	var statuses []int
	w.server.Open(handlers.Door{Methods: []string{"POST"}, Path: "/door", Handler: http.HandlerFunc(func(answer http.ResponseWriter, req *http.Request) {
		v, refused := w.server.Present(answer, req)
		if refused != nil {
			answer.WriteHeader(http.StatusUnauthorized)
			return
		}
		for _, key := range []string{"one", "two"} { // each on no connection, as package mcp makes them
			in := httptest.NewRequestWithContext(v.Within(t.Context()), "POST", "/v1/payments", strings.NewReader(`{"merchant_account_id":"`+w.vars["eur"]+`",`+good+`}`))
			in.Header = http.Header{"Authorization": req.Header["Authorization"], "Content-Type": {"application/json"}, "Idempotency-Key": {key}}
			out := httptest.NewRecorder()
			api.ServeHTTP(out, in)
			statuses = append(statuses, out.Code)
			if out.Code != 201 {
				t.Error(out.Body)
			}
		}
	})})
	w.want(p.with(w, p.proof("POST", "/door", p.token), "POST", "/door", ""), 200, "")
	if !slices.Equal(statuses, []int{201, 201}) {
		t.Errorf("two writes by one request: %v", statuses)
	}
}
