package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/webhooks"
)

const (
	knownTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent     = "00f067aa0ba902b7"
	cause      = "00-" + knownTrace + "-" + parent + "-01"
)

// recorded is a Tracing whose spans are kept in order of their ends.
func recorded() (*Tracing, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	return &Tracing{provider: provider, tracer: provider.Tracer("tollgate"), clock: time.Now}, spans
}

// A scheduled attempt is below the request that caused the event. What somebody had sent
// again is a trace of its own with a link to it.
func TestAttempts(t *testing.T) {
	for trigger, below := range map[tollgate.AttemptTrigger]bool{
		tollgate.TriggeredBySchedule: true, tollgate.TriggeredByReplay: false, tollgate.TriggeredByRecovery: false,
	} {
		tr, spans := recorded()
		header, end := tr.Worker()(webhooks.Work{Endpoint: &tollgate.StoredWebhook{}, Trace: cause, Trigger: trigger, Number: 2})
		end(delivery.Sent{})
		ended := spans.Ended()
		if len(ended) != 1 {
			t.Fatalf("%s: %d spans", trigger, len(ended))
		}
		span := ended[0]
		own := span.SpanContext().TraceID().String()
		if header != "00-"+own+"-"+span.SpanContext().SpanID().String()+"-01" {
			t.Errorf("%s: the receiver gets %q of trace %s", trigger, header, own)
		}
		if below {
			if own != knownTrace || span.Parent().SpanID().String() != parent || len(span.Links()) != 0 {
				t.Errorf("%s: trace %s, parent %s, %d links", trigger, own, span.Parent().SpanID(), len(span.Links()))
			}
			continue
		}
		if own == knownTrace || span.Parent().IsValid() {
			t.Errorf("%s: trace %s, parent %s", trigger, own, span.Parent().SpanID())
		}
		if l := span.Links(); len(l) != 1 || l[0].SpanContext.TraceID().String() != knownTrace || l[0].SpanContext.SpanID().String() != parent {
			t.Errorf("%s: links %+v", trigger, l)
		}
	}
}

// A trace that cannot be read, which a later release may write, is none.
func TestAttemptOfATraceThatCannotBeRead(t *testing.T) {
	tr, spans := recorded()
	header, end := tr.Worker()(webhooks.Work{Trace: "01-later"})
	if header != "" || end != nil || len(spans.Started()) != 0 {
		t.Errorf("%q, %d spans", header, len(spans.Started()))
	}
}

// What a request asks Redis is below its span, and of what no request asks is none.
func TestRedisBelowItsRequest(t *testing.T) {
	tr, spans := recorded()
	ctx, _, _, end := tr.Handlers()(t.Context(), cause)
	tr.Store()(ctx, "create_payment", time.Millisecond, errors.New("org_secret"))
	tr.Store()(t.Context(), "renew_lease", time.Millisecond, nil)
	end(handlers.Traced{Method: "BREW", Route: "none", Status: 503})
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	redis, request := ended[0], ended[1]
	if redis.Name() != "create_payment" || redis.Parent().SpanID() != request.SpanContext().SpanID() || redis.EndTime().Sub(redis.StartTime()) != time.Millisecond {
		t.Errorf("%s below %s for %s", redis.Name(), redis.Parent().SpanID(), redis.EndTime().Sub(redis.StartTime()))
	}
	if request.Name() != "_OTHER" || request.Parent().SpanID().String() != parent {
		t.Errorf("%s below %s", request.Name(), request.Parent().SpanID())
	}
	for _, a := range redis.Attributes() {
		if strings.Contains(a.Value.String(), "org_secret") {
			t.Errorf("%s tells the error's text", a.Key)
		}
	}
}

// However many spans are lost, the log says it once a minute.
func TestComplaints(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1, 0)
	c := &complaints{clock: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, step := range []time.Duration{0, time.Second, 58 * time.Second, time.Second, time.Second} {
		now = now.Add(step)
		c.Handle(errors.New("away"))
		c.Handle(errors.New("away"))
	}
	if n := strings.Count(log.String(), "traces are not sent"); n != 2 {
		t.Errorf("%d lines in 61 s:\n%s", n, &log)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://c.example/": "https://c.example/v1/traces",
		"https://c.example/own/path": "https://c.example/own/path",
		"127.0.0.1:4318":             "", "c.example": "", "grpc://c.example:4317": "", "http://": "",
	} {
		got, err := parse(address)
		if got != want || (err == nil) != (want != "") || (Check(address) == nil) != (err == nil) {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
	if none, err := New(t.Context(), "", "", nil, nil); none != nil || err != nil || none.Handlers() != nil || none.Worker() != nil || none.Store() != nil {
		t.Error("without an address something is traced")
	}
}

// stuck is a collector that takes nothing until it is let go.
type stuck struct {
	free chan struct{}
	shut atomic.Bool // and then nothing at all
}

func (s *stuck) ExportSpans(context.Context, []sdk.ReadOnlySpan) error {
	<-s.free
	if s.shut.Load() {
		return errors.New("shut down")
	}
	return nil
}

func (s *stuck) Shutdown(context.Context) error {
	s.shut.Store(true)
	return nil
}

// A collector that answers nothing fills the queue. No request waits for it: all of
// them end before it is let go. What the queue had no room for is counted.
func TestNoRequestWaitsForTheCollector(t *testing.T) {
	var log bytes.Buffer
	s := &stuck{free: make(chan struct{})}
	tr := newTracing(s, resource.Empty(), time.Now, slog.New(slog.NewTextHandler(&log, nil)))
	const requests = 3 * sdk.DefaultMaxQueueSize
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range requests {
			ctx, _, _, end := tr.Handlers()(context.Background(), cause)
			tr.Store()(ctx, "quote", 0, nil)
			end(handlers.Traced{Method: "POST", Route: "POST /v1/quotes", Status: 200})
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("requests wait for the collector")
	}
	close(s.free)
	tr.Close()
	lost := 2*requests - tr.tally.sent.Load()
	if lost <= 0 || tr.tally.sent.Load() < sdk.DefaultMaxQueueSize {
		t.Errorf("%d spans were lost, and %d sent", lost, tr.tally.sent.Load())
	}
	if want := fmt.Sprintf("spans=%d\n", lost); !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, &log)
	}
}
