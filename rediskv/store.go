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
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/history"
	"tollgate/rediskv/peer"
)

// OperationTimeout bounds every call to Redis, retries included (interface §8),
// unless Options say otherwise.
const OperationTimeout = 2 * time.Second

// DefaultPaymentBytes is how many bytes of copies of payments a process keeps, unless
// Options say otherwise: of some 20,000 payments.
const DefaultPaymentBytes = 64 << 20

// leastDeadTries are as many as go-redis makes.
const leastDeadTries = 3

// toldSize bounds what is remembered of damaged objects; Redis knows them all.
const toldSize = 10_000

// Options configure a Store; URL, Clock and Entropy are required.
type Options struct {
	// URL is redis://, rediss:// or unix://; several hosts are separated by
	// commas. A cluster is recognized by asking the server.
	URL string
	// Replica is the URL of a replica that is nearer than the primary (empty: none).
	// Reads may go there (Near) while it is at most MaxLag behind (0: DefaultMaxLag).
	Replica string
	MaxLag  time.Duration
	// Partitions is fixed when a Redis is first used (0: 64) and refused when
	// it differs from what is recorded there (0: take what is recorded).
	Partitions int
	Clock      func() time.Time
	// Wall is the machine's own clock, which is compared with Redis' (nil: it is not).
	Wall    func() time.Time
	Entropy io.Reader // read by one goroutine at a time
	// Rules are those that every organization has; any other is looked up among
	// what the organization has published.
	Rules []tollgate.RuleRef
	// ExportBytes bounds what the export files of one organization take up, the
	// same for all processes (0: DefaultExportBytes).
	ExportBytes int64
	// Pool bounds the connections to each server, beside one for notices (0: pool_size
	// of the URL, or 256, or ten for each processor, and ten for batches), and Blocking those of
	// a worker's readers that wait (0: 512).
	Pool, Blocking int
	// PaymentBytes bounds, in bytes, the copies of payments that are kept in memory, so that
	// a change of one need not read it first (0: DefaultPaymentBytes; below: none).
	PaymentBytes int64
	// Dial makes connections where the system cannot (nil: it does). It encrypts them
	// itself for rediss://.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Silence is after how long without word of what has changed configuration is
	// read again before it is used, where nobody may be listening (0: never; while
	// Redis cannot be reached what is known is used all the same).
	Silence time.Duration
	// Notes says that configuration is kept as it was read, for EachNoted.
	Notes bool
	// Timeout bounds every call, retries included (0: OperationTimeout).
	Timeout time.Duration
	// WaitReplicas is how many replicas of its master must have a change before it is
	// acknowledged (0: none).
	WaitReplicas int
	// Observe is told of every operation; it may be nil.
	Observe func(operation string, took time.Duration, err error)
	// Trace is told the same at its end, with the context of the request; it may be nil.
	// It sees no key and no argument.
	Trace func(ctx context.Context, operation string, took time.Duration, err error)
	// Damaged is told once of every stored object of a kind that this process
	// could not read; it may be nil.
	Damaged func(object string)
	// Held is told of every payout that this process holds; it may be nil.
	Held func()
	// GoOn has a history begin at once where data was lost; else nothing is written
	// until the loss is accepted (Accept). Payouts wait for that in both cases.
	GoOn bool
	// Lost is told of every partition that this process finds to have lost data; it may
	// be nil.
	Lost func()
	Log  *slog.Logger // nil discards

	connections *peer.Connections // of the Store that is being opened
	histories   *history.Watch
}

// Client is how rooms talk to Redis beside scripts.
type Client = peer.Client

