package rediskv

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Facts are what a server says of itself: the lines of INFO and settings, by their
// names. One that is missing was not said: an embedded server knows few, and a
// managed one does not let us ask for its settings.
type Facts map[string]string

// AskFacts queues the questions. What it returns reads the answers.
func AskFacts(ctx context.Context, pipe redis.Pipeliner) func() (Facts, error) {
	var sections []*redis.StringCmd
	for _, section := range []string{"server", "persistence", "replication", "memory"} {
		sections = append(sections, pipe.Info(ctx, section))
	}
	var settings []*redis.MapStringStringCmd
	for _, name := range []string{"appendfsync", "aof-load-truncated"} { // two names at once are for Redis 7
		settings = append(settings, pipe.ConfigGet(ctx, name))
	}
	return func() (Facts, error) {
		f := Facts{}
		for _, section := range sections {
			text, err := section.Result()
			if err != nil && !IsReply(err) {
				return nil, err
			}
			maps.Copy(f, FactsIn(text))
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

// FactsIn are the lines of INFO.
func FactsIn(info string) Facts {
	f := Facts{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[name] = value
		}
	}
	return f
}

// Greeted is what a single server said when the Store was opened; nil of a cluster.
func (s *DB) Greeted() Facts { return s.facts }

// Masters are all servers that take writes, by their address; a single one whatever
// it takes. do is called for several at once.
func (s *DB) Masters(ctx context.Context, do func(ctx context.Context, address string, master *redis.Client) error) error {
	switch c := s.Redis.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return do(ctx, master.Options().Addr, master)
		})
	case *redis.Client:
		return do(ctx, c.Options().Addr, c)
	}
	return nil
}

// connections tells of new connections.
type connections struct {
	mu    sync.Mutex
	hooks []func()
}

// made is a redis.Options.OnConnect.
func (c *connections) made(context.Context, *redis.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, hook := range c.hooks {
		hook()
	}
	return nil
}

// OnReconnect has a function called with every new connection to Redis: after a cut, a
// restart or a failover there is one before the next answer. There are others, as when
// more is asked at once, so whoever is called looks whether anything has changed. It
// must not wait.
func (s *DB) OnReconnect(do func()) {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	s.connections.hooks = append(s.connections.hooks, do)
}
