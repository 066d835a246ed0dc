package simulate

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/handlers/rate"
	"tollgate/handlers/service"
	"tollgate/handlers/worker"
	"tollgate/handlers/worker/delivery"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
)

// keys are what all processes share.
type keys struct{ secret []byte }

const issuer = "https://pay.simulated.example"

// process is one that serves or works.
type process struct {
	name    string
	world   *world
	entropy *entropy
	ahead   atomic.Int64 // of its clock
	moved   atomic.Int64 // when that last changed, of the bubble
	ice     atomic.Int64 // until when it is frozen, of the bubble

	ready   atomic.Int64 // since when it serves, of the bubble; 0: it does not
	ended   bool         // under the wire's lock
	handler atomic.Pointer[http.Handler]
	stop    context.CancelFunc
	stopped chan struct{} // closed when it is killed: who waits for an answer of it gets none
	once    sync.Once
}

func (p *process) clock() time.Time { return p.world.wire.now().Add(time.Duration(p.ahead.Load())) }

// skew has its clock be ahead, or behind.
func (p *process) skew(by time.Duration) {
	p.ahead.Store(int64(by))
	p.moved.Store(time.Now().UnixNano())
}

// thaws is until when a process is frozen: what it says leaves it then, and what it
// is told reaches it then. Its timers run on; nobody is told of that.
func (p *process) thaws() time.Time { return time.Unix(0, p.ice.Load()) }

func (p *process) freeze(until time.Time) { p.ice.Store(until.UnixNano()) }

// hurt says whether it may do late what it began in time.
func (p *process) hurt() bool {
	return p.gone() || p.ice.Load() != 0
}

// gone says whether it has ended.
func (p *process) gone() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

// start begins a process. It is ready some time later.
func (x *world) start(name string, run func(context.Context, *process) error) *process {
	ctx, stop := context.WithCancel(context.Background())
	p := &process{name: name, world: x, entropy: entropyOf(x.wire.chance, name), stop: stop, stopped: make(chan struct{})}
	x.running.Go(func() {
		for ctx.Err() == nil { // as whoever runs it would start it again
			if err := run(ctx, p); err != nil && ctx.Err() == nil {
				x.wire.tell("%s does not start: %v", name, err)
			}
			pause(ctx, time.Second)
		}
	})
	return p
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// kill ends a process as kill -9 does: first nobody hears it, then it ends. It reports
// whether it was there.
func (p *process) kill() bool {
	w := p.world.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.ended {
		return false
	}
	p.ended = true
	w.cutAll(p)
	w.push(time.Now().Add(cutting), 0, p.end)
	return true
}

// end ends a process in good order.
func (p *process) end() {
	p.once.Do(func() {
		close(p.stopped)
		p.stop()
	})
}

func (p *process) connect(ctx context.Context) (*store.Store, error) {
	return service.Await(ctx, rediskv.Options{
		URL: "redis://simulated", Partitions: p.world.plan.Partitions, Clock: p.clock, Wall: p.clock, Entropy: p.entropy, Dial: p.world.wire.dialer(p),
		Pool: 24, Blocking: 24, Log: p.log(), GoOn: p.world.plan.GoOn, Lost: func() { p.world.lostBy(p) },
	}, time.Minute)
}

func (p *process) log() *slog.Logger {
	return slog.New(&storyHandler{p})
}

// serve is `tollgate serve`.
func serve(ctx context.Context, p *process) error {
	s, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	p.archiveOf(s)
	api, err := service.New(ctx, s, service.Options{
		Issuer: issuer, SecretKeys: [][]byte{p.world.keys.secret}, Entropy: p.entropy, Clock: p.clock,
		Development: true, RateLimits: rate.Unlimited, Log: p.log(),
	})
	if err != nil {
		return err
	}
	defer api.Close(ctx)
	h := api.Server.Handler()
	p.handler.Store(&h)
	p.ready.Store(time.Now().UnixNano())
	api.Run(ctx)
	p.handler.Store(nil)
	p.ready.Store(0)
	return nil
}

// work is `tollgate work`.
func work(ctx context.Context, p *process) error {
	s, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	vault, err := service.Vault(ctx, s, p.entropy, p.world.keys.secret)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Store: s, Clock: p.clock, Entropy: p.entropy, Vault: vault, Log: p.log(), Interval: p.world.plan.Interval,
		Grace: time.Second, Development: true, Version: "simulated", Transport: &outbound{p}, Pay: p.pay, Name: p.name, Backoff: backoff,
		Archive: p.archiveOf(s), ArchiveAfter: archiveAfter, KeepAudit: archiveAfter,
	})
	if err != nil {
		return err
	}
	w.Run(ctx)
	return nil
}

// backoff is shorter than the product's, so that a story need not last for days.
var backoff = delivery.Backoff{Waits: append([]time.Duration{0, 2 * time.Second, 5 * time.Second}, slices.Repeat([]time.Duration{15 * time.Second}, 100)...), Jitter: 0.2, SlowDown: 2 * time.Second, MaxRetryAfter: time.Minute}

// storyHandler puts what a process logs into the story, and keeps the checkpoints in it.
type storyHandler struct{ p *process }

func (h *storyHandler) Enabled(_ context.Context, l slog.Level) bool {
	return l == slog.LevelInfo || h.p.world.wire.log != nil && l >= slog.LevelWarn
}

func (h *storyHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelInfo {
		h.p.world.witness(r)
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	h.p.world.wire.tell("%s says: %s", h.p.name, text)
	return nil
}

func (h *storyHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *storyHandler) WithGroup(string) slog.Handler      { return h }
