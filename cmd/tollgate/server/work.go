package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/profile"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/hook"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/health"
	"tollgate/rediskv/store"
)

func workCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "work",
		Short: "Deliver webhooks, pay out, expire payments, activate rules, make exports",
		Long: `Do what nobody asks for just now: deliver events to webhook endpoints, close
sales days and make the payouts that fall due by that, expire payments whose
time has passed and release what was left of them, activate rules when their
time has come, make the files of exports, carry recoveries out, remove events
that are old and delivered, and move payments that are at an end to the archive. 'tollgate serve' alone makes no payouts and
activates no rules. Any number of these processes can run on one Redis. On
SIGINT or SIGTERM deliveries that are on their way finish; an export goes on
with another worker where this one stopped.`,
		Example: `  export TOLLGATE_REDIS_URL=redis://127.0.0.1:6379 TOLLGATE_SECRET_KEY=.tollgate/secret.key
  tollgate work`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return work(cmd.Context(), a, a.Config(cmd))
		},
	}
}

func work(ctx context.Context, a *cli.App, c *cli.Config) error {
	useMemory(a)
	o, err := readProcessOptions(a, c)
	if err != nil {
		return err
	}
	keepAudit, checkRate, slots := c.Duration("audit-retention"), c.Number("check-rate"), c.Number("delivery-slots")
	archiveAfter := ReadArchiveAfter(c)
	if slots == 0 {
		c.Check("delivery-slots", errors.New("a worker needs one at least"))
	}
	if err := c.Err(); err != nil {
		return err
	}
	closeProfiles, err := profile.Serve(o.pprofAddr, o.log)
	if err != nil {
		return err
	}
	defer closeProfiles()
	store, _, err := OpenStore(ctx, o.redis, o.redisWait, true)
	if err != nil {
		return err
	}
	defer store.Close()
	defer o.tracing.Close()
	vault, err := service.Vault(ctx, store, a.Entropy, o.secretKeys...)
	if err != nil {
		return cli.StartError(err)
	}
	pay, err := PayHook(a, c)
	if err != nil {
		return err
	}
	witness, err := Witness(c)
	if err != nil {
		return err
	}
	o.metrics.WatchRedis(store)
	packs := UseArchive(store, o.shelves)
	if packs != nil {
		packs.Rest = archive.Rest
	}
	w, err := worker.New(worker.Config{
		Pay: pay, Witness: witness, Store: store, Clock: a.Clock, Entropy: a.Entropy, Vault: vault, Log: o.log, Observer: o.metrics.Worker(), Tracer: o.tracing.Worker(),
		Grace: o.grace, Development: a.Loopback, Version: cli.VersionText(), KeepAudit: keepAudit, CheckRate: checkRate, Slots: slots,
		Archive: packs, ArchiveAfter: archiveAfter,
	})
	if err != nil {
		return err
	}
	// All that can fail comes before the worker: what it has claimed when the
	// process ends waits for its lease.
	var endpoints []Endpoint
	metricsAddr := o.metricsAddr
	if metricsAddr != "off" {
		l, err := Listen(metricsAddr)
		if err != nil {
			return err
		}
		metricsAddr = l.Addr().String()
		endpoints = append(endpoints, Endpoint{l, HTTPServer(workHandler(store, w, o.metrics), o.log)})
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(running)
	}()
	o.log.Info("working", "metrics_addr", metricsAddr, "version", cli.VersionText())
	err = ServeUntil(ctx, o.grace, func() {}, endpoints...)
	stop()
	select {
	case <-done:
	case <-time.After(o.grace + time.Second + rediskv.OperationTimeout): // its own grace, and what it writes down then
		o.log.Warn("the worker did not stop in time")
	}
	o.log.Info("stopped")
	return err
}

// PayHook is the payout step that the settings name; nil without one.
func PayHook(a *cli.App, c *cli.Config) (worker.PayFunc, error) {
	address, secret := c.Text("payout-url"), c.Text("payout-secret")
	if address == "" && secret == "" {
		return nil, nil
	}
	hook, err := worker.NewPayHook(address, secret, a.Clock, cli.VersionText())
	if err != nil {
		return nil, cli.UsageError(err)
	}
	return hook.Pay, nil
}

// Witness is the URL that checkpoints of audit records are posted to; empty without one.
func Witness(c *cli.Config) (string, error) {
	address := c.Text("witness-url")
	if address == "" {
		return "", nil
	}
	if _, err := hook.New(address, "the witness URL", ""); err != nil {
		return "", cli.UsageError(err)
	}
	return address, nil
}

// workHandler is the worker's own port.
func workHandler(store *store.Store, w *worker.Worker, metrics *Observers) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Handler())
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) {
		writeHealth(rw, http.StatusOK, workHealth{Status: "ok"})
	})
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		status, h := http.StatusOK, workHealth{"ready", map[string]string{"redis": "ok"}}
		failed := func(part, text string) {
			status, h.Status, h.Checks[part] = http.StatusServiceUnavailable, "unavailable", text
		}
		if writes, _ := store.Writes(); writes != health.Written {
			failed("redis", string(writes))
		}
		for _, c := range w.Checks() {
			h.Checks[c.Part] = "ok"
			if c.Err != nil {
				failed(c.Part, c.Err.Error())
			}
		}
		writeHealth(rw, status, h)
	})
	return mux
}

// workHealth is the body of the worker's /healthz and, with checks, of its
// /readyz: of each part ok, or how it stands still.
type workHealth struct {
	Status string            `json:"status"` // ok; ready or unavailable
	Checks map[string]string `json:"checks,omitempty"`
}

func writeHealth(w http.ResponseWriter, status int, h workHealth) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, h, json.Deterministic(true))
}
