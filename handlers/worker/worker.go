// Package worker is the only one that acts on the service's own account, and
// the only one that sends requests out: it delivers events to webhook
// endpoints, makes exports and payouts, and ends what nobody ended. It never
// imports handlers; the two meet in Redis.
package worker

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate"
	"tollgate/rediskv"
)

// Config is what a Worker works with. Store, Clock, Entropy and Vault are
// needed; what is zero gets the default that stands beside it.
type Config struct {
	Store   *rediskv.Store
	Clock   func() time.Time
	Entropy io.Reader             // read by one goroutine at a time
	Vault   *tollgate.Vault       // of the endpoints' signing keys
	Log     *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil: none

	Interval    time.Duration // between looks at a partition; one second
	Batch       int           // payments asked for at once per partition; 100
	Concurrency int           // partitions at work at once, by kind of work; 8
	KeepEvents  time.Duration // 30 days, and for as long as one is undelivered
	KeepAudit   time.Duration // entries of the audit record; 400 days

	// Wall is real time where Clock is the sandbox's: for the timestamps of
	// signatures, which receivers compare with their own clocks, for the age of
	// events, which have Redis' time, and for how long things take. Clock.
	Wall func() time.Time
	Pay  PayFunc // the payout step; the one that moves no money

	Name         string           // of this worker; something random follows it
	Slots        int              // attempts at the same time; 1024
	Lease        time.Duration    // how long an attempt may take before another worker repeats it; 30 s
	Grace        time.Duration    // for running attempts at the end; 10 s
	Backoff      tollgate.Backoff // tollgate.DefaultBackoff
	DisableAfter time.Duration    // without a success; 5 days

	Exports     int           // made at the same time; 2
	ExportLease time.Duration // without a sign of life, after which another worker goes on with an export; 30 s
	ExportChunk int           // bytes of a file that are written at once, before they are packed; 256 KiB

	// Of the attempts; see SenderConfig.
	Development bool
	Timeouts    Timeouts
	Resolver    *net.Resolver
	Roots       *x509.CertPool
	Version     string
}

// Worker does everything that nobody asked for just now. Any number of them
// share one Redis: each look at a partition takes what is due and what nobody
// else has.
type Worker struct {
	Config
	clock, jobs, rules, trimming *rounds
	payouts                      *rounds
	dispatch                     *dispatch
	exports                      *exports
	metrics                      *metrics
}

// New checks a configuration and registers the worker's metrics.
func New(c Config) (*Worker, error) {
	if c.Store == nil || c.Clock == nil || c.Entropy == nil || c.Vault == nil {
		return nil, errors.New("worker: store, clock, entropy and vault are needed")
	}
	c = withDefaults(c)
	if c.Timeouts.All >= c.Lease {
		return nil, fmt.Errorf("worker: the lease (%s) must be longer than an attempt (%s)", c.Lease, c.Timeouts.All)
	}
	m, err := newMetrics(c.Metrics)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{Config: c, metrics: m}
	if w.dispatch, err = newDispatch(c, m); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w.exports = newExports(c, w.dispatch.consumer, m)
	w.clock = newRounds(c, m, "clock", c.Interval, w.expirePayments)
	w.payouts = newRounds(c, m, "payouts", c.Interval, w.makePayouts)
	w.jobs = newRounds(c, m, "jobs", c.Interval, w.runJobs)
	w.rules = newRounds(c, m, "rules", c.Interval, w.activateRules)
	w.trimming = newRounds(c, m, "trim", trimInterval, w.trimEvents)
	return w, nil
}

func withDefaults(c Config) Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Timeouts == (Timeouts{}) {
		c.Timeouts = DefaultTimeouts
	}
	if c.Backoff.Waits == nil {
		c.Backoff = tollgate.DefaultBackoff
	}
	if c.Wall == nil {
		c.Wall = c.Clock
	}
	if c.Pay == nil {
		c.Pay = ledgerOnly
	}
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Batch = cmp.Or(c.Batch, 100)
	c.Concurrency = cmp.Or(c.Concurrency, 8)
	c.KeepEvents = cmp.Or(c.KeepEvents, 30*24*time.Hour)
	c.KeepAudit = cmp.Or(c.KeepAudit, DefaultKeepAudit)
	c.Name = cmp.Or(c.Name, "worker")
	c.Slots = cmp.Or(c.Slots, 1024)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Exports = cmp.Or(c.Exports, 2)
	c.ExportLease = cmp.Or(c.ExportLease, 30*time.Second)
	c.ExportChunk = cmp.Or(c.ExportChunk, 256<<10)
	c.DisableAfter = cmp.Or(c.DisableAfter, 5*24*time.Hour)
	return c
}

// Run works until ctx ends, which is the only way out: outages of Redis are
// logged and waited out. At the end no new work is taken, and attempts that are
// running have Config.Grace to finish.
func (w *Worker) Run(ctx context.Context) {
	start := w.Wall()
	var parts sync.WaitGroup
	parts.Go(func() { w.clock.run(ctx) })
	parts.Go(func() { w.payouts.run(ctx) })
	parts.Go(func() { w.jobs.run(ctx) })
	parts.Go(func() { w.rules.run(ctx) })
	parts.Go(func() { w.trimming.run(ctx) })
	parts.Go(func() { w.watchQueues(ctx) })
	parts.Go(func() { w.watchProgress(ctx, start) })
	parts.Go(func() { w.dispatch.run(ctx) })
	parts.Go(func() { w.exports.run(ctx) })
	parts.Wait()
}

// Round goes once over all partitions with the clock and returns how many
// payments it expired.
func (w *Worker) Round(ctx context.Context) (int, error) { return w.clock.round(ctx) }

// wait sleeps, or less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
