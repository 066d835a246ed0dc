package server

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// service is the API with everything that it needs.
type service struct {
	store  *store.Store
	rules  *wasm.Engine
	Server *handlers.Server
}

// ServiceOptions is what `serve` reads from its settings and `dev` makes up.
type ServiceOptions struct {
	Issuer      string
	SigningKeys [][]byte
	SecretKey   []byte   // 32 bytes
	rulesRoom   int64    // bytes; 0: the default
	Development bool     // webhook endpoints may be on this machine
	Aliases     []string // other names of the issuer, of dev
	Log         *slog.Logger
	Sandbox     *SandboxClock // of dev; nil: real time
	staleness   time.Duration // of quotes, as handlers.Config has it
}

// NewVault opens what lies encrypted in Redis. The first process leaves a seal
// there, and one with another key, which could sign nothing, does not start.
func NewVault(ctx context.Context, a *cli.App, store *store.Store, secretKey []byte) (*tollgate.Vault, error) {
	const place = "tollgate"
	vault, err := tollgate.NewVault(secretKey, "webhooks")
	if err != nil {
		return nil, err
	}
	seal, err := vault.Seal(a.Entropy, place, nil)
	if err != nil {
		return nil, err
	}
	if seal, err = store.OnceSealed(ctx, seal); err != nil {
		return nil, err
	}
	if _, err := vault.Open(place, seal); err != nil {
		return nil, cli.UsageError(errors.New("secret-key: the webhook secrets in this Redis are encrypted under another key"))
	}
	return vault, nil
}

// NewService builds the API on a store; the service takes over neither.
func NewService(ctx context.Context, a *cli.App, store *store.Store, metrics *observers, o ServiceOptions) (*service, error) {
	keys, err := auth.ParseSigningKeys(o.SigningKeys...)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	derived, err := hkdf.Key(sha256.New, o.SecretKey, nil, "tollgate cursor v1", 32)
	if err != nil {
		return nil, fmt.Errorf("cursor key: %w", err)
	}
	vault, err := NewVault(ctx, a, store, o.SecretKey)
	if err != nil {
		return nil, err
	}
	rules, err := wasm.NewEngine(ctx)
	if err != nil {
		return nil, err
	}
	if o.rulesRoom > 0 {
		rules.Limit(o.rulesRoom)
	}
	rules.Observe, rules.ObserveShadow, rules.Now = metrics.rule, metrics.shadow, a.Clock
	if err := metrics.engine(rules); err != nil {
		return nil, errors.Join(err, rules.Close(ctx))
	}
	if err := rules.LoadBuiltin(ctx); err != nil {
		return nil, errors.Join(err, rules.Close(ctx))
	}
	config := handlers.Config{
		Store: store, Rules: rules, Keys: keys, IssuerURL: o.Issuer, CursorKey: [32]byte(derived),
		Vault: vault, Entropy: a.Entropy, Clock: a.Clock, Log: o.Log, Metrics: metrics.Registry, Development: o.Development, MaxStaleness: o.staleness, Aliases: o.Aliases,
		Examine: examine.New(examine.DefaultLimits),
	}
	if o.Sandbox != nil {
		config.Clock, config.Wall, config.Advance = o.Sandbox.Now, a.Clock, o.Sandbox.advance
	}
	server, err := handlers.New(config)
	if err != nil {
		return nil, errors.Join(err, rules.Close(ctx))
	}
	return &service{store: store, rules: rules, Server: server}, nil
}

// Close frees what newService made.
func (s *service) Close(ctx context.Context) error { return s.rules.Close(context.WithoutCancel(ctx)) }

// HTTPServer is a server with the time-outs of interface §8. A listing of
// events waits up to 20 s for its answer, so an answer may take 30.
func HTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, // above the interface's own limit, which answers with a problem
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered as any other method
	}
}

// Endpoint is a server and where it listens.
type Endpoint struct {
	Listener net.Listener
	Server   *http.Server
}

// ServeUntil runs servers until ctx ends or one of them fails, then stops
// them in order, each letting its requests finish within grace.
func ServeUntil(ctx context.Context, grace time.Duration, drain func(), endpoints ...Endpoint) error {
	failed := make(chan error, len(endpoints))
	for _, e := range endpoints {
		go func() {
			if err := e.Server.Serve(e.Listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
		drain()
	case err = <-failed:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, e := range endpoints {
		if e := e.Server.Shutdown(stop); e != nil {
			err = errors.Join(err, fmt.Errorf("shutdown: requests did not finish within %s: %w", grace, e))
		}
	}
	return err
}

// Listen binds a TCP address.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return l, nil
}
