package rediskv

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/history"
	"tollgate/rediskv/script"
)

// greeting is what a Redis says when a Store opens.
type greeting struct {
	cluster bool
	meta    map[string]string // the hash metaKey
	scripts []bool            // which of all scripts it has
	facts   Facts
	server  string // as history.ServerIn has it
}

// greet asks a server, in one round trip, all that is to be known of it, and records
// the number of partitions where none is. Of a node of a cluster only that it is one
// counts.
func greet(ctx context.Context, c *redis.Client, partitions int) (said greeting, err error) {
	pipe := c.Pipeline()
	info := pipe.Info(ctx, "cluster")
	recorded, meta := pipe.HSetNX(ctx, metaKey, "partitions", partitions), pipe.HGetAll(ctx, metaKey)
	hashes := make([]string, len(script.All()))
	for i, one := range script.All() {
		hashes[i] = one.Hash()
	}
	scripts := pipe.ScriptExists(ctx, hashes...)
	facts := AskFacts(ctx, pipe)
	// Whoever is not let in gets no answer to any of it.
	if _, err := pipe.Exec(ctx); err != nil && (!IsReply(err) || info.Val() == "" && len(meta.Val()) == 0) {
		return said, Unavailable("connect", err)
	}
	if said.cluster = strings.Contains(info.Val(), "cluster_enabled:1"); said.cluster {
		return said, nil
	}
	if err := errors.Join(recorded.Err(), meta.Err()); err != nil {
		return said, Unavailable("partitions", err)
	}
	said.meta, said.scripts = meta.Val(), scripts.Val()
	said.facts, err = facts()
	said.server = history.ServerIn(said.facts)
	return said, Unavailable("inspect", err)
}

// meet is greet for a cluster, whose scripts are loaded and whose facts are asked
// node by node. It is no batch: with the first single command go-redis asks any node
// what commands there are, and that may be one that hangs by the time of a request.
func (s *DB) meet(ctx context.Context, partitions int) (said greeting, err error) {
	err = s.Timed(ctx, "partitions", func(ctx context.Context) error {
		if err := s.Redis.HSetNX(ctx, metaKey, "partitions", partitions).Err(); err != nil {
			return err
		}
		said.meta, err = s.Redis.HGetAll(ctx, metaKey).Result()
		return err
	})
	return said, err
}
