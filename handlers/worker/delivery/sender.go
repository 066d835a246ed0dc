package delivery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"tollgate"
	"tollgate/handlers/egress"
	"tollgate/rediskv/webhooks"
)

// Timeouts bound one attempt; All is from the first look-up to the last byte.
type Timeouts struct{ Connect, TLS, All time.Duration }

// DefaultTimeouts are those of interface §6.
var DefaultTimeouts = Timeouts{Connect: 5 * time.Second, TLS: 5 * time.Second, All: 15 * time.Second}

const (
	maxAnswerHeaders = 16 << 10            // bytes of them that are read, 1xx answers included
	idlePerHost      = webhooks.MostAtOnce // connections kept for the next attempt
	idleInAll        = 1024
	idleFor          = 30 * time.Second

	// Of each connection, and a worker has thousands: by default 4 KiB each.
	usualRequest = 2 << 10 // bytes that are sent at once
	usualAnswer  = 1 << 10 // of an answer's headers that are read at once
)

// SenderConfig is what a Sender works with; Clock is needed.
type SenderConfig struct {
	Clock       func() time.Time
	Development bool           // loopback, http and any port are allowed too
	Timeouts    Timeouts       // zero: DefaultTimeouts
	Resolver    *net.Resolver  // nil: the machine's
	Roots       *x509.CertPool // nil: the machine's
	Version     string         // of this service, for the User-Agent
	// Transport carries the requests instead of the network, with no regard to
	// Timeouts but All, Resolver, Roots and where an address leads; nil: the network.
	Transport http.RoundTripper
}

// Sender makes single attempts. It trusts nothing about the other side: not
// the address that a name leads to, not that an answer is HTTP, is short or
// ends. It is safe for concurrent use.
type Sender struct {
	SenderConfig
	agent string
}

// NewSender makes a Sender with connections of its own.
func NewSender(c SenderConfig) *Sender {
	if c.Timeouts == (Timeouts{}) {
		c.Timeouts = DefaultTimeouts
	}
	if c.Transport == nil {
		c.Transport = c.network()
	}
	return &Sender{SenderConfig: c, agent: "Tollgate/" + cmp.Or(c.Version, "dev") + " (webhooks)"}
}

func (c SenderConfig) network() *http.Transport {
	dialer := &net.Dialer{Timeout: c.Timeouts.Connect, Resolver: c.Resolver, ControlContext: guard(c.Development)}
	return &http.Transport{
		Proxy:                  nil, // whatever the environment says
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots, Time: c.Clock},
		TLSHandshakeTimeout:    c.Timeouts.TLS,
		DisableCompression:     true, // nothing that comes back is ever inflated
		MaxResponseHeaderBytes: maxAnswerHeaders,
		ForceAttemptHTTP2:      true,
		// HTTP/2 buffers what nobody has read yet: by default 4 MiB an answer.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10,
			SendPingTimeout: c.Timeouts.All, PingTimeout: c.Timeouts.Connect,
		},
		WriteBufferSize: usualRequest, ReadBufferSize: usualAnswer,
		MaxIdleConns: idleInAll, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleFor,
	}
}

// Close drops the connections that wait for a next attempt.
func (s *Sender) Close() {
	if t, ok := s.Transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Message is an event on its way to one endpoint.
type Message struct {
	URL     string
	EventID string
	Body    []byte // sent as it is
	Keys    []tollgate.WebhookKey
	// Traceparent is that of the attempt's span; empty: the header is not sent.
	Traceparent string
}

// Sent is how an attempt went. It succeeded when a whole answer with a status
// of 200–299 came; otherwise Error or the status says why not.
type Sent struct {
	Started    tollgate.Instant
	Took       time.Duration
	Timing     tollgate.AttemptTiming
	Response   *tollgate.AttemptResponse // nil: no status came
	Error      *tollgate.AttemptError
	RetryAfter time.Duration // what the answer asks for; zero: nothing
	TimedOut   bool
	Own        bool // nothing was sent, and that is this service's fault
}

// Succeeded reports whether the endpoint has taken the event.
func (s Sent) Succeeded() bool {
	return s.Error == nil && s.Response != nil && s.Response.StatusCode >= 200 && s.Response.StatusCode <= 299
}

// Send makes one attempt. A redirect is an answer like any other and is not
// followed; a proxy is never used.
func (s *Sender) Send(ctx context.Context, m Message) Sent {
	start := s.Clock()
	ctx, cancel := context.WithTimeout(ctx, s.Timeouts.All)
	defer cancel()
	p := &phases{clock: s.Clock, giveUp: cancel}
	ctx = httptrace.WithClientTrace(ctx, p.trace())
	sent := Sent{Started: tollgate.At(start)}
	s.post(ctx, m, start, p, &sent)
	sent.Took, sent.Timing = s.Clock().Sub(start), p.timing()
	return sent
}

func (s *Sender) post(ctx context.Context, m Message, start time.Time, p *phases, sent *Sent) {
	// Checked when the endpoint was made, and again: the mode of this process
	// counts.
	if egress.CheckURL(m.URL, s.Development) != nil {
		sent.Error = blocked()
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		sent.Error = blocked()
		return
	}
	req.Header = http.Header{
		"Content-Type":      {"application/json"},
		"User-Agent":        {s.agent},
		"Accept-Encoding":   {"identity"},
		"Webhook-Id":        {m.EventID},
		"Webhook-Timestamp": {strconv.FormatInt(start.Unix(), 10)},
		"Webhook-Signature": {Signatures(m.Keys, m.EventID, start.Unix(), m.Body)},
		// Never sent. It tells net/http that the request may go out again when
		// a kept connection turns out to have been closed: receivers drop
		// repeats by webhook-id.
		"Idempotency-Key": {},
	}
	if m.Traceparent != "" {
		req.Header["Traceparent"] = []string{m.Traceparent}
	}
	// The transport itself, without http.Client: no redirects, no cookies.
	resp, err := s.Transport.RoundTrip(req)
	if err != nil {
		sent.Error, sent.TimedOut = failure(ctx, err, p)
		return
	}
	defer resp.Body.Close()
	sent.RetryAfter = RetryAfter(resp.Header.Get("Retry-After"), s.Clock())
	sent.Response, err = readAnswer(resp)
	if err != nil {
		sent.Error, sent.TimedOut = failure(ctx, err, p)
	}
}

var errBlocked = errors.New("egress blocked")

// guard looks at each concrete address after names were resolved and just
// before the connection is made: what is checked is what is dialled, so that
// no name server can answer twice (DNS rebinding).
func guard(development bool) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || (network != "tcp4" && network != "tcp6") || !egress.Reachable(to, development) {
			return errBlocked
		}
		return nil
	}
}

// blocked never names the address: it would tell an outsider how the inside
// resolves a name.
func blocked() *tollgate.AttemptError {
	return &tollgate.AttemptError{Code: "egress_blocked", Message: "The endpoint's URL leads to an address that deliveries must not go to."}
}
