package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"tollgate"
	"tollgate/rediskv/peer"
)

// blockingConnections bounds the readers that wait at the same time.
const blockingConnections = 512

// A pool without a size has ten for each processor, and enough for those who ask at once.
// Each has two buffers, half as large as go-redis': what creates a payment is 6.4 KB.
const leastConnections, connectionsPerCore, buffer = 256, 10, 16 << 10

// warmed is how many connections of each kind there are from the start, for commands and for
// batches, beside the one that asks first: an instance that starts has four batches at once.
const warmed = 3

// clients are how a DB talks to Redis.
type clients struct {
	commands peer.Client
	blocking peer.Client // for readers that wait; never starves the others
	// notices hears what is published. Histories are not compared on its connections:
	// go-redis makes them under a lock that their pings wait for.
	notices io.Closer
}

func (c clients) close() error {
	return errors.Join(c.commands.Close(), c.blocking.Close(), c.notices.Close())
}

// connect opens the clients. Whether it is a cluster is the server's word: one URL
// works for both. A single server has then said whatever else is to be known of it.
func connect(ctx context.Context, o Options, partitions int, timeout time.Duration) (c clients, said greeting, err error) {
	own, others, err := redisOptions(o, o.Pool, timeout)
	if err != nil {
		return c, said, err
	}
	apart, _, err := redisOptions(o, cmp.Or(o.Blocking, blockingConnections), timeout)
	if err != nil {
		return c, said, err
	}
	heard := *own
	heard.OnConnect = func(context.Context, *redis.Conn) error { o.connections.Made(); return nil }
	if len(others) == 0 {
		single := redis.NewClient(own)
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		defer warm(ctx, single, own.PoolSize)(&err)
		if said, err = greet(ctx, single, o, partitions); err != nil {
			single.Close()
			return c, said, err
		}
		if !said.cluster {
			return clients{single, redis.NewClient(apart), redis.NewClient(&heard)}, said, nil
		}
		single.Close()
	}
	return clients{clusterClient(own, others), clusterClient(apart, others), clusterClient(&heard, others)}, said, nil
}

// warm makes connections, beside the one that is being used; pool is the bound of all,
// 0 where each kind has its own.
func warm(ctx context.Context, c *redis.Client, pool int) (done func(*error)) {
	return Beside(func() error {
		var asking sync.WaitGroup
		for n := 1; n <= 2*warmed && (pool == 0 || n < pool); n++ {
			asking.Go(func() {
				pipe := c.Pipeline()
				pipe.Ping(ctx)
				if n%2 == 0 {
					_, _ = pipe.Exec(ctx)
					return
				}
				_ = c.Ping(ctx).Err() // who asks first says what is wrong
			})
		}
		asking.Wait()
		return nil
	})
}

// redisOptions are those of a single server, and the further hosts of the URL. pool
// is the number of connections, 0 for what the URL says as pool_size.
func redisOptions(o Options, pool int, timeout time.Duration) (*redis.Options, []string, error) {
	first, others, err := splitURL(o.URL)
	if err != nil {
		return nil, nil, err
	}
	r, err := redis.ParseURL(first)
	if err != nil {
		return nil, nil, fmt.Errorf("redis url: %w", errors.New(redact(err.Error(), first)))
	}
	r.ContextTimeoutEnabled, r.DisableIdentity = true, true
	r.WriteBufferSize, r.ReadBufferSize = buffer, buffer
	r.OnConnect = func(ctx context.Context, c *redis.Conn) error {
		if o.histories != nil {
			if err := o.histories.Connected(ctx, c); err != nil {
				return err
			}
		}
		o.connections.Made()
		return nil
	}
	r.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	r.DialTimeout, r.ReadTimeout, r.WriteTimeout, r.PoolTimeout = cmp.Or(r.DialTimeout, timeout/2), cmp.Or(r.ReadTimeout, timeout), cmp.Or(r.WriteTimeout, timeout), cmp.Or(r.PoolTimeout, timeout/2)
	if r.PoolSize = cmp.Or(pool, r.PoolSize); r.PoolSize != 0 {
		r.PipelinePoolSize = -1 // the bound is for batches, too
	}
	r.PoolSize = cmp.Or(r.PoolSize, max(leastConnections, connectionsPerCore*runtime.GOMAXPROCS(0)))
	if o.Dial != nil {
		r.Dialer = o.Dial
		// go-redis looks at an idle connection before it uses it only where that is a
		// socket of the system. Of any other kind all may be dead: it tries each once.
		r.MaxRetries, r.MinRetryBackoff, r.MaxRetryBackoff = r.PoolSize+1, time.Millisecond, 64*time.Millisecond
	}
	return r, others, nil
}

