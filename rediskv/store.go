// Package rediskv is the only one that knows Redis (go-redis): every key name,
// every Lua script, and the Store through which the rest of the service reads
// and commits. A change of state is one script in one slot: it checks
// everything first and then writes all of it, or nothing.
package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// OperationTimeout bounds every call to Redis, retries included (interface §8),
// unless Options say otherwise.
const OperationTimeout = 2 * time.Second

// toldSize bounds what is remembered of damaged objects; Redis knows them all.
const toldSize = 10_000

// Options configure a Store; URL, Clock and Entropy are required.
type Options struct {
	// URL is redis://, rediss:// or unix://; several hosts are separated by
	// commas. A cluster is recognized by asking the server.
	URL string
	// Partitions is fixed when a Redis is first used (0: 64) and refused when
	// it differs from what is recorded there (0: take what is recorded).
	Partitions int
	Clock      func() time.Time
	Entropy    io.Reader // read by one goroutine at a time
	// Rules are those that every organization has; any other is looked up among
	// what the organization has published.
	Rules []tollgate.RuleRef
	// ExportBytes bounds what the export files of one organization take up, the
	// same for all processes (0: DefaultExportBytes).
	ExportBytes int64
	// Timeout bounds every call, retries included (0: OperationTimeout).
	Timeout time.Duration
	// Observe is told of every operation; it may be nil.
	Observe func(operation string, took time.Duration, err error)
	// Damaged is told once of every stored object of a kind that this process
	// could not read; it may be nil.
	Damaged func(object string)
	// Held is told of every payout that this process holds; it may be nil.
	Held func()
	Log  *slog.Logger // nil discards
}

// Store is Tollgate's state in Redis. It is safe for concurrent use.
type Store struct {
	client      redis.UniversalClient
	blocking    redis.UniversalClient // for readers that wait; never starves the others
	batched     redis.Scripter        // sends what many goroutines do at once together, where it can
	partitions  int
	timeout     time.Duration
	exportBytes int64
	clock       func() time.Time
	observe     func(string, time.Duration, error)
	log         *slog.Logger
	cache       *cache
	told        *lru.Cache[string, bool] // damaged objects that this process has told of
	onDamage    func(object string)
	onHeld      func()
	changed     chan struct{}
	tails       *tails
	shipped     map[tollgate.Citation]tollgate.RuleRef

	claims      []atomic.Int32             // by partition: batches until the next look for what dead workers left
	lastExport  []atomic.Pointer[string]   // by partition: the organization that had the last turn
	leftOut     []atomic.Bool              // by partition: endpoints with a backlog were left out last time
	turns       []atomic.Pointer[[]string] // by partition: endpoints whose turn it was last time
	directories sync.Map                   // by organization: *directory
	endpoints   sync.Map                   // by organization/id: *knownEndpoint, of those that have had something queued lately

	mintLock sync.Mutex
	entropy  io.Reader
}

// Open connects, agrees on the number of partitions and loads the scripts.
func Open(ctx context.Context, o Options) (*Store, error) {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	quiet()
	timeout := cmp.Or(o.Timeout, OperationTimeout)
	client, err := connect(ctx, o.URL, 0, timeout)
	if err != nil {
		return nil, err
	}
	blocking, err := connect(ctx, o.URL, blockingConnections, timeout)
	if err != nil {
		client.Close()
		return nil, err
	}
	batched, err := together(client)
	if err != nil {
		return nil, errors.Join(err, client.Close(), blocking.Close())
	}
	told, err := lru.New[string, bool](toldSize)
	if err != nil {
		return nil, errors.Join(err, client.Close(), blocking.Close())
	}
	s := &Store{
		client: client, blocking: blocking, batched: batched,
		timeout: timeout, exportBytes: cmp.Or(o.ExportBytes, DefaultExportBytes), clock: o.Clock, entropy: o.Entropy, observe: o.Observe, log: log,
		cache: newCache(), told: told, onDamage: o.Damaged, onHeld: o.Held, changed: make(chan struct{}, 1), tails: newTails(), shipped: map[tollgate.Citation]tollgate.RuleRef{},
	}
	for _, ref := range o.Rules {
		s.shipped[ref.Rule] = ref
	}
	if err := s.prepare(ctx, o.Partitions); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// together sends what many goroutines do at once in one batch. Not in a cluster:
// go-redis would batch there by stretches of slots that belong to several
// masters, so that healthy ones wait for one that hangs.
func together(client redis.UniversalClient) (redis.Scripter, error) {
	single, ok := client.(*redis.Client)
	if !ok {
		return client, nil
	}
	return single.AutoPipeline()
}

func (s *Store) prepare(ctx context.Context, partitions int) error {
	want := partitions
	if want == 0 {
		want = defaultPartitions
	}
	if want < 1 || want > maxPartitions {
		return fmt.Errorf("partitions: %d is not between 1 and %d", want, maxPartitions)
	}
	var recorded int
	if err := s.timed(ctx, "partitions", func(ctx context.Context) (err error) {
		if err = s.client.HSetNX(ctx, metaKey, "partitions", want).Err(); err == nil {
			recorded, err = s.client.HGet(ctx, metaKey, "partitions").Int()
		}
		return err
	}); err != nil {
		return err
	}
	if partitions != 0 && partitions != recorded {
		return fmt.Errorf("partitions: this Redis was set up with %d, not %d; the number cannot change", recorded, partitions)
	}
	s.partitions = recorded
	s.claims, s.leftOut = make([]atomic.Int32, recorded), make([]atomic.Bool, recorded)
	s.lastExport = make([]atomic.Pointer[string], recorded)
	s.turns = make([]atomic.Pointer[[]string], recorded)
	return s.loadScripts(ctx)
}

// Close ends the connections.
func (s *Store) Close() error {
	s.tails.close()
	err := s.client.Close()
	if e := s.blocking.Close(); err == nil {
		err = e
	}
	return err
}

// Ping reports whether Redis answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.timed(ctx, "ping", func(ctx context.Context) error { return s.client.Ping(ctx).Err() })
}

// Partitions is the number that keys are spread over.
func (s *Store) Partitions() int { return s.partitions }

// Lanes is how many parts of Redis keep each other waiting no more than they
// must: a single server does one thing at a time; of a cluster nobody says which
// partitions share a master.
func (s *Store) Lanes() int {
	if _, ok := s.client.(*redis.ClusterClient); ok {
		return s.partitions
	}
	return 1
}

// Lane is the part that an organization is in.
func (s *Store) Lane(org string) int { return partitionOf(org, s.partitions) % s.Lanes() }

// Now is the Store's clock as the interface prints it.
func (s *Store) Now() tollgate.Instant { return tollgate.At(s.clock()) }

// Mint makes an identifier; it is a tollgate.Mint.
func (s *Store) Mint(prefix string) string {
	s.mintLock.Lock()
	defer s.mintLock.Unlock()
	return tollgate.NewID(prefix, s.clock(), s.entropy)
}

// timed bounds an operation, reports it and turns its error into one for the
// caller.
func (s *Store) timed(ctx context.Context, operation string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.observe == nil {
		return unavailable(operation, do(ctx))
	}
	start := s.clock()
	err := unavailable(operation, do(ctx))
	s.observe(operation, s.clock().Sub(start), err)
	return err
}
