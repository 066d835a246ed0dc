// Package service makes the whole service of its parts, for every program that
// runs it: on a server, in a sandbox, at the edge.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/instances"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// Observer is told what the service does, as the program makes metrics of it.
type Observer interface {
	handlers.Observer
	Rule(rule tollgate.RuleRef, took time.Duration, err error)
	ShadowRule(rule tollgate.RuleRef, took time.Duration, err error)
}

// Options configure a Service. Issuer, SecretKeys, Entropy and Clock are required.
type Options struct {
	Issuer      string
	Aliases     []string // other names of the issuer, of a sandbox
	SigningKeys [][]byte // private JWKs; the first signs. None: those that the deployment makes for itself
	SecretKeys  [][]byte // of 32 bytes; behind the first those that are being rotated out
	Entropy     io.Reader
	Clock       func() time.Time // real time
	Sandbox     *SandboxClock    // nil: real time
	Development bool             // webhook endpoints may be on this machine
	// RulesRoom bounds what rules take up, in bytes; 0: wasm.DefaultRoom.
	RulesRoom int64
	// Staleness is how long quotes go on, as handlers.Config has it.
	Staleness time.Duration
	// Examine judges modules that are to be published; nil where nothing can, and
	// then none is published.
	Examine  wasm.Examiner
	Observer Observer        // nil: none
	Tracer   handlers.Tracer // nil: none
	Log      *slog.Logger

	Transport handlers.Transport
	// RateLimits are those of clients and grants that have none of their own, as
	// handlers.Config has them.
	RateLimits gcra.Limits
}

// Service is the API with everything that it needs.
type Service struct {
	Store  *store.Store
	Vault  *secret.Vault
	Rules  *wasm.Engine
	Server *handlers.Server
}

// New makes the service on a store, which it does not take over.
func New(ctx context.Context, store *store.Store, o Options) (*Service, error) {
	vault, err := Vault(ctx, store, o.Entropy, o.SecretKeys...)
	if err != nil {
		return nil, err
	}
	o.Entropy = secret.OneAtATime(o.Entropy)
	ring, err := keyring.New(keyring.Config{Store: store, Vault: vault, Entropy: o.Entropy, Clock: o.Clock, Log: o.Log, External: o.SigningKeys, Issuer: o.Issuer})
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	keys, err := ring.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	rules, err := wasm.NewEngine(ctx)
	if err != nil {
		return nil, err
	}
	if o.RulesRoom > 0 {
		rules.Limit(o.RulesRoom)
	}
	rules.Now = o.Clock
	config := handlers.Config{
		Store: store, Rules: rules, Keys: keys, Follow: func(ctx context.Context, instance string, found instances.Look) {
			ring.Follow(ctx, instance, found.Keyring, found.Seal)
		}, IssuerURL: o.Issuer, Aliases: o.Aliases, Vault: vault,
		Entropy: o.Entropy, Clock: o.Clock, Log: o.Log, Development: o.Development, MaxStaleness: o.Staleness, Examine: o.Examine, Tracer: o.Tracer, Transport: o.Transport, RateLimits: o.RateLimits,
	}
	if o.Observer != nil {
		config.Observer, rules.Observe, rules.ObserveShadow = o.Observer, o.Observer.Rule, o.Observer.ShadowRule
	}
	if o.Sandbox != nil {
		config.Clock, config.Wall, config.Advance = o.Sandbox.Now, o.Clock, o.Sandbox.advance
	}
	s := &Service{Store: store, Vault: vault, Rules: rules}
	if err = rules.LoadBuiltin(ctx); err == nil {
		s.Server, err = handlers.New(config)
	}
	if err != nil {
		return nil, errors.Join(err, rules.Close(ctx))
	}
	return s, nil
}

// Run keeps what the service has in memory up to date until ctx ends; then the
// instance counts no more.
func (s *Service) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){s.Store.Watch, s.Store.FollowReplica, s.Server.Follow, s.Server.Shadow} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
}

// Close frees what New made.
func (s *Service) Close(ctx context.Context) error { return s.Rules.Close(context.WithoutCancel(ctx)) }

// Vault opens what lies encrypted in Redis: with the secret key, or those before it. The
// first process leaves a seal there, and one that cannot open it, which could sign
// nothing, does not start.
func Vault(ctx context.Context, store *store.Store, entropy io.Reader, secrets ...[]byte) (*secret.Vault, error) {
	vault, err := secret.NewVault(secrets...)
	if err != nil {
		return nil, err
	}
	seal, err := vault.Mark(entropy)
	if err != nil {
		return nil, err
	}
	if seal, err = store.OnceSealed(ctx, seal, vault.Sealing()); err != nil {
		return nil, err
	}
	if err := vault.Use(seal); err != nil {
		return nil, err
	}
	return vault, store.NameSeal(ctx, vault.Sealing())
}
