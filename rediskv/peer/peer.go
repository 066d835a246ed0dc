// Package peer is what a Redis server says of itself, how its answers are told from
// errors, and when it may have become another one.
package peer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Facts are what a server says of itself: the lines of INFO and settings, by their
// names. One that is missing was not said: an embedded server knows few, and a
// managed one does not let us ask for its settings.
type Facts map[string]string

// Ask queues the questions. What it returns reads the answers.
func Ask(ctx context.Context, pipe redis.Pipeliner) func() (Facts, error) {
	said := ask(ctx, pipe, "server", "persistence", "replication", "memory")
	var settings []*redis.MapStringStringCmd
	for _, name := range []string{"appendfsync", "aof-load-truncated"} { // two names at once are for Redis 7
		settings = append(settings, pipe.ConfigGet(ctx, name))
	}
	return func() (Facts, error) {
		f, err := said()
		if err != nil {
			return nil, err
		}
		for _, setting := range settings {
			if err := setting.Err(); err != nil && !IsReply(err) {
				return nil, err
			}
			maps.Copy(f, setting.Val())
		}
		return f, nil
	}
}

// Asked is what a server says of which one it is and what it is for others, at once. What
// is not answered is missing.
func Asked(ctx context.Context, c redis.Cmdable) Facts {
	pipe := c.Pipeline()
	said := ask(ctx, pipe, "server", "replication")
	_, _ = pipe.Exec(ctx)
	f, _ := said()
	return f
}

// ask queues sections of INFO. What it returns reads them: those that were answered, and
// the error of a server that is not there.
func ask(ctx context.Context, pipe redis.Pipeliner, names ...string) func() (Facts, error) {
	sections := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		sections[i] = pipe.Info(ctx, name)
	}
	return func() (f Facts, err error) {
		f = Facts{}
		for _, section := range sections {
			if failed := section.Err(); failed != nil && !IsReply(failed) {
				err = failed
			}
			maps.Copy(f, In(section.Val()))
		}
		return f, err
	}
}

// In are the lines of INFO.
func In(info string) Facts {
	f := Facts{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
	return f
}

// Run is which run of which server it is, empty where it does not say: after a restart
// and after a failover it is another one.
func (f Facts) Run() string {
	if f["run_id"] == "" {
		return ""
	}
	return f["run_id"] + "/" + f["master_replid"]
}

// IsReply reports whether an error is what a server has answered.
func IsReply(err error) bool {
	_, is := ReplyOf(err)
	return is
}

// ReplyOf is the answer of Redis that an error is.
func ReplyOf(err error) (text string, is bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return "", false
	}
	return reply.Error(), true
}

// passing are replies of a server that cannot serve just now, and refusals of one that
// does not let this service in; any other error reply is a fault of ours. A master that
// has just taken another's place has no scripts, and the time of a call can be over
// before it has this one (NOSCRIPT).
var (
	passing = []string{
		"LOADING", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "TRYAGAIN", "MOVED", "ASK", "OOM", "MISCONF", "NOREPLICAS",
		"BUSY", "UNKILLABLE", "NOSCRIPT", "ERR max number of clients",
	}
	elsewhere = []string{"MOVED", "ASK", "CLUSTERDOWN Hash"}
	refusals  = []string{"NOAUTH", "WRONGPASS", "NOPERM", "ERR AUTH", "ERR invalid password", "ERR invalid username-password"}
)

// Passing reports whether an error is the reply of a server that cannot serve just now.
func Passing(err error) bool { return begins(err, passing) }

// Refused reports whether an error is the reply of a server that refuses the user or
// the password.
func Refused(err error) bool { return begins(err, refusals) }

// Elsewhere reports whether an error is the reply of a node of a cluster for a key that
// another one has, or none. A cluster that is down as a whole does not say which.
func Elsewhere(err error) bool { return begins(err, elsewhere) }

func begins(err error, prefixes []string) bool {
	text, _ := ReplyOf(err)
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// Connections tells of new connections.
type Connections struct {
	mu    sync.Mutex
	hooks []func()
}

// Made tells of one.
func (c *Connections) Made() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, hook := range c.hooks {
		hook()
	}
}

// Tell has a function called with every new connection. It must not wait.
func (c *Connections) Tell(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, do)
}
