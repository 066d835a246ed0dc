package handlers_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/conform"
	"tollgate/handlers/rate"
	"tollgate/handlers/spill"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/testkit"
	"tollgate/wasm"
)

// morning is when every world begins: a Monday, 09:00 UTC.
var morning = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// world is a server with two organizations, a clock that only the test moves,
// and every exchange held to the OpenAPI document.
type world struct {
	t        *testing.T
	url      string
	redis    string
	client   *http.Client
	server   *handlers.Server
	store    *store.Store
	operator *store.Store // another one, for provisioning
	rules    *wasm.Engine
	signing  []byte // a private JWK
	keys     *auth.Keys
	recorder *conform.Recorder
	clock    *testkit.Clock
	ahead    *atomic.Int64 // how far the sandbox's clock is, in nanoseconds
	configs  map[string]*tollgate.Config
	private  map[string][]byte // private JWKs by client
	vars     map[string]string // ids by name, such as "eur" or "all"
	tokens   map[string]string
	secrets  []string // tokens and assertions that were ever there
	log      *testkit.Log
	spill    *spill.Registry // what must be nowhere
	observed *observed
	edge     *atTheEdge // nil: this process answers
}

// Made once: the document takes a while to compile, and so do the rules.
var (
	document = sync.OnceValues(func() (*conform.Document, error) {
		text, err := os.ReadFile("openapi.json")
		if err != nil {
			return nil, err
		}
		return conform.Load(text)
	})
	builtin = sync.OnceValues(func() (*wasm.Engine, error) {
		ctx := context.Background()
		engine, err := wasm.NewEngine(ctx)
		if err != nil {
			return nil, err
		}
		return engine, engine.LoadBuiltin(ctx)
	})
)

// must returns v or ends the test.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRecorder(t *testing.T) *conform.Recorder {
	t.Helper()
	doc, err := document()
	return conform.NewRecorder(must(t, doc, err))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, redistest.URL(t), newRecorder(t))
}

func newWorldOn(t *testing.T, redis string, recorder *conform.Recorder) *world {
	t.Helper()
	w := &world{
		t: t, redis: redis, clock: new(testkit.Clock), ahead: new(atomic.Int64), configs: make(map[string]*tollgate.Config),
		private: make(map[string][]byte), vars: make(map[string]string), tokens: make(map[string]string), log: new(testkit.Log), spill: new(spill.Registry), observed: observe(),
	}
	w.clock.Set(morning)
	w.store, w.operator = w.open(w.service), w.open(w.service)
	engine, err := builtin()
	w.rules = must(t, engine, err)
	signing, err := auth.GenerateSigningKey(rand.Reader)
	w.signing = must(t, signing, err)
	keys, err := auth.ParseSigningKeys(w.signing)
	w.keys = must(t, keys, err)
	for _, name := range []string{"", "other_"} {
		w.configs[name] = w.organization(name)
		w.apply(name)
	}
	w.recorder = recorder
	w.serve()
	t.Cleanup(w.spilled)
	return w
}

func (w *world) open(clock func() time.Time) *store.Store {
	w.t.Helper()
	return openWith(w.t, rediskv.Options{URL: w.redis, Clock: clock})
}

// serve starts a server on the world's store.
func (w *world) serve() { w.serveWith() }

// serveWith starts one whose configuration is changed before.
func (w *world) serveWith(changes ...func(*handlers.Config)) {
	w.t.Helper()
	config := w.config()
	for _, change := range changes {
		change(&config)
	}
	server, err := handlers.New(config)
	w.server = must(w.t, server, err)
	served := httptest.NewUnstartedServer(server.Handler())
	// As the program configures its server (cmd/tollgate).
	served.Config.MaxHeaderBytes, served.Config.DisableGeneralOptionsHandler = 64<<10, true
	served.Listener = server.Listen(served.Listener)
	served.Start()
	w.t.Cleanup(served.Close)
	w.url, w.client = served.URL, served.Client()
	w.client.Transport = w.recorder.Transport(w.t, w.client.Transport)
}

// config is that of a server on the world's store.
func (w *world) config() handlers.Config {
	return handlers.Config{
		Store: w.store, Rules: w.rules, Keys: w.keys, IssuerURL: issuer, Clock: w.service, Wall: w.now, Vault: newVault(w.t), Entropy: rand.Reader, Examine: wasm.Examine,
		Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Advance: w.sandbox, Observer: w.observed, RateLimits: rate.Unlimited,
	}
}

// twin is another instance of the service on the same Redis, with a cache and
// a clock of its own.
func (w *world) twin() *world {
	w.t.Helper()
	other := *w
	other.clock, other.tokens = new(testkit.Clock), make(map[string]string)
	other.clock.Set(w.clock.Now())
	other.store = w.open(other.now)
	other.serve()
	return &other
}

func (w *world) now() time.Time { return w.clock.Now() }

// service is the service's clock, which the sandbox can move; now is real time.
func (w *world) service() time.Time { return w.now().Add(time.Duration(w.ahead.Load())) }

func (w *world) sandbox(_ context.Context, by time.Duration) (time.Time, error) {
	w.ahead.Add(int64(by))
	return w.service(), nil
}

func (w *world) advance(d time.Duration) {
	w.clock.Advance(d)
	if w.edge != nil {
		w.edge.advance(w, d)
	}
	clear(w.tokens)
}

// apply provisions an organization as it stands in configs, as an operator
// does: from another process, so that the server is not told.
func (w *world) apply(name string) {
	w.t.Helper()
	changes, err := redistest.Provision(w.t.Context(), w.operator, *w.configs[name], false)
	must(w.t, changes, err)
}

// builtinRefs are the rules that every organization has.
func builtinRefs() []tollgate.RuleRef {
	refs, err := wasm.BuiltinRefs()
	if err != nil {
		panic(err)
	}
	return refs
}
