package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	demo "tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// gathering is a collector of OpenTelemetry: the spans that it got, and every byte.
type gathering struct {
	url   string
	mu    sync.Mutex
	bytes []byte
	spans []*traces.Span
}

func newGathering(t *testing.T) *gathering {
	g := &gathering{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &export) != nil {
			t.Errorf("%s: %d bytes, %v", req.URL.Path, len(body), err)
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.bytes = append(g.bytes, body...)
		for _, r := range export.ResourceSpans {
			for _, s := range r.ScopeSpans {
				g.spans = append(g.spans, s.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// named is the span of a name in a trace.
func (g *gathering) named(trace, name string) *traces.Span {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.spans {
		if hex.EncodeToString(s.TraceId) == trace && s.Name == name {
			return s
		}
	}
	return nil
}

// A payment's trace, as its client began it: the request, what it asked Redis, and the
// webhook that it caused, whose receiver goes on in it. Nothing that is exported is
// anybody's business. A request whose client does not sample is in no trace.
func TestTraces(t *testing.T) {
	t.Parallel()
	const trace, parent, unsampled = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "5bf92f3577b34da6a3ce929d0e0e4736"
	g := newGathering(t)
	came := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		came <- req.Header.Get("Traceparent")
	}))
	defer receiver.Close()
	s := newSite(t, redistest.Single(t).URL)
	s.env = append(s.env, "TOLLGATE_TRACES_URL="+g.url, loopbackVariable+"=1")
	server, worker := s.serve(), launch(t, s.env, "work")
	base := server.serving()
	s.authenticate(base)
	s.must(http.StatusCreated, "POST", base+"/v1/webhooks", "hook", fmt.Sprintf(`{"url":%q,"event_types":["payment.authorized"]}`, receiver.URL+"/secret-path"))
	pay := func(key, traceparent string) {
		t.Helper()
		body := fmt.Sprintf(`{"merchant_account_id":%q,"amount":"77.31","currency":"EUR","payee":"shop.example","reference":"order-4711"}`, s.account)
		r, err := clitest.Send(t.Context(), s.token, "POST", base+"/v1/payments", body, "Idempotency-Key", key, "Traceparent", traceparent)
		if err != nil || r.StatusCode != http.StatusCreated {
			t.Fatalf("%v %d %s", err, r.StatusCode, r.Text)
		}
	}
	pay("unsampled", "00-"+unsampled+"-"+parent+"-00")
	arrived := func() string {
		t.Helper()
		select {
		case got := <-came:
			return got
		case <-time.After(patience):
			t.Fatal("the receiver got nothing")
			return ""
		}
	}
	if got := arrived(); got != "" {
		t.Errorf("the receiver of what is not sampled got %q", got)
	}
	pay("sampled", "00-"+trace+"-"+parent+"-01")
	got := arrived()

	for _, p := range []*process{server, worker} { // what is left is sent at the end
		p.signal(syscall.SIGTERM)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	request, redis, attempt := g.named(trace, "POST /v1/payments"), g.named(trace, "create_payment"), g.named(trace, "POST webhook")
	if request == nil || redis == nil || attempt == nil {
		t.Fatalf("request %v, redis %v, attempt %v", request, redis, attempt)
	}
	if g.named(unsampled, "POST /v1/payments") != nil {
		t.Error("a span of what its client does not sample")
	}
	if hex.EncodeToString(request.ParentSpanId) != parent || request.Kind != traces.Span_SPAN_KIND_SERVER {
		t.Errorf("the request is no child of its client's span: %v", request)
	}
	if !bytes.Equal(redis.ParentSpanId, request.SpanId) || !bytes.Equal(attempt.ParentSpanId, request.SpanId) {
		t.Errorf("not below the request %x: redis %x, attempt %x", request.SpanId, redis.ParentSpanId, attempt.ParentSpanId)
	}
	if want := "00-" + trace + "-" + hex.EncodeToString(attempt.SpanId) + "-01"; got != want {
		t.Errorf("the receiver got %q, not %q", got, want)
	}
	for _, private := range []string{s.token, "shop.example", "order-4711", "77.31", "7731", "secret-path", "whsec_", s.organization} {
		if bytes.Contains(g.bytes, []byte(private)) {
			t.Errorf("%q is in what is exported", private)
		}
	}
}

// Where the collector is away, payments are made all the same, and the log says once
// that traces are not sent.
func TestCollectorAway(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	s := newSite(t, redistest.Single(t).URL)
	s.env = append(s.env, "TOLLGATE_TRACES_URL="+gone.URL)
	server := s.serve()
	base := server.serving()
	s.authenticate(base)
	for i := range 20 {
		s.must(http.StatusOK, "POST", base+"/v1/quotes", "", fmt.Sprintf(`{"merchant_account_id":%q,"amount":"%d.00","currency":"EUR","payee":"shop.example"}`, s.account, i+1))
	}
	server.signal(syscall.SIGTERM)
	if code := server.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	testkit.Eventually(t, "the log says it", func() bool { return server.says("traces are not sent") })
}

// A sandbox has both halves of a trace, and /metrics says what becomes of spans.
func TestTracesOfSandbox(t *testing.T) {
	t.Parallel()
	const trace = "6bf92f3577b34da6a3ce929d0e0e4736"
	g := newGathering(t)
	metrics, err := redistest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dev.env")
	sandbox := launch(t, append(os.Environ(), "OTEL_BSP_SCHEDULE_DELAY=50"), "dev", "--addr", ":0", "--traces-url", g.url, "--metrics-addr", metrics, "--write-env", file)
	var base, token string
	testkit.Eventually(t, "the sandbox is ready", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		variable := func(name string) string {
			_, value, _ := strings.Cut(string(text), name+"=")
			value, _, _ = strings.Cut(value, "\n")
			return strings.Trim(value, "'")
		}
		base, token = variable("TOLLGATE_URL"), variable("TOLLGATE_TOKEN")
		return base != "" && token != ""
	})
	r, err := clitest.Send(t.Context(), token, "POST", base+"/v1/payments", `{"merchant_account_id":"`+demo.AccountEUR+`","amount":"10.00","currency":"EUR","payee":"shop.example"}`,
		"Idempotency-Key", "traced", "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	if err != nil || r.StatusCode != http.StatusCreated {
		t.Fatalf("%v %d %s", err, r.StatusCode, r.Text)
	}
	testkit.Eventually(t, "the request and its webhook are in the trace", func() bool {
		request, attempt := g.named(trace, "POST /v1/payments"), g.named(trace, "POST webhook")
		return request != nil && attempt != nil && bytes.Equal(attempt.ParentSpanId, request.SpanId)
	})
	testkit.Eventually(t, "/metrics has the spans", func() bool {
		r, err := clitest.Send(t.Context(), "", "GET", "http://"+metrics+"/metrics", "")
		if err != nil {
			t.Fatal(err)
		}
		ended, sent := metric(r.Text, "tollgate_trace_spans_ended_total"), metric(r.Text, "tollgate_trace_spans_sent_total")
		return sent >= 2 && ended >= sent
	})
	sandbox.signal(syscall.SIGINT)
	if code := sandbox.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// metric is the value of one without labels; zero where it is not there.
func metric(text, name string) float64 {
	_, rest, _ := strings.Cut(text, "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(value, 64)
	return n
}
