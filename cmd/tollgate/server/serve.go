// Package server is the processes that an operator runs: serve and work.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/profile"
	"tollgate/cmd/tollgate/tracing"
	"tollgate/handlers"
	"tollgate/handlers/auth"
	"tollgate/handlers/connection"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/packs/shelf"
	"tollgate/wasm"
)

func serveCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the API on a Redis",
		Long: `Run the API on a Redis. It says what that Redis guarantees and refuses one that
evicts. On SIGINT or SIGTERM /readyz says no first, then requests in flight
finish; a second signal ends it at once. 'tollgate work' runs beside it.`,
		Example: `  export TOLLGATE_REDIS_URL=redis://127.0.0.1:6379 TOLLGATE_ISSUER=https://pay.example
  export TOLLGATE_SECRET_KEY=.tollgate/secret.key
  tollgate serve --addr 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), a, a.Config(cmd))
		},
	}
}

func serve(ctx context.Context, a *cli.App, c *cli.Config) error {
	useMemory(a)
	o, err := readProcessOptions(a, c)
	if err != nil {
		return err
	}
	closeProfiles, err := profile.Serve(o.pprofAddr, o.log)
	if err != nil {
		return err
	}
	defer closeProfiles()
	if answersPlain(o.issuer, o.transport()) {
		o.log.Warn(plainWarning, "advice", plainAdvice)
	}
	doors := newDoors(&o)
	defer doors.close()
	store, kept, err := o.openStore(ctx, a, doors)
	if err != nil || store == nil {
		return err
	}
	defer store.Close()
	UseArchive(store, o.shelves)
	defer o.tracing.Close() // after the last request
	s, err := service.New(ctx, store, o.service(a))
	if err != nil {
		return cli.StartError(err)
	}
	defer s.Close(ctx)
	if err := OpenBeside(s.Server, Beside{Issuer: o.issuer, Log: o.log}); err != nil {
		return err
	}
	o.metrics.Watch(s)
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait() // the others are told that this instance goes
	defer stopWatching()    // after the last request
	background.Go(func() { s.Run(watching) })
	if kept != nil {
		background.Go(func() { kept.Run(watching, store) })
	}

	endpoints, err := doors.open(s.Server, true)
	if err != nil {
		return err
	}
	o.log.Info("serving", append(doors.names(), "issuer", o.issuer, "version", cli.VersionText())...)
	err = ServeUntil(ctx, o.grace, func() {
		s.Server.Drain()
		o.log.Info("draining", "delay", o.drainDelay.String())
		time.Sleep(o.drainDelay) // whoever asks /readyz must see it before connections are refused
	}, endpoints...)
	o.log.Info("stopped")
	return err
}

// service is what a service is made of.
func (o *processOptions) service(a *cli.App) service.Options {
	return service.Options{
		Issuer: o.issuer, SigningKeys: o.signingKeys, SecretKeys: o.secretKeys, Entropy: a.Entropy, Clock: a.Clock,
		RulesRoom: o.rulesRoom, RateLimits: o.rateLimits, Staleness: o.staleness, Development: a.Loopback, Examine: examine.New(examine.DefaultLimits), Observer: o.metrics, Tracer: o.tracing.Handlers(), Log: o.log,
		Transport: o.transport(),
	}
}

// processOptions is the settings of serve and work, checked.
type processOptions struct {
	redis       rediskv.Options
	redisWait   time.Duration
	snapshotDir string
	shelves     []shelf.Shelf // the archive and its copy; none: there is none
	issuer      string
	signingKeys [][]byte
	secretKeys  [][]byte // the newest first
	addr        string
	proxies     connection.Proxies
	rateLimits  gcra.Limits
	certificate *certificate // nil: plain http
	metricsAddr string
	pprofAddr   string // empty: no profiles
	rulesRoom   int64
	drainDelay  time.Duration
	grace       time.Duration
	staleness   time.Duration // of quotes, as handlers.Config has it
	log         *slog.Logger
	metrics     *Observers
	tracing     *tracing.Tracing // nil: off
}

func readProcessOptions(a *cli.App, c *cli.Config) (processOptions, error) {
	var o processOptions
	var level slog.Level
	c.Check("log-level", level.UnmarshalText([]byte(c.Text("log-level"))))
	o.log = slog.New(slog.NewJSONHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
	var err error
	if o.metrics, err = NewObservers(); err != nil {
		return o, err
	}
	o.tracing, err = tracing.New(context.Background(), c.Text("traces-url"), cli.VersionText(), a.Clock, o.log)
	c.Check("traces-url", err)
	if o.tracing != nil {
		o.metrics.Traced(o.tracing.Spans)
	}
	o.redis = rediskv.Options{
		URL: c.Text("redis-url"), WaitReplicas: c.Number("redis-wait-replicas"), Partitions: c.Number("partitions"), Clock: a.Clock, Wall: a.Clock, Entropy: a.Entropy, Timeout: a.StoreTimeout,
		Observe: o.metrics.Redis, Trace: o.tracing.Store(), Damaged: o.metrics.Damaged, Held: o.metrics.Held, Lost: o.metrics.Lost, Log: o.log, ExportBytes: c.Mebibytes("export-mib"),
	}
	switch loss := c.Text("on-history-loss"); loss {
	case "stop":
	case "continue":
		o.redis.GoOn = true
	default:
		c.Check("on-history-loss", fmt.Errorf("%q is neither stop nor continue", loss))
	}
	o.redisWait, o.grace = c.Duration("redis-wait"), c.Duration("shutdown-grace")
	o.metricsAddr = c.Text("metrics-addr")
	if o.pprofAddr = c.Text(profile.Setting); o.pprofAddr != "" {
		c.Check(profile.Setting, profile.CheckAddr(o.pprofAddr))
	}
	o.shelves = ReadShelves(c)
	if c.Command.Name() == "serve" {
		o.serve(a, c)
	}
	o.secretKeys = c.SecretKeys()
	return o, c.Err()
}

// serve reads what only serve has.
func (o *processOptions) serve(a *cli.App, c *cli.Config) {
	o.redis.Replica, o.snapshotDir = c.Text("redis-replica-url"), c.Text("snapshot-dir")
	o.redis.Notes = o.snapshotDir != ""
	if o.staleness = c.Duration("quote-max-staleness"); o.staleness == 0 {
		o.staleness = -1
	}
	o.addr, o.drainDelay, o.issuer = c.Text("addr"), c.Duration("drain-delay"), c.Text("issuer")
	c.Check("issuer", checkIssuer(o.issuer))
	var err error
	o.proxies, err = connection.ParseProxies(c.Text("trusted-proxies"))
	c.Check("trusted-proxies", err)
	o.rateLimits, err = gcra.Parse(c.Text("rate-limits"))
	c.Check("rate-limits", err)
	if o.certificate, err = openCertificate(c.Text("tls-cert"), c.Text("tls-key"), a.Clock, o.log); o.certificate != nil {
		o.metrics.Certificate(o.certificate.expires)
	}
	c.Check("tls-cert", err)
	if o.rulesRoom = c.Mebibytes("rules-mib"); o.rulesRoom < wasm.LeastRoom {
		c.Check("rules-mib", fmt.Errorf("%s is too little: %d MiB are needed", c.Text("rules-mib"), wasm.LeastRoom>>20))
	}
	if text := c.Text("signing-key"); text != "" {
		keys, err := cli.ReadJWKs(text)
		if err == nil {
			_, err = auth.ParseSigningKeys(keys...)
		}
		o.signingKeys = keys
		c.Check("signing-key", err)
	}
}

// transport is how requests come. Without a word on who ends TLS, nothing tells the ones
// from the others, and the operator has seen to it.
func (o *processOptions) transport() handlers.Transport {
	known := o.certificate != nil || len(o.proxies) > 0
	return handlers.Transport{Proxies: o.proxies, Required: known && overHTTPS(o.issuer)}
}

func overHTTPS(issuer string) bool { return strings.HasPrefix(issuer, "https:") }

// answersPlain reports whether an API that is to be used over https is answered over
// plain http as well.
func answersPlain(issuer string, t handlers.Transport) bool { return overHTTPS(issuer) && !t.Required }

const (
	plainWarning = "the issuer is https, and plain http is answered too"
	plainAdvice  = "set TOLLGATE_TRUSTED_PROXIES to the addresses of what ends TLS in front, or TOLLGATE_TLS_CERT; where plain http cannot reach this port, leave it"
)

// checkIssuer is RFC 8414 §2, and no path, so that the metadata stands at one
// address.
func checkIssuer(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil // reported as missing
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return fmt.Errorf("%q is not an https URL", text)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.ForceQuery:
		return errors.New("an issuer has neither query nor fragment nor user")
	case u.Path != "":
		return errors.New("an issuer is scheme and host, without a path or a slash at the end")
	}
	return nil
}
