// Package service makes the whole service of its parts, for every program that
// runs it: on a server, in a sandbox, at the edge.
package service

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"tollgate"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// Observer is told what the service does, as the program makes metrics of it.
type Observer interface {
	handlers.Observer
	Rule(rule tollgate.RuleRef, took time.Duration, err error)
	ShadowRule(rule tollgate.RuleRef, took time.Duration, err error)
}

// Options configure a Service. Issuer, SigningKeys, SecretKey, Entropy and Clock are
// required.
type Options struct {
	Issuer      string
	Aliases     []string // other names of the issuer, of a sandbox
	SigningKeys [][]byte // private JWKs; the first signs
	SecretKey   []byte   // 32 bytes
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
}

// Service is the API with everything that it needs.
type Service struct {
	Store  *store.Store
	Vault  *tollgate.Vault
	Rules  *wasm.Engine
	Server *handlers.Server
}

// New makes the service on a store, which it does not take over.
func New(ctx context.Context, store *store.Store, o Options) (*Service, error) {
	keys, err := auth.ParseSigningKeys(o.SigningKeys...)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	derived, err := hkdf.Key(sha256.New, o.SecretKey, nil, "tollgate cursor v1", 32)
	if err != nil {
		return nil, fmt.Errorf("cursor key: %w", err)
	}
	vault, err := Vault(ctx, store, o.Entropy, o.SecretKey)
	if err != nil {
		return nil, err
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
		Store: store, Rules: rules, Keys: keys, IssuerURL: o.Issuer, Aliases: o.Aliases, CursorKey: [32]byte(derived), Vault: vault,
		Entropy: o.Entropy, Clock: o.Clock, Log: o.Log, Development: o.Development, MaxStaleness: o.Staleness, Examine: o.Examine, Tracer: o.Tracer, Transport: o.Transport,
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

// Vault opens what lies encrypted in Redis. The first process leaves a seal there,
// and one with another key, which could sign nothing, does not start.
func Vault(ctx context.Context, store *store.Store, entropy io.Reader, secretKey []byte) (*tollgate.Vault, error) {
	vault, err := tollgate.NewVault(secretKey, "webhooks")
	if err != nil {
		return nil, err
	}
	seal, err := vault.Seal(entropy, sealed, nil)
	if err != nil {
		return nil, err
	}
	if seal, err = store.OnceSealed(ctx, seal); err != nil {
		return nil, err
	}
	return vault, opens(vault, seal)
}

// sealed is what the seal is made of.
const sealed = "tollgate"

// CheckSeal says whether a secret key is the one of a seal.
func CheckSeal(secretKey, seal []byte) error {
	vault, err := tollgate.NewVault(secretKey, "webhooks")
	if err != nil {
		return err
	}
	return opens(vault, seal)
}

func opens(vault *tollgate.Vault, seal []byte) error {
	if _, err := vault.Open(sealed, seal); err != nil {
		return errors.New("secret-key: the webhook secrets in this Redis are encrypted under another key")
	}
	return nil
}
