package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collectors "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

var oneSpan = []*traces.ResourceSpans{{ScopeSpans: []*traces.ScopeSpans{{Spans: []*traces.Span{{Name: "quote"}}}}}}

// answers is a collector that gives one answer after the other, the last one for ever,
// and keeps the requests.
func answers(t *testing.T, statuses ...int) (address string, requests *[]*http.Request) {
	t.Helper()
	requests = new([]*http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var export collectors.ExportTraceServiceRequest
		body, err := io.ReadAll(req.Body)
		if err != nil || proto.Unmarshal(body, &export) != nil || !proto.Equal(&export, &collectors.ExportTraceServiceRequest{ResourceSpans: oneSpan}) {
			t.Errorf("%v %v", &export, err)
		}
		status := statuses[min(len(*requests), len(statuses)-1)]
		*requests = append(*requests, req)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// A collector that is busy is asked again; one that refuses is not.
func TestCollectorAnswers(t *testing.T) {
	for _, c := range []struct {
		statuses []int
		attempts int
		fails    bool
	}{
		{[]int{200}, 1, false},
		{[]int{202}, 1, false},
		{[]int{503, 429, 502, 504, 200}, 5, false},
		{[]int{400, 200}, 1, true},
		{[]int{500, 200}, 1, true},
		{[]int{503, 401, 200}, 2, true},
		{[]int{304, 200}, 1, true},
	} {
		address, requests := answers(t, c.statuses...)
		to, err := newCollector(address)
		if err != nil {
			t.Fatal(err)
		}
		to.wait = time.Millisecond
		err = to.UploadTraces(t.Context(), oneSpan)
		if len(*requests) != c.attempts || (err != nil) != c.fails {
			t.Errorf("%v: %d attempts, %v", c.statuses, len(*requests), err)
		}
		if err := to.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Whoever stops waits for no collector.
func TestCollectorAtTheEnd(t *testing.T) {
	address, requests := answers(t, 503)
	to, err := newCollector(address)
	if err != nil {
		t.Fatal(err)
	}
	to.wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	to.http.Transport = transport(func(req *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(req)
		cancel()
		return resp, err
	})
	if err := to.UploadTraces(ctx, oneSpan); err == nil || len(*requests) > 1 {
		t.Errorf("%d attempts, %v", len(*requests), err)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestCollectorHeaders(t *testing.T) {
	address, requests := answers(t, 200)
	send := func(all, own string) http.Header {
		t.Helper()
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", all)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", own)
		to, err := newCollector(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.UploadTraces(t.Context(), oneSpan); err != nil {
			t.Fatal(err)
		}
		return (*requests)[len(*requests)-1].Header
	}
	h := send("authorization=Bearer%20a%2Cb , x-team = payments,", "")
	if h.Get("Authorization") != "Bearer a,b" || h.Get("X-Team") != "payments" || h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("%v", h)
	}
	if h := send("authorization=all", "authorization=own"); h.Get("Authorization") != "own" {
		t.Errorf("%v", h)
	}
	for _, text := range []string{"secret", "=secret", "name=%zzsecret"} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", text)
		if _, err := newCollector(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
