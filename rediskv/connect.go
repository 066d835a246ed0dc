package rediskv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"tollgate"
)

// blockingConnections bounds the readers that wait at the same time.
const blockingConnections = 512

// connect opens a client for a URL. Whether it is a cluster is the server's
// word: one URL works for both.
func connect(ctx context.Context, rawURL string, pool int, timeout time.Duration) (redis.UniversalClient, error) {
	first, others, err := splitURL(rawURL)
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(first)
	if err != nil {
		return nil, fmt.Errorf("redis url: %w", errors.New(redact(err.Error(), first)))
	}
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout/2, timeout, timeout, timeout/2
	o.PoolSize = pool
	single := redis.NewClient(o)
	if len(others) == 0 {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		info, err := single.Info(ctx, "cluster").Result()
		if err != nil && !IsReply(err) {
			single.Close()
			return nil, Unavailable("connect", err)
		}
		if !strings.Contains(info, "cluster_enabled:1") {
			return single, nil
		}
	}
	single.Close()
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: append([]string{o.Addr}, others...), Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		ContextTimeoutEnabled: true, DisableIdentity: true, MaintNotificationsConfig: o.MaintNotificationsConfig,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout, PoolSize: pool,
		// By default a cluster client looks for a new master only once a
		// minute after dial errors.
		ClusterStateReloadInterval: time.Second,
	}), nil
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

// passing are replies of a server that cannot serve just now; any other error
// reply is a fault of ours.
var passing = []string{
	"LOADING", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "TRYAGAIN", "MOVED", "ASK", "OOM", "MISCONF", "NOREPLICAS",
	"BUSY", "UNKILLABLE", "ERR max number of clients",
}

// IsReply says whether an error is an answer of Redis rather than the lack of one.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// ErrRefused: Redis answers and does not let this service in. It is wrapped by
// the error that says that the store is away, which it is for clients.
var ErrRefused = errors.New("redis refuses the user or the password of the URL")

var refusals = []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password", "ERR invalid username-password"}

func refused(text string) bool {
	return slices.ContainsFunc(refusals, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Unavailable turns what go-redis reports into an error for the caller: the
// store cannot be reached, or, for a reply that no correct script gets, a
// fault. Errors that already say what they are pass.
func Unavailable(operation string, err error) error {
	var known *tollgate.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, ErrStale) || errors.Is(err, ErrConflict) || errors.Is(err, ErrReplayed) {
		return err
	}
	if IsReply(err) {
		text := err.Error()
		if refused(text) {
			return StoreUnavailable(operation, fmt.Errorf("%w: %w", ErrRefused, err))
		}
		for _, prefix := range passing {
			if strings.HasPrefix(text, prefix) {
				return StoreUnavailable(operation, err)
			}
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
