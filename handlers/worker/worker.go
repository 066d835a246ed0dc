// Package worker is the only one that acts on the service's own account: it has
// events delivered and exports made, makes payouts, and ends what nobody ended. It
// never imports handlers; the two meet in Redis.
package worker

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/handlers/worker/delivery"
	"tollgate/handlers/worker/export"
	"tollgate/handlers/worker/loop"
	"tollgate/handlers/worker/sealing"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/store"
)

// DefaultSlots is how many attempts a worker makes at the same time.
const DefaultSlots = 1024

// Config is what a Worker works with. Store, Clock, Entropy and Vault are
// needed; what is zero gets the default that stands beside it.
type Config struct {
	Store    *store.Store
	Clock    func() time.Time
	Entropy  io.Reader
	Vault    *secret.Vault   // of the endpoints' signing keys
	Log      *slog.Logger    // nil discards
	Observer Observer        // nil: none
	Tracer   delivery.Tracer // nil: attempts have no spans

	// Interval is the least time between two turns of a partition while something is
	// due there; one second. Without anything due a worker sleeps until something is,
	// or it is told, and looks everywhere once in twenty intervals.
	Interval    time.Duration
	PageSize    int           // payments asked for at once per partition; 100
	Concurrency int           // partitions at work at once, by kind of work; 8
	KeepEvents  time.Duration // 30 days, and for as long as one is undelivered
	KeepAudit   time.Duration // entries of the audit record; 400 days

	// Wall is real time where Clock is the sandbox's: for the timestamps of
	// signatures, which receivers compare with their own clocks, for the age of
	// events, which have Redis' time, and for how long things take. Clock.
	Wall func() time.Time
	Pay  PayFunc // the payout step; the one that moves no money

	Witness string // URL that checkpoints of audit records are posted to; none

	Name         string           // of this worker; something random follows it
	Slots        int              // attempts at the same time; DefaultSlots
	Lease        time.Duration    // how long an attempt may take before another worker repeats it; 30 s
	Grace        time.Duration    // for running attempts at the end; 10 s
	Backoff      delivery.Backoff // delivery.DefaultBackoff
	DisableAfter time.Duration    // without a success; 5 days

	Exports     int           // made at the same time; 2
	ExportLease time.Duration // without a sign of life, after which another worker goes on with an export; 30 s
	ExportChunk int           // bytes of a file that are written at once, before they are packed; 256 KiB

	Archive      *archive.Store // where payments are moved that are at an end; nil: they stay in Redis
	ArchiveAfter time.Duration  // how long they have been; DefaultArchiveAfter

	CheckRate int           // objects per second that are read back and compared; 0: none
	CheckRest time.Duration // of a partition that was checked, before it is checked again; an hour

	// Of the attempts; see SenderConfig.
	Development bool
	Timeouts    delivery.Timeouts
	Resolver    *net.Resolver
	Roots       *x509.CertPool
	Version     string
	Transport   http.RoundTripper
}

// Observer is told what a worker does; Unobserved is told nothing.
type (
	Observer   = loop.Observer
	Unobserved = loop.Unobserved
)

// Worker does everything that nobody asked for just now. Any number of them
// share one Redis: each look at a partition takes what is due and what nobody
// else has.
type Worker struct {
	Config
	expiry, jobs, rules, trimming, cutting *loop.Loop
	payouts, sealing, posting, archiving   *loop.Loop
	sealer                                 *sealing.Sealer
	dispatch                               *delivery.Dispatch
	exports                                *export.Maker
	agenda                                 *loop.Agenda
	keyring                                *keyring.Keyring
	consumer                               string // who it is among others
}

// consumerTail is how many random bytes tell workers of one name apart.
const consumerTail = 4

