package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/cmd/sandbox"
	"tollgate/handlers/rate"
	"tollgate/handlers/secret"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/store"
)

// ahead is how far the clock may have gone on until the first of the requests under way
// is made: those that follow it must not come too late.
const ahead = time.Hour

// market is the demonstration organization with more accounts, the service and the
// worker, both on its clock.
type market struct {
	options
	clock    clock
	store    *store.Store
	service  *service.Service
	worker   *worker.Worker
	api      api
	sales    *sales
	later    *schedule
	begun    int // steps
	requests chan step
	made     atomic.Int64        // payments
	ids      map[string][]string // some that are there, by what they are of
	working  sync.WaitGroup
	archive  *archive.Store // nil: there is none
	stop     context.CancelFunc
}

// open makes the organization in a Redis, and has the worker work. moved moves Redis'
// clock (nil: it is ours).
func open(ctx context.Context, redis rediskv.Options, o options, moved func(time.Duration) error) (*market, error) {
	m := &market{options: o, later: newSchedule(), requests: make(chan step)}
	if o.config.Organization.ID == "" {
		m.shops = shops()
		m.config = config(m.shops)
	}
	if m.clock.moved = moved; o.span > 0 {
		m.span += time.Since(time.Now().Truncate(24 * time.Hour)) // from midnight on
		m.clients = max(1, min(o.clients, int(cmp.Or(o.ahead, ahead)/(m.span/time.Duration(o.payments)))))
	}
	if err := m.clock.begin(-m.span); err != nil {
		return nil, err
	}
	redis.Clock, redis.Wall, redis.Entropy, redis.Log = m.clock.Now, m.clock.Now, bufio.NewReader(rand.Reader), slog.New(slog.DiscardHandler)
	redis.Timeout, redis.Pool = time.Minute, o.clients+20
	var err error
	if m.store, err = service.Connect(ctx, redis); err != nil {
		return nil, err
	}
	if err := m.prepare(ctx, redis.Log); err != nil {
		m.close()
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	m.stop = stop
	m.working.Go(func() { m.service.Run(running) })
	m.working.Go(func() { m.worker.Run(running) })
	return m, nil
}

// prepare makes the organization, the service and the worker.
func (m *market) prepare(ctx context.Context, log *slog.Logger) error {
	entropy := secret.OneAtATime(bufio.NewReader(rand.Reader))
	secrets, err := sandbox.Prepare(ctx, m.store, entropy)
	if err != nil {
		return err
	}
	m.sales = newSales(m.seed, m.shops)
	if _, err := service.Provision(ctx, m.store, m.config, nil, false); err != nil {
		return err
	}
	if m.archiveDir != "" {
		on, err := shelf.Open("file://" + m.archiveDir)
		if err != nil {
			return err
		}
		m.archive = archive.New(m.store.DB, archive.Options{Shelves: []shelf.Shelf{on}, Scratch: m.archiveDir})
		m.store.UseArchive(m.archive)
		m.store.UseLogs(logs.New(m.store.DB, logs.Options{Shelves: []shelf.Shelf{on}, Scratch: m.archiveDir}))
	}
	// Tokens keep to real time.
	m.service, err = service.New(ctx, m.store, service.Options{
		Issuer: issuer, SigningKeys: [][]byte{secrets.SigningKey}, SecretKeys: [][]byte{secrets.SecretKey}, Entropy: entropy,
		Clock: time.Now, Sandbox: &service.SandboxClock{Real: m.clock.Now}, Development: true, RateLimits: rate.Unlimited, Log: log,
	})
	if err != nil {
		return err
	}
	m.api = api{handler: m.service.Server.Handler(), private: secrets.ClientKey, prefix: rand.Text()}
	m.worker, err = worker.New(worker.Config{
		Store: m.store, Clock: m.clock.Now, Entropy: entropy, Vault: m.service.Vault, Log: log,
		Interval: 100 * time.Millisecond, PageSize: 1000, Development: true,
		KeepEvents: 366 * 24 * time.Hour, // the longest span but with an archive, where they are trimmed as well
		Archive:    m.archive,
	})
	return err
}

// rest ends the work in the background.
func (m *market) rest() {
	if m.stop != nil {
		m.stop()
		m.working.Wait()
	}
}

func (m *market) close() {
	m.rest()
	if m.service != nil {
		_ = m.service.Close(context.Background())
	}
	_ = m.store.Close()
}

// fill makes all payments, has happen what follows until now, and waits for the worker.
func (m *market) fill(ctx context.Context) error {
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var clients sync.WaitGroup
	for range m.clients {
		clients.Go(func() {
			for next := range m.requests {
				following, err := m.send(ctx, next)
				if err != nil {
					failed(err)
				}
				m.later.end(following)
			}
		})
	}
	err := m.generate(ctx)
	close(m.requests)
	clients.Wait()
	if err == nil {
		err = m.settle(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// generate says what to do in the order of the marketplace's time.
func (m *market) generate(ctx context.Context) error {
	for n := range m.payments {
		off := moment(m.span, n, m.payments)
		if m.passed != nil {
			if err := m.passed(ctx, m.span+off); err != nil {
				return err
			}
		}
		for {
			next, due := m.later.take(time.Now().Add(off))
			if !due {
				break
			}
			if err := m.begin(ctx, time.Until(next.at), next); err != nil {
				return err
			}
		}
		made, err := m.sales.next()
		if err != nil {
			return err
		}
		if err := m.begin(ctx, off, step{path: "/v1/payments", body: made.body, sale: made}); err != nil {
			return err
		}
	}
	for {
		next, due := m.later.rest(time.Now())
		if !due {
			return m.clock.move(0)
		}
		if err := m.begin(ctx, time.Until(next.at), next); err != nil {
			return err
		}
	}
}

// begin has a step made. The clock moves when as many have been made as there are
// clients, and none is under way: an event is written when its id says, or whoever looks
// for it there reads on.
func (m *market) begin(ctx context.Context, off time.Duration, s step) error {
	if m.begun++; m.begun%m.clients == 0 {
		m.later.idle()
		if err := m.clock.move(min(off, 0)); err != nil {
			return err
		}
	}
	m.later.begin()
	select {
	case m.requests <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until the worker has nothing left that is due: payments that expire, days
// to close, payouts.
func (m *market) settle(ctx context.Context) error {
	for ctx.Err() == nil {
		due := false
		for p := range m.store.Partitions() {
			next, _, err := m.store.Upcoming(ctx, p)
			if err != nil {
				return err
			}
			for _, kind := range []agenda.Kind{agenda.Payments, agenda.Cutoffs, agenda.Payouts} {
				due = due || next[kind] <= m.store.Now()
			}
		}
		if !due {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ctx.Err()
}
