package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	sendFor   = 10 * time.Second // one attempt
	firstWait = time.Second
	maxAnswer = 64 << 10 // bytes of an answer that are read
)

// collector sends spans by OTLP over HTTP, in protobuf. It is an otlptrace.Client: that
// of OpenTelemetry has gRPC with it, 5 MB that nothing here calls.
type collector struct {
	address string
	header  http.Header
	http    *http.Client
	wait    time.Duration // before the second attempt; before the next one twice as long
}

// newCollector takes the headers of every request from the environment:
// OTEL_EXPORTER_OTLP_TRACES_HEADERS, or else OTEL_EXPORTER_OTLP_HEADERS.
func newCollector(address string) (*collector, error) {
	c := &collector{address, http.Header{}, &http.Client{Timeout: sendFor}, firstWait}
	variable := "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	if os.Getenv(variable) == "" {
		variable = "OTEL_EXPORTER_OTLP_HEADERS"
	}
	for entry := range strings.SplitSeq(os.Getenv(variable), ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		name, value, found := strings.Cut(entry, "=")
		text, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil || strings.TrimSpace(name) == "" { // its text may be a secret
			return nil, fmt.Errorf("%s is no list of name=value with commas between them", variable)
		}
		c.header.Set(strings.TrimSpace(name), text)
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	return c, nil
}

func (c *collector) Start(context.Context) error { return nil }

func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans until the collector takes them, refuses them for good, or ctx
// ends. On the wire TracesData is an ExportTraceServiceRequest, whose package has gRPC
// with it.
func (c *collector) UploadTraces(ctx context.Context, spans []*traces.ResourceSpans) error {
	body, err := proto.Marshal(&traces.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	for wait := c.wait; ; wait *= 2 {
		after, err := c.send(ctx, body)
		if err == nil || after < 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(max(wait, after)):
		}
	}
}

// send makes one attempt. Where it fails, after says how long the collector wants to
// wait before the next one; less than 0: it will never take the spans.
func (c *collector) send(ctx context.Context, body []byte) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // for the next one on this connection
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		after = time.Duration(max(0, seconds)) * time.Second
	default:
		after = -1
	}
	if resp.StatusCode/100 != 2 {
		return after, fmt.Errorf("the collector answers %s", resp.Status)
	}
	return 0, nil
}
