// Package handlers is the only one that knows HTTP routing (httprouter): the
// route table, the checks that every request goes through, and an endpoint per
// row of interface §4. Endpoints return an answer or an error; one function
// writes both.
package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/connection"
	"tollgate/handlers/input"
	"tollgate/handlers/oauth"
	"tollgate/handlers/problem"
	"tollgate/handlers/rate"
	"tollgate/handlers/rulesync"
	"tollgate/handlers/secret"
	"tollgate/handlers/shadow"
	"tollgate/handlers/share"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// cachedTokens bounds how many verified access tokens are remembered.
const cachedTokens = 10_000

// Observer is told what a Server does, as the program makes metrics of it. Many
// goroutines call it.
type Observer interface {
	Request(route string, status int, took time.Duration)
	Read(servedBy string) // that was answered by the primary or the replica, as Tollgate-Served-By says
	// RedisMemory is used_memory by maxmemory, of the fullest master; 0 without a
	// limit.
	RedisMemory(used float64)
}

type unobserved struct{}

func (unobserved) Request(string, int, time.Duration) {}
func (unobserved) Read(string)                        {}
func (unobserved) RedisMemory(float64)                {}

// Config is what a Server works with; Log, Observer and Examine may be nil.
type Config struct {
	Store *store.Store
	Rules *wasm.Engine
	Keys  *auth.Keys
	// Follow is told each second of the keys as they are in Redis; nil: nobody is.
	Follow    func(ctx context.Context, instance string, found instances.Look)
	IssuerURL string        // iss and aud of tokens, aud of assertions, base of the metadata's URLs
	Vault     *secret.Vault // the same on every instance and in the worker
	Entropy   io.Reader     // safe for concurrent use
	Clock     func() time.Time
	Log       *slog.Logger
	Observer  Observer
	Tracer    Tracer // nil: requests have no spans
	// Development lets webhook endpoints be on this machine (interface §6).
	Development bool
	// Aliases are other names of the issuer, for the sandbox alone: assertions may
	// name one as their audience, and who asks for the metadata under one is
	// answered with it.
	Aliases []string
	// Advance moves Clock; nil, as everywhere but in the sandbox, and there is no
	// operation that does it. Wall is then real time, by which tokens and
	// assertions are made and checked; nil: Clock.
	Advance advanceFunc
	Wall    func() time.Time
	// MaxStaleness is how long quotes go on with a configuration that Redis cannot
	// confirm; 0: defaultMaxStaleness, below: not at all.
	MaxStaleness time.Duration
	// Examine judges modules that are to be published, which are of unknown
	// origin: in a process that can be killed (wasm.Examine says why). nil where
	// nothing can: then no rule is published here.
	Examine wasm.Examiner

	Transport Transport
	// RateLimits are those of clients and grants that have none of their own; what they
	// do not set is as usual (package rate).
	RateLimits gcra.Limits
}

// Transport is how requests reach a server.
type Transport struct {
	Proxies connection.Proxies // whose X-Forwarded-Proto counts
	// Required refuses what did not come over https, probes apart. The issuer is
	// https then.
	Required bool
}

// Server answers the API.
type Server struct {
	store     *store.Store
	rules     *wasm.Engine
	keys      *auth.Keys
	oauth     *oauth.Endpoints
	verifier  *auth.Verifier
	cursors   *input.Cursors
	vault     *secret.Vault
	entropy   io.Reader
	clock     func() time.Time
	wall      func() time.Time
	advance   advanceFunc
	log       *slog.Logger
	observer  Observer
	tracer    Tracer // nil: off
	router    *httprouter.Router
	builtin   []tollgate.RuleRef // what an instance must have before it is sent anything
	examine   wasm.Examiner
	sync      *rulesync.Sync
	shadows   *shadow.Comparer
	shares    *share.Instance
	capacity  capacity
	rates     *rate.Limiter
	strangers *rate.Tally
	metadata  document
	aliased   map[string]document // the metadata, by host

	help         string // address that explains an error, without its code; empty: none
	development  bool
	maxStaleness time.Duration
	transport    Transport

	draining context.Context // ends when Drain is called
	drain    context.CancelFunc
}

