package console_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate/handlers/console"
)

// What passes to the API and back is what the page may know, and nothing else.
func TestProxyPasses(t *testing.T) {
	v := open(t, func(c *console.Config) { c.Write = true })
	v.api = says(201, `{"id":"pay_1"}`, "Content-Type", "application/json", "Request-Id", "req_1", "Retry-After", "3", "Etag", `"x"`, "Date", "Mon, 02 Mar 2026 09:00:00 GMT",
		"Idempotent-Replayed", "true", "Set-Cookie", "a=b", "Location", "/v1/payments/pay_1", "Access-Control-Allow-Origin", "*", "Content-Security-Policy", "default-src *")
	r := v.want(201, "", "PATCH", "/console/api/v1/webhooks/wh_1?a=b&c=%2F", `{"x":1}`, v.as("Idempotency-Key", "key-1", "Accept", "application/json", "Authorization", "Bearer mine", "X-Other", "1", "If-None-Match", `"y"`))
	if r.text != `{"id":"pay_1"}` || r.Header.Get("Request-Id") != "req_1" || r.Header.Get("Retry-After") != "3" || r.Header.Get("Etag") != `"x"` ||
		r.Header.Get("Date") != "Mon, 02 Mar 2026 09:00:00 GMT" || r.Header.Get("Idempotent-Replayed") != "true" || r.ContentLength != 14 {
		t.Errorf("%v %s", r.Header, r.text)
	}
	for _, name := range []string{"Set-Cookie", "Location", "Access-Control-Allow-Origin"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s passes", name)
		}
	}
	if got := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
		t.Errorf("the policy is %s", got)
	}
	asked := v.asked[0]
	if asked.Method != "PATCH" || asked.URL.String() != "/v1/webhooks/wh_1?a=b&c=%2F" || v.bodies[0] != `{"x":1}` {
		t.Errorf("%s %s %s", asked.Method, asked.URL, v.bodies[0])
	}
	var names []string
	for name := range asked.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"Accept", "Content-Type", "Idempotency-Key", "If-None-Match"}) {
		t.Errorf("these headers pass: %v", names)
	}
	if r := v.want(200, "", "GET", "/console/api/rules", "", v.as()); r.text != `["rule"]` {
		t.Errorf("%s", r.text)
	}
}

// A path that one reader takes for another one's is nowhere.
func TestProxyPaths(t *testing.T) {
	v := open(t, nil)
	for _, path := range []string{
		"/console/api", "/console/api/", "/console/api/v2/payments", "/console/api/v1", "/console/api/v1/", "/console/api/v1/../../healthz", "/console/api/v1/..%2f..%2foauth2/token",
		"/console/api/v1/%2e%2e/openapi.json", "/console/api/v1//payments", "/console/api/v1/a%5Cb", "/console/api/v1/payments%2Fpay_1", "/console/api/v1/./payments", "/console/api/unknown", "/console/api/v1/payments/",
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", v.base, nil)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", req.URL.Host)
		if err != nil {
			t.Fatal(err)
		}
		// As it is: a client would tidy it.
		_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+req.URL.Host+"\r\nCookie: "+v.cookie()+"\r\nConnection: close\r\n\r\n")
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") {
			t.Errorf("%s: %.60s", path, answer)
		}
	}
	for _, asked := range v.asked {
		t.Errorf("the API was asked for %s", asked.URL)
	}
}

// A console that only shows changes nothing, and still computes.
func TestReadOnly(t *testing.T) {
	v := open(t, nil)
	for _, r := range []string{"POST /v1/payments", "POST /v1/quotes/x", "POST /v1/exports/preview", "PATCH /v1/webhooks/wh_1", "DELETE /v1/webhooks/wh_1", "POST /v1/sandbox/clock", "PUT /v1/quotes"} {
		method, path, _ := strings.Cut(r, " ")
		v.want(403, "console_read_only", method, "/console/api"+path, `{}`, v.as())
	}
	if len(v.asked) != 0 {
		t.Errorf("the API was asked %d times", len(v.asked))
	}
	for _, r := range []string{"POST /v1/quotes", "POST /v1/cutoffs/preview", "GET /v1/payments", "HEAD /v1/payments"} {
		method, path, _ := strings.Cut(r, " ")
		v.want(200, "", method, "/console/api"+path, map[string]string{"POST": "{}"}[method], v.as())
	}
}

func TestProxyLimits(t *testing.T) {
	v := open(t, func(c *console.Config) { c.Write = true })
	v.want(200, "", "POST", "/console/api/v1/quotes", strings.Repeat("x", 1<<20), v.as())
	v.want(413, "body_too_large", "POST", "/console/api/v1/quotes", strings.Repeat("x", 1<<20+1), v.as())
	v.api = func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }
	v.want(502, "api_unreachable", "GET", "/console/api/v1/payments", "", v.as())
}

// A file passes piece by piece, and one that breaks off is not taken for whole.
func TestProxyStreams(t *testing.T) {
	v := open(t, nil)
	source, sink := io.Pipe()
	v.api = func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Range") != "bytes=5-" {
			t.Errorf("Range: %q", r.Header.Get("Range"))
		}
		return &http.Response{StatusCode: 206, Header: http.Header{"Content-Range": {"bytes 5-100004/100005"}, "Content-Disposition": {`attachment; filename="x.csv"`}}, Body: source}, nil
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", v.base+"/console/api/v1/exports/exp_1/file", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", v.cookie())
	req.Header.Set("Range", "bytes=5-")
	go func() {
		_, _ = io.WriteString(sink, strings.Repeat("a", 8192))
	}()
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 206 || resp.Header.Get("Content-Range") != "bytes 5-100004/100005" || resp.Header.Get("Content-Disposition") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	sink.CloseWithError(errors.New("the API dies"))
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%d bytes are taken for the whole", len(text))
	}
}
