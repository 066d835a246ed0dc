// Package dev is the sandbox: the whole service on an embedded Redis.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/console"
	"tollgate/cmd/tollgate/examine"
	"tollgate/cmd/tollgate/server"
	"tollgate/cmd/tollgate/tracing"
	"tollgate/handlers/rate"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/packs/shelf"
)

// embeddedPartitions are fewer than elsewhere: the sandbox has one organization, its Redis
// is gone when it ends, and with each partition it takes longer to start.
const embeddedPartitions = 4

// devOptions are the flags of dev. Of the TOLLGATE_ variables it reads those of
// the payout hook, the witness, the archive and traces alone: a shell that has sourced an earlier sandbox
// must not lead to another one.
type devOptions struct {
	addr, redis, writeEnv, metricsAddr string
	workerd, edge                      string // who answers instead of this process, and what
	quiet                              bool
	lasting                            bool // redis keeps an append-only file
	pay                                worker.PayFunc
	witness                            string        // where checkpoints are posted to; empty: nowhere
	shelves                            []shelf.Shelf // the archive and its copy; none: there is none
	archiveAfter                       time.Duration
	traces                             string // a collector's address; empty: nothing is traced
}

func devCommand(a *cli.App) *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine, with a demonstration organization",
		Long: `Run the API and the worker with a demonstration organization: two merchant
accounts, a client with its key, a grant, a perimeter, three rules, and a webhook
endpoint that leads to a receiver of its own, which verifies every delivery and
logs it. Its clock can be moved ('tollgate clock advance 26h'). Without --redis it uses an embedded Redis, and everything is lost when
it stops. On a Redis of yours it is the same organization again the next time.`,
		Example: `  tollgate dev
  tollgate dev --addr :0 --write-env dev.env
  tollgate dev --redis redis://127.0.0.1:6379`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.Config(cmd)
			pay, err := server.PayHook(a, c)
			witness, failed := server.Witness(c)
			o.pay, o.witness, o.traces = pay, witness, c.Text("traces-url")
			o.shelves, o.archiveAfter = server.ReadShelves(c), server.ReadArchiveAfter(c)
			c.Check("traces-url", tracing.Check(o.traces))
			if err := errors.Join(err, failed, c.Err()); err != nil {
				return err
			}
			return dev(cmd.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.addr, "addr", "127.0.0.1:8080", "address of the interface; :0 picks a free port, no host means this machine only")
	c.Flags().StringVar(&o.redis, "redis", "", "URL of a Redis to use instead of the embedded one")
	c.Flags().StringVar(&o.writeEnv, "write-env", "", "once ready, write the environment for the client commands to this file, mode 0600")
	c.Flags().StringVar(&o.metricsAddr, "metrics-addr", "off", "address of /metrics")
	c.Flags().StringVar(&o.workerd, "workerd", "", "have this workerd answer, with what 'make edge' has written; 'make edge-dev' does all of it")
	c.Flags().StringVar(&o.edge, "edge", "bin/edge", "where 'make edge' has written it")
	c.Flags().BoolVar(&o.quiet, "no-log", false, "do not print requests")
	return c
}