// DB is the Redis that Tollgate's state is in, and what all rooms of it have in
// common. It is safe for concurrent use.
type DB struct {
	Redis        peer.Client
	Blocking     peer.Client    // for readers that wait; never starves the others
	notices      io.Closer      // hears what is published: a redis.UniversalClient (peer.Client says why not)
	Batched      redis.Scripter // sends what many goroutines do at once together, where it can
	clustered    bool
	deadTries    int        // how often a dead connection is no answer
	spaces       []Space    // by partition
	facts        peer.Facts // as they were when the Store was opened; nil of a cluster
	connections  *peer.Connections
	seal         atomic.Pointer[string] // as it was last read
	sealNamed    bool                   // whose it is, is recorded
	keyring      *string
	layout       atomic.Int32
	Timeout      time.Duration
	silence      time.Duration
	ExportBytes  int64
	WaitReplicas int   // how many replicas must have a change, as Options have it
	PaymentBytes int64 // bytes of copies of payments, as Options have it
	Clock        func() time.Time
	Wall         func() time.Time // the machine's own, compared with Redis'; nil: it is not
	observe      func(string, time.Duration, error)
	trace        func(context.Context, string, time.Duration, error)
	Log          *slog.Logger
	Cache        *Cache
	told         *lru.Cache[string, bool] // damaged objects that this process has told of
	onDamage     func(object string)
	OnHeld       func()
	News         chan struct{}
	Builtin      map[tollgate.Citation]tollgate.RuleRef

	Histories *history.Watch // by partition
	onLoss    func()

	notes bool   // what is read of configuration is noted
	kept  Keeper // of an Offline, else nil

	replica *replica // nil: there is none
	primary *DB      // of a view of the replica, else nil: who writes
	mint    *mint
}

// mint makes ids from a clock and randomness.
type mint struct {
	lock    sync.Mutex
	entropy io.Reader
}