func clusterClient(o *redis.Options, others []string) redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: append([]string{o.Addr}, others...), Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer, OnConnect: o.OnConnect,
		ContextTimeoutEnabled: true, DisableIdentity: true, WriteBufferSize: o.WriteBufferSize, ReadBufferSize: o.ReadBufferSize, MaintNotificationsConfig: o.MaintNotificationsConfig,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout, PoolSize: o.PoolSize, PoolFIFO: o.PoolFIFO,
		MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns, ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,
		MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		// By default it looks for a new master only once a minute after dial errors.
		ClusterStateReloadInterval: time.Second,
	})
}

// silent is go-redis' logger: it writes free text to standard error, into the
// midst of a JSON log. What it has to say reaches us as errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

// splitURL takes the further hosts out of redis://h1:1,h2:2,h3:3/0.
func splitURL(raw string) (first string, others []string, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return "", nil, errors.New("redis url: it starts with redis://, rediss:// or unix://")
	}
	if scheme == "unix" {
		return raw, nil, nil
	}
	userinfo, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		userinfo, hosts = rest[:at+1], rest[at+1:]
	}
	tail := ""
	if i := strings.IndexAny(hosts, "/?"); i >= 0 {
		hosts, tail = hosts[:i], hosts[i:]
	}
	list := strings.Split(hosts, ",")
	return scheme + "://" + userinfo + list[0] + tail, list[1:], nil
}

// redact keeps a password out of an error that quotes the URL.
func redact(text, rawURL string) string {
	if u, err := url.Parse(rawURL); err == nil {
		return strings.ReplaceAll(text, rawURL, u.Redacted())
	}
	return strings.ReplaceAll(text, rawURL, "the given URL")
}

// ErrRefused: Redis answers and does not let this service in. It is wrapped by
// the error that says that the store is away, which it is for clients.
var ErrRefused = errors.New("redis refuses the user or the password of the URL")

// Unavailable turns what go-redis reports into an error for the caller: the
// store cannot be reached, or, for a reply that no correct script gets, a
// fault. Errors that already say what they are pass.
func Unavailable(operation string, err error) error {
	var known *tollgate.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, ErrStale) || errors.Is(err, ErrConflict) || errors.Is(err, ErrReplayed) {
		return err
	}
	if peer.IsReply(err) {
		switch {
		case peer.Refused(err):
			return StoreUnavailable(operation, fmt.Errorf("%w: %w", ErrRefused, err))
		case peer.Passing(err):
			return StoreUnavailable(operation, err)
		}
		return fmt.Errorf("redis %s: %w", operation, err)
	}
	return StoreUnavailable(operation, err)
}

// StoreUnavailable is the error of an operation to which Redis gave no answer.
func StoreUnavailable(operation string, err error) error {
	return &tollgate.Error{
		Code: tollgate.CodeStoreUnavailable, Message: "The store cannot be reached at the moment. Try again.",
		Cause: fmt.Errorf("redis %s: %w", operation, err),
	}
}

// Bare connects as Open does, and writes nothing: not the number of partitions, and no
// scripts. So it can look at a Redis that takes no writes.
func Bare(ctx context.Context, o Options) (*DB, error) {
	quiet()
	o.connections = new(peer.Connections)
	own, others, err := redisOptions(o, o.Pool, o.Timeout)
	if err != nil {
		return nil, err
	}
	var client peer.Client = redis.NewClient(own)
	if len(others) == 0 {
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		info, err := client.Info(ctx, "cluster").Result()
		if err != nil && (!peer.IsReply(err) || peer.Refused(err)) {
			return nil, errors.Join(Unavailable("connect", err), client.Close())
		}
		if strings.Contains(info, "cluster_enabled:1") {
			others = []string{own.Addr}
		}
	}
	if len(others) > 0 {
		_ = client.Close()
		client = clusterClient(own, others)
	}
	s, err := newDB(o, clients{client, redis.NewClient(own), redis.NewClient(own)})
	if err != nil {
		return nil, err
	}
	var meta map[string]string
	err = s.Timed(ctx, "partitions", func(ctx context.Context) (err error) {
		meta, err = client.HGetAll(ctx, MetaKey).Result()
		return err
	})
	if err != nil && !peer.IsReply(err) {
		return nil, errors.Join(err, s.Close())
	}
	partitions, _ := strconv.Atoi(meta["partitions"])
	s.spaces = spacesOf(max(1, min(cmp.Or(partitions, defaultPartitions), maxPartitions)))
	s.Sealed(meta[SealField])
	return s, nil
}

// Subscribe calls heard with what is published on channels, and missed where something
// may have gone unheard: at the start, and after a lost connection. It returns when
// ctx ends.
func (s *DB) Subscribe(ctx context.Context, heard func(channel, text string), missed func(), channels ...string) {
	sub := s.notices.(redis.UniversalClient).Subscribe(ctx, channels...)
	defer sub.Close()
	messages := sub.ChannelWithSubscriptions() // pings, and subscribes again after a lost connection
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-messages:
			switch m := message.(type) {
			case *redis.Message:
				heard(m.Channel, m.Payload)
			case *redis.Subscription:
				missed()
			}
		}
	}
}
