package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/julienschmidt/httprouter"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/connection"
	"tollgate/handlers/input"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/store"
)

// call is one request on its way through serve, and the http.ResponseWriter
// that notes what was answered.
type call struct {
	http.ResponseWriter
	request    *http.Request
	connection *connection.Conn // nil where none of ours carries the request
	ctx        context.Context
	params     httprouter.Params
	row        *row   // nil for an address that is no route
	door       string // the path of a Door, else empty
	id         string
	start      time.Time
	trace      string // the trace id that a valid traceparent carried
	caused     string // the traceparent that goes on into deliveries; empty: none
	traced     func(Traced)
	status     int // 0 until something was written

	query input.Values
	body  []byte
	idem  string // the Idempotency-Key as it counts, or empty
	token *auth.Token
	rate  *gcra.Count // the limit that it counts in; nil: none
	grant *accounts.Grant
	// assertion is that of a token request, once its signature was found to be
	// the client's.
	assertion auth.Assertion
	client    string               // as far as it is known, for the log
	org       string               // the client's
	target    tollgate.AuditTarget // what a request without an id in its path is about
	subject   subject              // what it was about, once it is answered
	store     *store.Store         // what is read from: the replica, for some routes
	servedBy  string               // who answered a read
	revision  int64                // what was written or repeated is in this one, and in later ones
	turn      turn                 // at what makes Redis look at much; nil: it need not wait
	nonce     string               // for the client's next proof (RFC 9449 §8.2); empty: it has one
	leave     func()               // what it uses until its answer is sent
	silent    bool                 // it was refused so that Redis hears nothing of it
}

// WriteHeader notes the status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write notes that something was written.
func (c *call) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// pathID is the first path parameter of a route that has one.
func (c *call) pathID() string {
	if len(c.params) == 0 {
		return ""
	}
	return c.params[0].Value
}

// pathIDs are all path parameters, with slashes between them.
func (c *call) pathIDs() string {
	ids := make([]string, len(c.params))
	for i, p := range c.params {
		ids[i] = p.Value
	}
	return strings.Join(ids, "/")
}

// caller is who asks, for the store; status is what success will answer.
func (c *call) caller(status int) rediskv.Caller {
	caller := rediskv.Caller{Organization: c.org, Request: c.audited(status), Turn: c.turn, Rate: c.rate, Revision: &c.revision, Trace: c.caused}
	if c.token != nil {
		caller.GrantVersion, caller.Token = c.token.GrantVersion, c.token.ID
		caller.Actor = tollgate.Actor{ClientID: c.token.ClientID, GrantID: c.token.GrantID, KeyID: c.token.KeyID}
	}
	return caller
}

func (c *call) audited(status int) tollgate.AuditRequest {
	r := tollgate.AuditRequest{ID: c.id, Method: c.request.Method, Route: c.door, Status: status}
	if c.row != nil {
		r.Route = c.row.Path
	}
	return r
}

// origin is what the request causes changes as.
func (c *call) origin(now time.Time) tollgate.Origin {
	return tollgate.Origin{Organization: c.org, RequestID: c.id, At: tollgate.At(now)}
}

// The media types of answers.
const (
	mediaJSON    = "application/json"
	mediaProblem = "application/problem+json" // RFC 9457
)

// keptByClient is the Cache-Control of what has an ETag (interface §0).
const keptByClient = "private, no-cache"

// answer is what goes back. Status and body are enough.
type answer struct {
	status   int
	body     []byte
	media    string // empty: mediaJSON
	location string
	etag     string
	cache    string // Cache-Control; empty: keptByClient with an ETag, else no-store
	repeated bool   // an earlier request's answer (interface §4)

	retryAfter string    // seconds
	file       *download // instead of everything else
}

// continueTrace answers a valid traceparent with the same trace and a span of
// our own (W3C Trace Context §3.2); any other is ignored, as it asks.
func (c *call) continueTrace() {
	headers := c.request.Header["Traceparent"]
	if len(headers) != 1 {
		return
	}
	trace, flags, ok := input.ParseTraceparent(headers[0])
	if !ok {
		return
	}
	span := sha256.Sum256([]byte(c.id)) // as unique as the request's id
	c.trace = trace
	c.Header().Set("Traceparent", "00-"+trace+"-"+hex.EncodeToString(span[:8])+"-"+flags)
}

// Tracer begins the span of a request, in the trace of a traceparent header as it
// came (empty: in a trace of its own). own is the span's, and sampled whether
// anybody will see it; end is called once, with what became of the request.
type Tracer func(ctx context.Context, remote string) (_ context.Context, own string, sampled bool, end func(Traced))

// Traced is what a span says of a request. It names nobody and no amount.
type Traced struct {
	Method, Route, RequestID string
	Status                   int
	Code                     tollgate.Code // of an error, else empty
}

// begin begins the request's span, after continueTrace has read the header. Only a
// span that is sampled goes on into deliveries: for any other, nothing is stored.
func (c *call) begin(tracer Tracer) {
	remote := ""
	if c.trace != "" {
		remote = c.request.Header["Traceparent"][0]
	}
	ctx, own, sampled, end := tracer(c.ctx, remote)
	c.ctx, c.traced = ctx, end
	if c.trace != "" {
		c.Header().Set("Traceparent", own)
	}
	if sampled {
		c.caused = own
	}
}

// subject is what a request was about, as far as its path and its answer say:
// with it the log finds a payment, and what became of it.
type subject struct {
	Payment string        `json:"payment_id"`
	Ticket  string        `json:"ticket_id"`
	Code    tollgate.Code `json:"code"`
}

// about is the subject of a request that gets this answer. An error is read as
// it leaves, so that one that an earlier request got says the same.
func (c *call) about(a *answer) subject {
	var is subject
	if a.status >= 400 {
		is = saidIn(a.body)
	}
	if id, ok := strings.CutPrefix(a.location, "/v1/payments/"); ok && is.Payment == "" {
		is.Payment = id
	}
	if id := c.params.ByName("payment_id"); is.Payment == "" && tollgate.ValidID(id) {
		is.Payment = id
	}
	if id := c.params.ByName("ticket_id"); is.Ticket == "" && tollgate.ValidID(id) {
		is.Ticket = id
	}
	// One ends as the other does.
	if id, ok := strings.CutPrefix(is.Payment, tollgate.PrefixPayment); ok && is.Ticket == "" {
		is.Ticket = tollgate.PrefixTicket + id
	}
	if id, ok := strings.CutPrefix(is.Ticket, tollgate.PrefixTicket); ok && is.Payment == "" {
		is.Payment = tollgate.PrefixPayment + id
	}
	return is
}

// saidIn is what an error names; what it does not say stays empty.
func saidIn(body []byte) (is subject) {
	_ = json.Unmarshal(body, &is) // ours
	return is
}

// attributes are the subject in a line of the log; what is empty is left out.
func (is subject) attributes() (list []slog.Attr) {
	for _, a := range []slog.Attr{slog.String("payment_id", is.Payment), slog.String("ticket_id", is.Ticket), slog.String("code", string(is.Code))} {
		if a.Value.String() != "" {
			list = append(list, a)
		}
	}
	return list
}
