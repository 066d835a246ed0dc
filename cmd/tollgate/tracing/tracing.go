// Package tracing is the only one that knows OpenTelemetry: it makes spans of
// requests, of what they ask Redis and of the deliveries that they cause, and sends
// them to a collector (OTLP over HTTP).
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv/webhooks"
)

const (
	defaultPath = "/v1/traces"
	flushFor    = 5 * time.Second // at the end, for what is not sent yet
	silence     = time.Minute     // between two lines about a collector that is away
)

// Tracing makes spans and sends them in the background. Its queue is bounded: where the
// collector is away or slow, spans are dropped, and no request waits. nil makes none.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	clock    func() time.Time
	log      *slog.Logger
	tally    *tally
}

// New sends to a collector at an address such as http://127.0.0.1:4318. The SDK reads the
// variables of OpenTelemetry for the rest, such as OTEL_TRACES_SAMPLER. Without an
// address there is no Tracing.
func New(ctx context.Context, address, version string, clock func() time.Time, log *slog.Logger) (*Tracing, error) {
	if address == "" {
		return nil, nil
	}
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	client, err := newCollector(u)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	// What the environment says comes last, and wins.
	r, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tollgate"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(&complaints{clock: clock, log: log})
	return newTracing(exporter, r, clock, log), nil
}

func newTracing(exporter sdk.SpanExporter, r *resource.Resource, clock func() time.Time, log *slog.Logger) *Tracing {
	counts := &tally{SpanExporter: exporter}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(ends{counts}), sdk.WithBatcher(counts), sdk.WithResource(r))
	return &Tracing{provider, provider.Tracer("tollgate"), clock, log, counts}
}

// tally counts the spans that ended and those that the collector took. The SDK tells
// nobody how many it drops where its queue is full.
type tally struct {
	sdk.SpanExporter
	ended, sent atomic.Int64
}

func (t *tally) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		t.sent.Add(int64(len(spans)))
	}
	return err
}

// ends is what tells a tally of each end. Its Shutdown leaves the exporter alone, which
// has to send the rest first.
type ends struct{ tally *tally }

func (ends) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (ends) ForceFlush(context.Context) error           { return nil }
func (ends) Shutdown(context.Context) error             { return nil }

func (e ends) OnEnd(s sdk.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		e.tally.ended.Add(1)
	}
}

// Check says what is wrong with an address; an empty one is none.
func Check(address string) error {
	if address == "" {
		return nil
	}
	_, err := parse(address)
	return err
}

// parse makes of a collector's address that of its traces.
func parse(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is no address of a collector: give one such as http://127.0.0.1:4318", address)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = defaultPath
	}
	return u.String(), nil
}

// Close sends what is left, for a while, and says how many spans were lost in all.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushFor)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
	if ended, sent := t.Spans(); ended > sent {
		lost := ended - sent
		t.log.Warn("spans were not sent; requests are not affected", "spans", lost)
	}
}

// Spans are how many have ended, and how many of those the collector has taken. The
// others wait to be sent, or are lost.
func (t *Tracing) Spans() (ended, sent int64) {
	sent = t.tally.sent.Load() // first: one that is sent has ended
	return t.tally.ended.Load(), sent
}

// complaints writes down what goes wrong with spans, once a minute and not once a span.
type complaints struct {
	clock func() time.Time
	log   *slog.Logger
	last  atomic.Int64 // Unix milliseconds
}

func (c *complaints) Handle(err error) {
	now, last := c.clock().UnixMilli(), c.last.Load()
	if last != 0 && now-last < silence.Milliseconds() || !c.last.CompareAndSwap(last, now) {
		return
	}
	c.log.Warn("traces are not sent; requests go on", "error", err)
}

// Handlers is the Tracer of the API, nil where nothing is traced.
func (t *Tracing) Handlers() handlers.Tracer {
	if t == nil {
		return nil
	}
	return t.request
}

// Worker is the Tracer of deliveries, nil where nothing is traced.
func (t *Tracing) Worker() delivery.Tracer {
	if t == nil {
		return nil
	}
	return t.attempt
}

