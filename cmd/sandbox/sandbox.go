package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"tollgate/handlers/rate"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
)

// Options configure a Sandbox. All are required.
type Options struct {
	URL       string // of the API, which issues tokens under it
	Redis     *Redis
	Clock     func() time.Time // real time
	Entropy   io.Reader
	Log       *slog.Logger
	Transport http.RoundTripper // carries deliveries of webhooks
	Receiver  string            // where those of the demonstration's endpoint go
	Version   string
}

// Sandbox is everything in one program, on an embedded Redis: the API and the
// worker, with the demonstration organization.
type Sandbox struct {
	*service.Service
	Secrets  *Secrets
	Endpoint Endpoint

	redis  *Redis
	worker *worker.Worker
	clock  func() time.Time
	last   time.Time // until when time has passed in redis
}

const (
	connections = 8
	// tick is how exact times to live are. Each one looks at every key.
	tick  = 5 * time.Second
	grace = time.Second
)

// Patience bounds what a Redis in the same process is asked. It cannot be away: what
// takes long is a slow machine, where its scripts alone can take seconds at a start.
const Patience = time.Minute

// Start makes a sandbox on what its Redis holds.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	s := &Sandbox{redis: o.Redis, clock: o.Clock, last: o.Clock()}
	clock := &service.SandboxClock{Real: o.Clock, Moved: func(_ context.Context, by time.Duration) error {
		o.Redis.FastForward(by)
		return nil
	}}
	store, err := service.Connect(ctx, rediskv.Options{
		URL: "redis://sandbox", Partitions: 1, Clock: clock.Now, Wall: o.Clock, Entropy: bufio.NewReader(o.Entropy), Log: o.Log, Dial: o.Redis.Dial, Pool: connections, Blocking: connections, Timeout: Patience,
	})
	if err != nil {
		return nil, err
	}
	if err := clock.Resume(ctx, store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if s.Secrets, err = Prepare(ctx, store, bufio.NewReader(o.Entropy)); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s.Service, err = service.New(ctx, store, service.Options{
		Issuer: o.URL, SigningKeys: [][]byte{s.Secrets.SigningKey}, SecretKeys: [][]byte{s.Secrets.SecretKey}, Entropy: o.Entropy, Clock: o.Clock,
		Sandbox: clock, Development: true, RateLimits: rate.Unlimited, Log: o.Log,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s.Endpoint = Endpoint{Store: store, Vault: s.Vault, Entropy: o.Entropy}
	err = s.Endpoint.Lead(ctx, o.Receiver, "The receiver of the sandbox", func(string) bool { return false })
	if err == nil {
		s.worker, err = worker.New(worker.Config{
			Store: store, Clock: clock.Now, Wall: o.Clock, Entropy: o.Entropy, Vault: s.Vault, Log: o.Log,
			Grace: grace, Development: true, Version: o.Version, Transport: o.Transport,
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: %w", err), s.Close(ctx))
	}
	return s, nil
}

// Run does what the service does beside requests, and lets time pass for what
// expires, until ctx ends.
func (s *Sandbox) Run(ctx context.Context) {
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){s.Service.Run, s.worker.Run, s.expire} {
		loops.Go(func() { loop(ctx) })
	}
	loops.Wait()
}

func (s *Sandbox) expire(ctx context.Context) {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C: // late, if the machine slept
			now := s.clock()
			if by := now.Sub(s.last); by > 0 {
				s.redis.FastForward(by)
			}
			s.last = now
		}
	}
}

// Close frees what Start made.
func (s *Sandbox) Close(ctx context.Context) error {
	return errors.Join(s.Service.Close(ctx), s.Store.Close())
}