func dev(ctx context.Context, a *cli.App, o devOptions) error {
	logTo := a.Stderr
	if o.quiet {
		logTo = io.Discard
	}
	log := slog.New(newPlainHandler(logTo, a.Clock))
	listener, err := server.Listen(loopback(o.addr))
	if err != nil {
		return err
	}
	defer listener.Close()
	url := "http://" + clientAddr(listener.Addr())
	front := listener.Addr().String()
	if o.workerd != "" { // it has the address, and this process one behind it
		listener.Close()
		if listener, err = server.Listen("127.0.0.1:0"); err != nil {
			return err
		}
		defer listener.Close()
	}

	clock := &service.SandboxClock{Real: a.Clock}
	redisURL, patience := o.redis, a.StoreTimeout
	if redisURL == "" {
		patience = cmp.Or(patience, sandbox.Patience)
		embedded, stop, err := embeddedRedis(ctx, clock)
		if err != nil {
			return err
		}
		defer stop()
		redisURL = embedded
	}
	metrics, err := server.NewObservers()
	if err != nil {
		return err
	}
	// Spans have the machine's time: a clock that is moved would part them.
	traces, err := tracing.New(ctx, o.traces, cli.VersionText(), a.Clock, log)
	if err != nil {
		return err
	}
	defer traces.Close()
	if traces != nil {
		metrics.Traced(traces.Spans)
	}
	partitions := embeddedPartitions
	if o.redis != "" {
		partitions = 0 // as many as are recorded there
	}
	store, g, err := server.OpenStore(ctx, rediskv.Options{
		URL: redisURL, Partitions: partitions, Clock: clock.Now, Wall: a.Clock, Entropy: a.Entropy, Timeout: patience, Observe: metrics.Redis, Trace: traces.Store(), Damaged: metrics.Damaged, Held: metrics.Held, Log: log,
	}, 5*time.Second, o.redis != "")
	if err != nil {
		return err
	}
	defer store.Close()
	packs := server.UseArchive(store, o.shelves)
	o.lasting = g.AOF
	if err := clock.Resume(ctx, store); err != nil {
		return err
	}
	secrets, err := sandbox.Prepare(ctx, store, a.Entropy)
	if err != nil {
		return err
	}
	s, err := service.New(ctx, store, service.Options{
		Issuer: url, Aliases: loopbackNames(url), SigningKeys: [][]byte{secrets.SigningKey}, SecretKeys: [][]byte{secrets.SecretKey}, Entropy: a.Entropy, Clock: a.Clock,
		Sandbox: clock, Development: true, RateLimits: rate.Unlimited, Examine: examine.New(examine.DefaultLimits), Observer: metrics, Tracer: traces.Handlers(), Log: log,
	})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	if o.workerd == "" { // which has no pages
		if err := server.OpenBeside(s.Server, server.Beside{Issuer: url, Aliases: loopbackNames(url), Sandbox: true, Log: log}); err != nil {
			return err
		}
	}
	metrics.Watch(s)
	page, err := console.New(demoClient(a, secrets, url), listener.Addr().String(), true)
	if err != nil {
		return err
	}
	home := ""
	if o.workerd == "" { // it answers what it was built with
		home = page.URL()
		s.Server.Open(append(console.Doors(page), tokenDoor(a, secrets, url))...)
	}
	receiver, err := startReceiver(ctx, a, store, s.Vault, log)
	if err != nil {
		return err
	}
	defer receiver.close() // after the worker

	endpoints := []server.Endpoint{{Listener: s.Server.Listen(listener), Server: server.HTTPServer(s.Server.Handler(), log)}}
	if o.metricsAddr != "off" {
		l, err := server.Listen(loopback(o.metricsAddr))
		if err != nil {
			return err
		}
		endpoints = append(endpoints, server.Endpoint{Listener: l, Server: server.HTTPServer(metrics.Handler(), log)})
	}
	w, err := worker.New(worker.Config{
		Store: store, Clock: clock.Now, Wall: a.Clock, Entropy: a.Entropy, Vault: s.Vault, Log: log, Observer: metrics.Worker(), Tracer: traces.Worker(),
		Pay: o.pay, Witness: o.witness, Archive: packs, ArchiveAfter: o.archiveAfter, Grace: 2 * time.Second, Development: true, Version: cli.VersionText(),
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.Run(running) })
	background.Go(func() { w.Run(running) })
	edge := make(chan error, 1)
	if o.workerd == "" {
		edge <- nil
	} else {
		background.Go(func() {
			defer stop()
			edge <- runEdge(running, o, front, logTo, edgeSettings(secrets, redisURL, url, "http://"+listener.Addr().String()))
		})
	}
	ready := make(chan error, 1)
	background.Go(func() {
		err := announce(running, a, secrets, receiver, url, home, o)
		if err != nil {
			stop()
		}
		ready <- err
	})
	err = server.ServeUntil(running, 5*time.Second, s.Server.Drain, endpoints...)
	stop()
	background.Wait()
	if failed := errors.Join(<-edge, <-ready); failed != nil && ctx.Err() == nil {
		return errors.Join(err, failed)
	}
	switch {
	case o.redis == "":
		fmt.Fprintln(a.Stdout, "\nStopped; everything is gone.")
	case o.lasting:
		fmt.Fprintln(a.Stdout, "\nStopped; everything is kept in "+redactURL(o.redis)+".")
	default:
		fmt.Fprintln(a.Stdout, "\nStopped; everything is in "+redactURL(o.redis)+" until that Redis stops: it keeps no append-only file.")
	}
	return err
}

// demoClient is the demonstration organization's own.
func demoClient(a *cli.App, s *sandbox.Secrets, url string) *cli.Client {
	return &cli.Client{App: a, HTTP: http.Client{Timeout: 10 * time.Second}, Base: url, Issuer: url, ID: sandbox.Client, JWK: s.ClientKey}
}

// announce waits until the API answers, fetches a token through it, and says
// what to do next.
func announce(ctx context.Context, a *cli.App, s *sandbox.Secrets, r *demoReceiver, url, page string, o devOptions) error {
	api := demoClient(a, s, url)
	if o.workerd != "" {
		awaitEdge(ctx, url)
	}
	token, _, err := api.FetchToken(ctx, "")
	if err != nil {
		return fmt.Errorf("the sandbox does not answer: %w", err)
	}
	keys, err := r.Keys(ctx)
	if err != nil {
		return fmt.Errorf("sandbox webhook: %w", err)
	}
	env := s.Environment(url, token.AccessToken, keys[len(keys)-1])
	if page != "" {
		env = append(env, sandbox.Variable{Name: consoleVariable, Value: page})
	}
	if o.writeEnv != "" {
		if err := write(env, o.writeEnv); err != nil {
			return cli.UsageError(fmt.Errorf("--write-env: %w", err))
		}
	}
	return printGuide(a, env, page, o)
}

// embeddedRedis starts miniredis on a loopback port. Its time to live does
// not run by itself, so that it is moved along with the clock.
func embeddedRedis(ctx context.Context, clock *service.SandboxClock) (url string, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return "", nil, fmt.Errorf("embedded redis: %w", err)
	}
	clock.Moved = func(_ context.Context, by time.Duration) error { m.FastForward(by); return nil }
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var moving sync.WaitGroup
	moving.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				m.FastForward(time.Second)
			}
		}
	})
	return "redis://" + m.Addr(), func() {
		cancel()
		moving.Wait()
		m.Close()
	}, nil
}

// loopback keeps an address without a host on this machine.
func loopback(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// loopbackNames are the other names of a URL on this machine: whoever runs a
// sandbox writes localhost as often as 127.0.0.1.
func loopbackNames(text string) (others []string) {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	names := []string{"127.0.0.1", "localhost", "::1"}
	if !slices.Contains(names, u.Hostname()) {
		return nil
	}
	for _, name := range names {
		if other := "http://" + net.JoinHostPort(name, u.Port()); other != text {
			others = append(others, other)
		}
	}
	return others
}

// clientAddr is an address that a client on this machine can dial.
func clientAddr(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr.String()
}
