package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/connection"
	"tollgate/handlers/input"
	"tollgate/handlers/oauth"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/bodies"
)

// Limits of interface §8.
const (
	maxURI         = 4 << 10
	maxHeaders     = 16 << 10
	requestTimeout = 10 * time.Second
)

// handle is the outermost layer: the request's id and limits, the log, the
// metrics, and a panic that must not end the instance.
func (s *Server) handle(w http.ResponseWriter, req *http.Request) {
	// Work that was begun is finished although its client left: what takes long
	// is bounded, and net/http calls it leaving, too, when a client has sent
	// its last byte and still reads.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), requestTimeout)
	defer cancel()
	c := &call{ResponseWriter: w, request: req, ctx: ctx, start: s.wall(), id: s.store.NewID(tollgate.PrefixRequest), leave: func() {}, store: s.store}
	var framed connection.Frame
	if c.connection = connection.Of(req); c.connection != nil {
		framed = c.connection.Begin()
	}
	defer s.finish(c)
	h := w.Header()
	h.Set("Request-Id", c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	if s.advance != nil { // clients count from it; elsewhere net/http says the same
		h.Set("Date", s.clock().UTC().Format(http.TimeFormat))
	}
	secure := s.transport.Proxies.Secure(req)
	if secure && s.transport.Required {
		h.Set("Strict-Transport-Security", "max-age=31536000") // of this host alone: those below it may be somebody else's
	}
	c.continueTrace()
	if s.tracer != nil {
		c.begin(s.tracer)
	}
	if framed.Final {
		h.Set("Connection", "close")
	}
	switch {
	case framed.Fault != nil:
		s.fail(c, framed.Fault)
	case !secure && s.transport.Required && req.URL.Path != "/healthz" && req.URL.Path != "/readyz":
		s.fail(c, connection.InTheClear(req.RemoteAddr))
	case len(req.RequestURI) > maxURI:
		s.fail(c, problem.New(tollgate.CodeURITooLong, fmt.Sprintf("A request's URI has at most %d bytes.", maxURI)))
	case input.HeaderBytes(req) > maxHeaders:
		s.fail(c, problem.New(tollgate.CodeHeadersTooLarge, fmt.Sprintf("A request's headers have at most %d bytes.", maxHeaders)))
	case strings.Contains(strings.ToUpper(req.URL.RawPath), "%2F"):
		// The router sees the decoded path; an encoded slash is part of an id,
		// and no id has one.
		s.fail(c, problem.New(tollgate.CodeNotFound, "There is nothing at this address."))
	default:
		s.router.ServeHTTP(c, req)
	}
}

// finish turns a panic into a 500 and tells log and metrics of the request.
func (s *Server) finish(c *call) {
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.log.Error("panic", "request_id", c.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if c.status != 0 { // too late for another answer
			panic(http.ErrAbortHandler)
		}
		s.fail(c, fmt.Errorf("panic: %v", p))
	}
	took := s.wall().Sub(c.start)
	route := "none"
	switch {
	case c.row != nil:
		route = c.row.name()
	case c.door != "":
		route = c.request.Method + " " + c.door
		if c.request.Method == http.MethodHead {
			route = http.MethodGet + " " + c.door
		}
	}
	s.observer.Request(route, c.status, took)
	if c.traced != nil {
		c.traced(Traced{Method: c.request.Method, Route: route, RequestID: c.id, Status: c.status, Code: c.subject.Code})
	}
	if c.servedBy != "" {
		s.observer.Read(c.servedBy)
	}
	s.log.LogAttrs(c.ctx, slog.LevelInfo, "request", append([]slog.Attr{
		slog.String("method", c.request.Method), slog.String("route", route), slog.Int("status", c.status),
		slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.String("request_id", c.id), slog.String("client", c.client),
		slog.String("organization", c.org), slog.String("trace_id", c.trace),
	}, c.subject.attributes()...)...)
	if c.connection != nil {
		c.connection.Sent(c.ResponseWriter)
	}
}

// serve carries a request of one route from its checks to its answer.
func (s *Server) serve(r *row) httprouter.Handle {
	return func(w http.ResponseWriter, _ *http.Request, params httprouter.Params) {
		c := w.(*call)
		c.row, c.params = r, params
		if err := s.admit(c); err != nil {
			s.fail(c, err)
			return
		}
		defer func() { c.leave() }()
		a, err := s.shared(c)
		if err != nil {
			s.fail(c, s.refused(c, err))
			return
		}
		s.write(c, a)
	}
}

// admit makes every check that does not need to know the endpoint, in the
// order of their cost: nothing of the body is read for a stranger.
func (s *Server) admit(c *call) error {
	if err := input.CheckAccept(c.request, c.row.media...); err != nil {
		return err
	}
	if c.row.Scope != "" {
		if err := s.authorize(c); err != nil {
			return err
		}
	}
	if err := input.CheckSingleHeaders(c.request); err != nil {
		return err
	}
	var err error
	if c.query, err = input.ParseQuery(c.request.URL.RawQuery, c.row.query); err != nil {
		return err
	}
	for _, p := range c.params {
		if !tollgate.ValidID(p.Value) && p.Key != "kid" { // whose owner has chosen it
			return tollgate.NotFound()
		}
	}
	if c.idem, err = input.IdempotencyKey(c.request.Header, c.row.key); err != nil {
		return err
	}
	c.body, err = input.ReadBody(c.ResponseWriter, c.request, c.row.body, c.row.limit)
	return err
}

// withBody is an endpoint that takes a JSON object.
func withBody[B any](do func(*Server, *call, B) (*answer, error), read func(*input.Fields) B) func(*Server, *call) (*answer, error) {
	return func(s *Server, c *call) (*answer, error) {
		body, err := input.Decode(c.body, c.row.body == input.OptionalJSON, read)
		if err != nil {
			return nil, err
		}
		return do(s, c, body)
	}
}

// maxAttempts bounds how often a request is tried again because configuration
// changed under it.
const maxAttempts = 4

// fresh tries again what found that its configuration was no longer in force.
func fresh[T any](s *Server, c *call, try func() (T, error)) (result T, err error) {
	for range maxAttempts {
		if result, err = try(); !errors.Is(err, rediskv.ErrStale) {
			return result, err
		}
		s.store.Refresh(c.org)
	}
	return result, problem.New(tollgate.CodeStoreUnavailable, "The configuration is changing; try again.")
}

// object is the answer 200 with the JSON of v.
func object(v any) (*answer, error) { return created(http.StatusOK, "", v) }

// created is an answer with the JSON of v.
func created(status int, location string, v any) (*answer, error) {
	body, err := bodies.Of(v)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return &answer{status: status, location: location, body: body}, nil
}

// tagged is an answer that etag stands for. Whoever has it already is not sent it again,
// and it is not even made. An empty etag stands for nothing.
func (c *call) tagged(etag string, make func() (*answer, error)) (a *answer, err error) {
	if etag != "" && c.has(etag) {
		return &answer{status: http.StatusOK, etag: etag}, nil
	}
	if a, err = make(); err == nil {
		a.etag = etag
	}
	return a, err
}

// has reports whether the client has what an ETag stands for.
func (c *call) has(etag string) bool {
	return input.Matches(c.request.Header["If-None-Match"], etag)
}

// stored is the answer of a commit, which may be an earlier request's.
func stored(r rediskv.Result) *answer {
	a := &answer{status: r.Status, location: r.Location, body: r.Body, repeated: r.Repeated}
	if a.status >= 400 {
		a.media = mediaProblem
	}
	return a
}

// write is where every answer leaves. What does not say otherwise is kept by
// no cache but the client's own, and by that only where it can ask whether it
// still holds.
func (s *Server) write(c *call, a *answer) {
	c.rateHeaders()
	if c.nonce != "" {
		c.Header().Set("DPoP-Nonce", c.nonce)
	}
	if a.file != nil {
		s.sendFile(c, a.file)
		return
	}
	c.subject = c.about(a)
	h := c.Header()
	kept := "no-store"
	if a.etag != "" {
		kept = keptByClient
	}
	h.Set("Cache-Control", cmp.Or(a.cache, kept))
	for name, value := range map[string]string{"ETag": a.etag, "Link": s.helpOn(c.subject.Code), "Location": a.location, "Retry-After": a.retryAfter} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if a.repeated {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.status == http.StatusOK && a.etag != "" && c.has(a.etag) {
		c.WriteHeader(http.StatusNotModified)
		return
	}
	if a.status < http.StatusMultipleChoices {
		c.placed(h)
	}
	h.Set("Content-Type", cmp.Or(a.media, mediaJSON))
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	c.WriteHeader(a.status)
	if _, err := c.Write(a.body); err != nil {
		s.log.Debug("answer not sent", "request_id", c.id, "error", err)
	}
}

// fail is where every error becomes an answer. What is refused goes into the
// audit record, or is counted, before it is told.
func (s *Server) fail(c *call, err error) {
	e := problem.From(err)
	if limited := s.refuse(c, problem.StatusOf(e.Code), e, err); limited != nil {
		e, err = limited, limited
	}
	if errors.Is(err, auth.ErrProof) {
		c.nonce = s.oauth.Nonce()
	}
	h := c.Header()
	switch e.Code {
	case tollgate.CodeStoreUnavailable, tollgate.CodeArchiveUnavailable, tollgate.CodeCapacityReached, tollgate.CodeHistoryLost, tollgate.CodeShareExhausted:
		h.Set("Retry-After", "1")
	case tollgate.CodeTokenMissing, tollgate.CodeTokenInvalid, tollgate.CodeTokenExpired, tollgate.CodeScopeMissing:
		if !c.isOAuth() && !(e.Code == tollgate.CodeScopeMissing && c.token.Scopes.Has(c.row.Scope)) { // what it lacks is no scope of the route
			h.Set("WWW-Authenticate", oauth.Challenge(e, c.row.Scope, oauth.Proven(c.request.Header)))
		}
	}
	if c.isOAuth() {
		s.write(c, &answer{status: problem.StatusOf(e.Code), body: oauth.Problem(e, err)})
		return
	}
	s.write(c, stored(rediskv.Result{Answer: problem.Of(e, c.id)}))
}
