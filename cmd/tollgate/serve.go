package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tollgate/handlers/auth"
	"tollgate/rediskv"
	"tollgate/wasm"
)

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the API on a Redis",
		Long: `Run the API on a Redis. It says what that Redis guarantees and refuses one that
evicts. On SIGINT or SIGTERM /readyz says no first, then requests in flight
finish; a second signal ends it at once. 'tollgate work' runs beside it.`,
		Example: `  export TOLLGATE_REDIS_URL=redis://127.0.0.1:6379 TOLLGATE_ISSUER=https://pay.example
  export TOLLGATE_SIGNING_KEY=.tollgate/signing.key TOLLGATE_SECRET_KEY=.tollgate/secret.key
  tollgate serve --addr 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), a.config(cmd))
		},
	}
}

func (a *app) serve(ctx context.Context, c *config) error {
	o, err := a.processOptions(c)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, o.redis, o.redisWait, o.log)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := inspect(ctx, store, o.log); err != nil {
		return err
	}
	s, err := a.newService(ctx, store, o.metrics, serviceOptions{
		issuer: o.issuer, signingKeys: o.signingKeys, secretKey: o.secretKey, rulesRoom: o.rulesRoom, log: o.log, staleness: o.staleness,
	})
	if err != nil {
		return usageError(err)
	}
	defer s.close(ctx)
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait() // the others are told that this instance goes
	defer stopWatching()    // after the last request
	background.Go(func() { store.Watch(watching) })
	background.Go(func() { s.server.Follow(watching) })
	background.Go(func() { s.server.Shadow(watching) })

	listener, err := listen(o.addr)
	if err != nil {
		return err
	}
	endpoints := []endpoint{{s.server.Listen(listener), httpServer(s.server.Handler(), o.log)}}
	metricsAddr := o.metricsAddr
	if metricsAddr != "off" {
		l, err := listen(metricsAddr)
		if err != nil {
			listener.Close()
			return err
		}
		metricsAddr = l.Addr().String()
		endpoints = append(endpoints, endpoint{l, httpServer(s.server.MetricsHandler(), o.log)})
	}
	o.log.Info("serving", "addr", listener.Addr().String(), "metrics_addr", metricsAddr, "issuer", o.issuer, "version", versionText())
	err = serveUntil(ctx, o.grace, func() {
		s.server.Drain()
		o.log.Info("draining", "delay", o.drainDelay.String())
		time.Sleep(o.drainDelay) // whoever asks /readyz must see it before connections are refused
	}, endpoints...)
	o.log.Info("stopped")
	return err
}

// processOptions is the settings of serve and work, checked.
type processOptions struct {
	redis       rediskv.Options
	redisWait   time.Duration
	issuer      string
	signingKeys [][]byte
	secretKey   []byte
	addr        string
	metricsAddr string
	rulesRoom   int64
	drainDelay  time.Duration
	grace       time.Duration
	staleness   time.Duration // of quotes, as handlers.Config has it
	log         *slog.Logger
	metrics     *observers
}

func (a *app) processOptions(c *config) (processOptions, error) {
	var o processOptions
	var level slog.Level
	c.check("log-level", level.UnmarshalText([]byte(c.text("log-level"))))
	o.log = slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	var err error
	if o.metrics, err = newObservers(); err != nil {
		return o, err
	}
	o.redis = rediskv.Options{
		URL: c.text("redis-url"), Partitions: c.number("partitions"), Clock: a.clock, Entropy: a.entropy, Timeout: a.storeTimeout,
		Observe: o.metrics.redis, Damaged: o.metrics.damaged, Held: o.metrics.held, Log: o.log, ExportBytes: c.mebibytes("export-mib"),
	}
	o.redisWait, o.grace = c.duration("redis-wait"), c.duration("shutdown-grace")
	o.metricsAddr = c.text("metrics-addr")
	if c.cmd.Name() == "serve" {
		o.serve(c)
	}
	if text := c.text("secret-key"); text != "" {
		o.secretKey, err = readSecretKey(text)
		c.check("secret-key", err)
	}
	return o, c.err()
}

// serve reads what only serve has.
func (o *processOptions) serve(c *config) {
	if o.staleness = c.duration("quote-max-staleness"); o.staleness == 0 {
		o.staleness = -1
	}
	o.addr, o.drainDelay, o.issuer = c.text("addr"), c.duration("drain-delay"), c.text("issuer")
	c.check("issuer", checkIssuer(o.issuer))
	if o.rulesRoom = c.mebibytes("rules-mib"); o.rulesRoom < wasm.LeastRoom {
		c.check("rules-mib", fmt.Errorf("%s is too little: %d MiB are needed", c.text("rules-mib"), wasm.LeastRoom>>20))
	}
	if text := c.text("signing-key"); text != "" {
		keys, err := readJWKs(text)
		if err == nil {
			_, err = auth.ParseSigningKeys(keys...)
		}
		o.signingKeys = keys
		c.check("signing-key", err)
	}
}

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