// Open connects, agrees on the number of partitions and loads the scripts.
func Open(ctx context.Context, o Options) (*DB, error) {
	partitions := cmp.Or(o.Partitions, defaultPartitions)
	if partitions < 1 || partitions > maxPartitions {
		return nil, fmt.Errorf("partitions: %d is not between 1 and %d", partitions, maxPartitions)
	}
	quiet()
	o.connections, o.histories = new(peer.Connections), &history.Watch{GoOn: o.GoOn}
	c, said, err := connect(ctx, o, partitions, cmp.Or(o.Timeout, OperationTimeout))
	if err != nil {
		return nil, err
	}
	s, err := newDB(o, c)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, o.Partitions, partitions, said); err != nil {
		s.Close()
		return nil, err
	}
	if o.Replica != "" {
		if err := s.addReplica(ctx, o); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// newDB takes over the clients.
func newDB(o Options, c clients) (*DB, error) {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	batched, err := together(c.commands)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	told, err := lru.New[string, bool](toldSize)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	_, clustered := c.commands.(*redis.ClusterClient)
	s := &DB{
		clustered: clustered,
		Redis:     c.commands, Blocking: c.blocking, notices: c.notices, Batched: batched, deadTries: max(leastDeadTries, o.Pool),
		Timeout: cmp.Or(o.Timeout, OperationTimeout), silence: o.Silence, notes: o.Notes, ExportBytes: cmp.Or(o.ExportBytes, DefaultExportBytes), PaymentBytes: cmp.Or(o.PaymentBytes, DefaultPaymentBytes), Clock: o.Clock, Wall: o.Wall, WaitReplicas: o.WaitReplicas, connections: o.connections, mint: &mint{entropy: o.Entropy}, observe: o.Observe, trace: o.Trace, Log: log,
		Histories: o.histories, onLoss: o.Lost,
		Cache: newCache(), told: told, onDamage: o.Damaged, OnHeld: o.Held, News: make(chan struct{}, 1), Builtin: map[tollgate.Citation]tollgate.RuleRef{},
	}
	for _, ref := range o.Rules {
		s.Builtin[ref.Rule] = ref
	}
	return s, nil
}

// together sends what many goroutines do at once in one batch. Not in a cluster:
// go-redis would batch there by stretches of slots that belong to several
// masters, so that healthy ones wait for one that hangs.
func together(client peer.Client) (redis.Scripter, error) {
	single, ok := client.(*redis.Client)
	if !ok {
		return client, nil
	}
	return single.AutoPipeline()
}

// prepare agrees on the number of partitions, and loads the scripts. want is what the
// options say (0: nothing), and first what is recorded where nothing is yet.
func (s *DB) prepare(ctx context.Context, want, first int, said greeting) (err error) {
	if _, ok := s.Redis.(*redis.ClusterClient); ok {
		if said, err = s.meet(ctx, first); err != nil {
			return err
		}
	} else {
		s.facts, s.keyring = said.facts, said.keyring
	}
	if copied := said.meta[history.Restoring]; copied != "" {
		return fmt.Errorf("%w (%s). Wait until 'tollgate restore' has ended; if it has died, run it again with the same copy", history.ErrRestoring, copied)
	}
	recorded, err := strconv.Atoi(said.meta["partitions"])
	if err != nil || recorded < 1 || recorded > maxPartitions {
		return fmt.Errorf("partitions: %q is recorded", said.meta["partitions"])
	}
	if want != 0 && want != recorded {
		return fmt.Errorf("partitions: this Redis was set up with %d, not %d; the number cannot change", recorded, want)
	}
	s.spaces = spacesOf(recorded)
	s.Sealed(said.meta[SealField])
	s.sealNamed = said.meta[SealedByField] != ""
	s.setLayout(said.meta[layoutField])
	scripts, err := s.loadScripts(ctx, said.scripts)
	if err != nil {
		return err
	}
	if !said.begun {
		return s.Histories.Begin(ctx, s, s.Redis, historyKeys(len(s.spaces)), said.facts.Run(), scripts)
	}
	if err := loadInto(ctx, s, s.Redis, said.scripts); err != nil {
		return err
	}
	s.Histories.Follow(ctx, s, s.Redis, said.facts.Run())
	return nil
}

// Close ends the connections.
func (s *DB) Close() error {
	err := clients{s.Redis, s.Blocking, s.notices}.close()
	if s.replica != nil {
		err = errors.Join(err, s.replica.view.Redis.Close())
	}
	if s.Histories != nil {
		s.Histories.Settled()
	}
	return err
}

// Ping reports whether Redis answers.
func (s *DB) Ping(ctx context.Context) error {
	return s.Timed(ctx, "ping", func(ctx context.Context) error { return s.Redis.Ping(ctx).Err() })
}

// Partitions is the number that keys are spread over.
func (s *DB) Partitions() int { return len(s.spaces) }

// Lanes is how many parts of Redis keep each other waiting no more than they
// must: a single server does one thing at a time; of a cluster nobody says which
// partitions share a master.
func (s *DB) Lanes() int {
	if _, ok := s.Redis.(*redis.ClusterClient); ok {
		return len(s.spaces)
	}
	return 1
}

// Lane is the part that an organization is in.
func (s *DB) Lane(org string) int { return s.Partition(org) % s.Lanes() }

// Now is the Store's clock as the interface prints it.
func (s *DB) Now() tollgate.Instant { return tollgate.At(s.Clock()) }

// NewID makes an identifier; it is a tollgate.NewIDFunc.
func (s *DB) NewID(prefix string) string {
	s.mint.lock.Lock()
	defer s.mint.lock.Unlock()
	return tollgate.NewID(prefix, s.Clock(), s.mint.entropy)
}

// Timed bounds an operation, reports it and turns its error into one for the
// caller.
func (s *DB) Timed(ctx context.Context, operation string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	start := s.Clock()
	err := Unavailable(operation, do(ctx))
	if s.IsView() && Away(err) {
		s.replica.lost()
	}
	took := s.Clock().Sub(start)
	if s.observe != nil {
		s.observe(operation, took, err)
	}
	if s.trace != nil {
		s.trace(ctx, operation, took, err)
	}
	return err
}