// New checks a configuration and makes a worker that does not run yet.
func New(c Config) (*Worker, error) {
	if c.Store == nil || c.Clock == nil || c.Entropy == nil || c.Vault == nil {
		return nil, errors.New("worker: store, clock, entropy and vault are needed")
	}
	c = withDefaults(c)
	if c.Timeouts.All >= c.Lease {
		return nil, fmt.Errorf("worker: the lease (%s) must be longer than an attempt (%s)", c.Lease, c.Timeouts.All)
	}
	tail := make([]byte, consumerTail)
	if _, err := io.ReadFull(c.Entropy, tail); err != nil {
		return nil, fmt.Errorf("worker: consumer name: %w", err)
	}
	c.Entropy = secret.OneAtATime(c.Entropy)
	w := &Worker{Config: c}
	var err error
	if w.keyring, err = keyring.New(keyring.Config{Store: c.Store, Vault: c.Vault, Entropy: c.Entropy, Clock: c.Wall, Log: c.Log}); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	var witness *sealing.Witness
	if c.Witness != "" {
		if witness, err = sealing.NewWitness(c.Witness, c.Version, c.Log, c.Observer.Witnessed); err != nil {
			return nil, err
		}
	}
	w.build(c.Name+"-"+hex.EncodeToString(tail), witness)
	return w, nil
}

// jobs are the only work of the loops that the clock does not decide about.
const jobs = "jobs"

// build makes the parts; consumer is who the worker is among others.
func (w *Worker) build(consumer string, witness *sealing.Witness) {
	w.consumer = consumer
	common := loop.Common{Store: w.Store, Clock: w.Clock, Wall: w.Wall, Log: w.Log, Observer: w.Observer, Interval: w.Interval, Consumer: consumer}
	w.agenda = loop.NewAgenda(common)
	every := func(name string, work func(context.Context, int) (int, error), kinds ...agenda.Kind) *loop.Loop {
		c := loop.Config{Common: common, Name: name, Every: trimInterval, Concurrency: w.Concurrency, PageSize: w.PageSize, Do: work, Clocked: name != jobs}
		if len(kinds) > 0 {
			c.Every, c.Agenda, c.Kinds = w.Interval, w.agenda, kinds
		}
		return loop.New(c)
	}
	w.expiry, w.payouts = every("clock", w.expirePayments, agenda.Payments), every("payouts", w.makePayouts, agenda.Cutoffs, agenda.Payouts)
	w.jobs, w.rules = every(jobs, w.runJobs, agenda.Jobs), every("rules", w.activateRules, agenda.Activations)
	w.trimming = every("trim", w.trimEvents)
	w.cutting = loop.New(loop.Config{Common: common, Name: "segments", Every: cutInterval, Busy: cutPause, Vacant: w.agenda.Vacant, Concurrency: w.Concurrency, PageSize: w.PageSize, Do: w.cutLogs})
	w.posting = loop.New(loop.Config{Common: common, Name: "postings", Every: cutInterval, Busy: cutPause, Vacant: w.agenda.Vacant, Concurrency: w.Concurrency, PageSize: w.PageSize, Do: w.postTransactions})
	archiveEvery := archiveInterval
	if w.Development { // its clock is moved
		archiveEvery = w.Interval
	}
	w.archiving = loop.New(loop.Config{Common: common, Name: "archive", Every: archiveEvery, Busy: w.Interval, Vacant: w.agenda.Vacant, Concurrency: 1, PageSize: w.PageSize, Clocked: true, Do: w.archivePayments})
	w.sealer = sealing.New(sealing.Config{Common: common, Keyring: w.keyring, Witness: witness})
	w.sealing = loop.New(loop.Config{Common: common, Name: "audit", Every: sealing.Every, Vacant: w.agenda.Vacant, Concurrency: w.Concurrency, PageSize: w.PageSize, Clocked: true, Do: w.sealAudit})
	w.dispatch = delivery.New(delivery.Config{
		Common: common, Agenda: w.agenda, Vault: w.Vault, Random: w.random,
		Slots: w.Slots, Lease: w.Lease, Grace: w.Grace, Backoff: w.Backoff, DisableAfter: w.DisableAfter, Tracer: w.Tracer,
		Sender: delivery.SenderConfig{Clock: w.Wall, Development: w.Development, Timeouts: w.Timeouts, Resolver: w.Resolver, Roots: w.Roots, Version: w.Version, Transport: w.Transport},
	})
	w.exports = export.New(export.Config{Common: common, Agenda: w.agenda, Slots: w.Exports, Lease: w.ExportLease, Chunk: w.ExportChunk})
}

