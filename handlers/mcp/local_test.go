package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the API sees of the request to /mcp: who sent it and from where, and nothing
// that only the door has to do with.
func TestWhoseCallItIs(t *testing.T) {
	var seen *http.Request
	api := Local{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r })}
	outer := httptest.NewRequest("POST", "http://pay.example/mcp", nil)
	outer.RemoteAddr = "192.0.2.7:4711"
	for name, value := range map[string]string{
		"Authorization": "Bearer token", "Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"Origin": "https://pay.example", "Idempotency-Key": "k", "Cookie": "c", "Content-Type": "application/json",
	} {
		outer.Header.Set(name, value)
	}
	v := &visit{header: outer.Header, remote: outer.RemoteAddr, host: outer.Host}
	c := &call{Options: Options{API: api}, ctx: context.WithValue(t.Context(), visitKey{}, v)}
	if _, err := c.send(http.MethodGet, "/v1/events?limit=1", nil, ""); err != nil {
		t.Fatal(err)
	}
	if seen.RemoteAddr != outer.RemoteAddr || seen.Host != "pay.example" || seen.RequestURI != "/v1/events?limit=1" {
		t.Errorf("from %s to %s %s", seen.RemoteAddr, seen.Host, seen.RequestURI)
	}
	for name, passed := range map[string]bool{
		"Authorization": true, "Traceparent": true, "Origin": false, "Idempotency-Key": false, "Cookie": false, "Content-Type": false,
	} {
		if have := seen.Header.Get(name); (have == outer.Header.Get(name)) != passed || !passed && have != "" {
			t.Errorf("%s: %q", name, have)
		}
	}
}
