package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/cmd/sandbox"
	"tollgate/handlers/rate"
	"tollgate/handlers/secret"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/agenda"
	"tollgate/rediskv/store"
)

// pass is into how many parts of the time the life of idempotency keys is cut.
const pass = 10

// market is the demonstration organization with more accounts, the service and the
// worker, both on its clock.
type market struct {
	options
	begin, end time.Time
	clock      clock
	store      *store.Store
	service    *service.Service
	worker     *worker.Worker
	redis      redis.UniversalClient // what it takes up
	api        api
	sales      *sales
	later      *schedule
	requests   chan step
	made       atomic.Int64 // payments
	working    sync.WaitGroup
	stop       context.CancelFunc
}

// open makes the organization in a Redis, and has the worker work.
func open(ctx context.Context, url string, o options) (*market, error) {
	m := &market{options: o, end: time.Now(), later: newSchedule(), requests: make(chan step)}
	m.begin = m.end.Add(-o.span)
	m.clock.reach(m.begin)
	log, entropy := slog.New(slog.DiscardHandler), secret.OneAtATime(bufio.NewReader(rand.Reader))
	redisOptions, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	m.redis = redis.NewClient(redisOptions)
	m.store, err = service.Connect(ctx, rediskv.Options{
		URL: url, Clock: m.clock.Now, Wall: time.Now, Entropy: entropy, Log: log, Timeout: time.Minute, Pool: o.clients + 20,
	})
	if err != nil {
		return nil, errors.Join(err, m.redis.Close())
	}
	if err := m.prepare(ctx, log); err != nil {
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
	list := shops()
	m.sales = newSales(m.seed, list)
	if _, err := service.Provision(ctx, m.store, config(list), nil, false); err != nil {
		return err
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
		Store: m.store, Clock: m.clock.Now, Wall: time.Now, Entropy: entropy, Vault: m.service.Vault, Log: log,
		Interval: 100 * time.Millisecond, PageSize: 1000,
	})
	return err
}

func (m *market) close() {
	if m.stop != nil {
		m.stop()
		m.working.Wait()
	}
	if m.service != nil {
		_ = m.service.Close(context.Background())
	}
	_ = m.store.Close()
	_ = m.redis.Close()
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
		at := moment(m.begin, m.span, n, m.payments)
		for ctx.Err() == nil {
			next, due := m.later.take(at)
			if !due {
				break
			}
			m.clock.reach(next.at)
			m.requests <- next
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		made, err := m.sales.next()
		if err != nil {
			return err
		}
		m.clock.reach(at)
		m.later.begin()
		m.requests <- step{path: "/v1/payments", body: made.body, sale: made}
		if part := m.payments / pass; n > 0 && part > 0 && n%part == 0 {
			if err := m.store.PassIdempotency(ctx, m.span/pass); err != nil {
				return err
			}
		}
	}
	m.clock.reach(m.end)
	for ctx.Err() == nil {
		next, due := m.later.rest(m.end)
		if !due {
			break
		}
		m.requests <- next
	}
	return ctx.Err()
}

// settle waits until the worker has nothing left that is due: payments that expire, days
// to close, payouts.
func (m *market) settle(ctx context.Context) error {
	for ctx.Err() == nil {
		due := false
		for p := range m.store.Partitions() {
			next, err := m.store.Upcoming(ctx, p)
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