func withDefaults(c Config) Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Timeouts == (delivery.Timeouts{}) {
		c.Timeouts = delivery.DefaultTimeouts
	}
	if c.Backoff.Waits == nil {
		c.Backoff = delivery.DefaultBackoff
	}
	if c.Wall == nil {
		c.Wall = c.Clock
	}
	if c.Observer == nil {
		c.Observer = Unobserved{}
	}
	if c.Pay == nil {
		c.Pay = ledgerOnly
	}
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.PageSize = cmp.Or(c.PageSize, 100)
	c.Concurrency = cmp.Or(c.Concurrency, 8)
	c.KeepEvents = cmp.Or(c.KeepEvents, 30*24*time.Hour)
	c.KeepAudit = cmp.Or(c.KeepAudit, DefaultKeepAudit)
	c.Name = cmp.Or(c.Name, "worker")
	c.Slots = cmp.Or(c.Slots, DefaultSlots)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Exports = cmp.Or(c.Exports, 2)
	c.ExportLease = cmp.Or(c.ExportLease, 30*time.Second)
	c.ExportChunk = cmp.Or(c.ExportChunk, 256<<10)
	c.CheckRest = cmp.Or(c.CheckRest, time.Hour)
	c.ArchiveAfter = cmp.Or(c.ArchiveAfter, DefaultArchiveAfter)
	c.DisableAfter = cmp.Or(c.DisableAfter, 5*24*time.Hour)
	return c
}

// Run works until ctx ends, which is the only way out: outages of Redis are
// logged and waited out. At the end no new work is taken, and attempts that are
// running have Config.Grace to finish.
func (w *Worker) Run(ctx context.Context) {
	start := w.Wall()
	var parts sync.WaitGroup
	parts.Go(func() { w.agenda.Run(ctx) })
	parts.Go(func() { w.Store.FollowHealth(ctx) })
	parts.Go(func() { w.expiry.Run(ctx) })
	parts.Go(func() { w.payouts.Run(ctx) })
	parts.Go(func() { w.jobs.Run(ctx) })
	parts.Go(func() { w.rules.Run(ctx) })
	parts.Go(func() { w.trimming.Run(ctx) })
	parts.Go(func() { w.cutting.Run(ctx) })
	parts.Go(func() { w.posting.Run(ctx) })
	parts.Go(func() { w.sealing.Run(ctx) })
	if w.Archive != nil {
		parts.Go(func() { w.archiving.Run(ctx) })
	}
	parts.Go(func() { w.sealer.Witness.Run(ctx) })
	parts.Go(func() { w.watchProgress(ctx, start) })
	parts.Go(func() { w.dispatch.Run(ctx) })
	parts.Go(func() { w.exports.Run(ctx) })
	parts.Go(func() { w.check(ctx) })
	parts.Go(func() { w.keepKeys(ctx) })
	parts.Wait()
}

// Round goes once over all partitions with the clock and returns how many
// payments it expired.
func (w *Worker) Round(ctx context.Context) (int, error) { return w.expiry.Once(ctx) }

// random is a number in [0, 1).
func (w *Worker) random() float64 {
	var b [8]byte
	if _, err := io.ReadFull(w.Entropy, b[:]); err != nil {
		return 0.5 // no jitter
	}
	return float64(binary.LittleEndian.Uint64(b[:])>>11) / (1 << 53)
}