// Store is a rediskv.Options.Trace, nil where nothing is traced.
func (t *Tracing) Store() func(context.Context, string, time.Duration, error) {
	if t == nil {
		return nil
	}
	return t.redis
}

// known are the methods that OpenTelemetry names; a client can send any other text.
var known = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}

func (t *Tracing) request(ctx context.Context, remote string) (context.Context, string, bool, func(handlers.Traced)) {
	ctx, span := t.tracer.Start(follow(ctx, remote), "request", trace.WithSpanKind(trace.SpanKindServer))
	return ctx, traceparent(span), span.SpanContext().IsSampled(), func(r handlers.Traced) {
		defer span.End()
		method := r.Method
		if !slices.Contains(known, method) {
			method = "_OTHER"
		}
		attributes := []attribute.KeyValue{
			attribute.String("http.request.method", method), attribute.Int("http.response.status_code", r.Status),
			attribute.String("tollgate.request_id", r.RequestID),
		}
		span.SetName(method)
		if r.Route != "none" {
			_, path := cutRoute(r.Route)
			span.SetName(method + " " + path)
			attributes = append(attributes, attribute.String("http.route", path))
		}
		if r.Code != "" {
			attributes = append(attributes, attribute.String("error.type", string(r.Code)))
		}
		span.SetAttributes(attributes...)
		if r.Status >= 500 { // of a server's span, what the client did wrong is no error
			span.SetStatus(codes.Error, "")
		}
	}
}

// redis is a span of what a request asked Redis, made at its end.
func (t *Tracing) redis(ctx context.Context, operation string, took time.Duration, err error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	now := t.clock()
	_, span := t.tracer.Start(ctx, operation, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(now.Add(-took)),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.String("db.operation.name", operation)))
	if err != nil { // its text may name a key
		span.SetAttributes(attribute.String("error.type", string(codeOf(err))))
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(now))
}

// attempt is a span below the request's. What somebody had sent again, perhaps days
// later, is a trace of its own with a link to it.
func (t *Tracing) attempt(w webhooks.Work) (string, func(delivery.Sent)) {
	ctx := follow(context.Background(), w.Trace)
	cause := trace.SpanContextFromContext(ctx)
	if !cause.IsValid() {
		return "", nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", "POST"),
		attribute.String("tollgate.event_id", w.EventID), attribute.String("tollgate.event_type", string(w.EventType)),
		attribute.String("tollgate.delivery_id", w.DeliveryID), attribute.String("tollgate.webhook_id", w.Endpoint.ID),
		attribute.Int("http.request.resend_count", w.Number-1), attribute.String("tollgate.trigger", string(w.Trigger)),
	)}
	if w.Trigger != tollgate.TriggeredBySchedule {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: cause}))
	}
	// The endpoint's address is not named: its path may be a secret.
	_, span := t.tracer.Start(ctx, "POST webhook", options...)
	return traceparent(span), func(s delivery.Sent) {
		defer span.End()
		if s.Response != nil {
			span.SetAttributes(attribute.Int("http.response.status_code", s.Response.StatusCode))
		}
		if s.Succeeded() {
			return
		}
		span.SetStatus(codes.Error, "")
		switch {
		case s.Error != nil:
			span.SetAttributes(attribute.String("error.type", s.Error.Code))
		case s.Response != nil:
			span.SetAttributes(attribute.String("error.type", strconv.Itoa(s.Response.StatusCode)))
		}
	}
}

// follow is a context in the trace of a traceparent header.
func follow(ctx context.Context, header string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": header})
}

func traceparent(span trace.Span) string {
	c := span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// cutRoute parts a route such as "POST /v1/payments".
func cutRoute(route string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	return method, path
}

// codeOf is a short name of an error of the store.
func codeOf(err error) tollgate.Code {
	if e, ok := errors.AsType[*tollgate.Error](err); ok {
		return e.Code
	}
	return "_OTHER"
}
