package handlers_test

import (
	"io"
	"net/http"
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