// New checks a configuration and builds the routes.
func New(c Config) (*Server, error) {
	if c.Store == nil || c.Rules == nil || c.Keys == nil || c.IssuerURL == "" || c.Clock == nil || c.Vault == nil || c.Entropy == nil {
		return nil, errors.New("handlers: store, rules, keys, issuer, clock, vault and entropy are needed")
	}
	if c.Wall == nil {
		c.Wall = c.Clock
	}
	s := &Server{
		store: c.Store, rules: c.Rules, keys: c.Keys, clock: c.Clock, wall: c.Wall, advance: c.Advance, log: c.Log,
		vault: c.Vault, entropy: c.Entropy, development: c.Development,
		shares: share.NewInstance(c.Store.Lanes()), examine: c.Examine, observer: c.Observer, tracer: c.Tracer,
		transport: c.Transport, rates: rate.New(c.RateLimits, c.Wall),
	}
	s.strangers = rate.NewTally(s.rates)
	s.maxStaleness = max(0, cmp.Or(c.MaxStaleness, defaultMaxStaleness))
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.observer == nil {
		s.observer = unobserved{}
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	var err error
	if s.verifier, err = auth.NewVerifier(c.Keys, c.IssuerURL, cachedTokens, c.Wall); err != nil {
		return nil, fmt.Errorf("handlers: %w", err)
	}
	s.oauth = &oauth.Endpoints{
		Store: s.store, Issuer: &auth.Issuer{Keys: c.Keys, Name: c.IssuerURL}, Verifier: s.verifier,
		Clock: s.clock, Wall: s.wall, Development: c.Development, Vault: c.Vault,
	}
	s.cursors = &input.Cursors{Vault: c.Vault}
	if s.builtin, err = wasm.BuiltinRefs(); err != nil {
		return nil, fmt.Errorf("handlers: %w", err)
	}
	s.sync = rulesync.New(rulesync.Config{
		Store: s.store, Engine: s.rules, Instance: s.store.NewID(tollgate.PrefixInstance), Compiling: s.shares.Compiling, Clock: s.clock, Wall: s.wall,
		Log: s.log, Builtin: s.builtin, Keys: c.Follow,
	})
	s.shadows = shadow.New(s.sync)
	if err := s.describe(c.IssuerURL, c.Aliases); err != nil {
		return nil, fmt.Errorf("handlers: metadata: %w", err)
	}
	s.router = s.route()
	return s, nil
}

// Handler answers every request of the API.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.handle) }

// Listen is a listener for the server's own connections.
func (s *Server) Listen(l net.Listener) net.Listener {
	return connection.Listen(l, connection.Host{Refuse: s.refusal, Turn: func(organization, client string) (*share.Held, error) {
		done, err := s.shares.Processors.Turn(s.draining, organization, client)
		if err != nil {
			return nil, err
		}
		return s.shares.Holds.Soon(done), nil
	}, Broken: func(peer net.Addr, err error) {
		s.log.Debug("tls handshake failed", "peer", peer.String(), "error", err)
	}})
}

// FailingRules counts the rules that have failed more often than not in the last
// minute, at least five times, or that this instance cannot load: by citation, and
// all that tenants have published together (rulesync.PublishedRules).
func (s *Server) FailingRules() map[string]int { return s.sync.FailingByName() }

// Drain makes the instance not ready and lets event listings that wait return
// at once, so that requests in flight can finish before it stops.
func (s *Server) Drain() { s.drain() }

// Prepare makes the instance ready for quotes of accounts, by organization, while Redis
// is away. It takes the place of Follow.
func (s *Server) Prepare(ctx context.Context, accounts map[string][]string) {
	s.sync.Prepare(ctx, accounts)
}

// Follow keeps the rules that this instance must have, and what it knows of Redis,
// up to date until ctx ends; then the instance counts no more.
func (s *Server) Follow(ctx context.Context) {
	var looks sync.WaitGroup
	looks.Go(func() {
		s.lookAtMemory(ctx)
		for tick := time.NewTicker(memoryInterval); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				s.writeRefusals(context.WithoutCancel(ctx))
				return
			case <-tick.C:
				s.lookAtMemory(ctx)
				s.writeRefusals(ctx)
			}
		}
	})
	looks.Go(func() { s.store.FollowHealth(ctx) })
	s.sync.Follow(ctx)
	looks.Wait()
}

// route builds the router: no redirects and no answers of its own, so that a
// client sees either what it asked for or an error of interface §7.
func (s *Server) route() *httprouter.Router {
	r := httprouter.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	for i := range rows {
		if rows[i].sandbox && s.advance == nil {
			continue
		}
		serve := s.serve(&rows[i])
		r.Handle(rows[i].Method, rows[i].pattern(), serve)
		if rows[i].Method == http.MethodGet { // RFC 9110 §9.3.2: net/http keeps the body back
			r.Handle(http.MethodHead, rows[i].pattern(), serve)
		}
	}
	r.NotFound = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w.(*call), problem.New(tollgate.CodeNotFound, "There is nothing at this address."))
	})
	r.MethodNotAllowed = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Allow", s.allowed(req.URL.Path))
		s.fail(w.(*call), problem.New(tollgate.CodeMethodNotAllowed, "This address does not take that method; Allow lists those that it takes."))
	})
	return r
}
