package rediskv

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// greeting is what a Redis says when a Store opens.
type greeting struct {
	cluster bool
	meta    map[string]string // the hash MetaKey
	scripts []bool            // which of all scripts it has
	facts   peer.Facts
	begun   bool // each of its partitions has a history
	keyring *string
}

// firstUse records what cannot change, or only one way, where nothing is recorded.
const firstUse = `if redis.call('HSETNX', KEYS[1], 'partitions', ARGV[1]) == 1 then redis.call('HSET', KEYS[1], 'layout', ARGV[2]) end return 1`

// greet asks a server, in one round trip, all that is to be known of it, and records
// the number of partitions where none is. Of a node of a cluster only that it is one
// counts.
func greet(ctx context.Context, c *redis.Client, o Options, partitions int) (said greeting, err error) {
	pipe := c.Pipeline()
	info := pipe.Info(ctx, "cluster")
	recorded, meta := pipe.Eval(ctx, firstUse, []string{MetaKey}, partitions, int(Dense)), pipe.HGetAll(ctx, MetaKey)
	hashes := make([]string, len(script.All()))
	for i, one := range script.All() {
		hashes[i] = one.Hash()
	}
	scripts := pipe.ScriptExists(ctx, hashes...)
	facts := peer.Ask(ctx, pipe)
	keyring := pipe.Get(ctx, KeyringKey)
	begun := o.histories.Ask(ctx, pipe, historyKeys(partitions))
	// Whoever is not let in gets no answer to any of it.
	if _, err := pipe.Exec(ctx); err != nil && (!peer.IsReply(err) || info.Val() == "" && len(meta.Val()) == 0) {
		return said, Unavailable("connect", err)
	}
	if said.cluster = strings.Contains(info.Val(), "cluster_enabled:1"); said.cluster {
		return said, nil
	}
	if err := errors.Join(recorded.Err(), meta.Err()); err != nil {
		return said, Unavailable("partitions", err)
	}
	said.meta, said.scripts = meta.Val(), scripts.Val()
	if err := keyring.Err(); err == nil || errors.Is(err, redis.Nil) {
		said.keyring = new(keyring.Val())
	}
	said.facts, err = facts()
	said.begun = begun() && said.meta["partitions"] == strconv.Itoa(partitions)
	return said, Unavailable("inspect", err)
}

// meet is greet for a cluster, whose scripts are loaded and whose facts are asked
// node by node. It is no batch: with the first single command go-redis asks any node
// what commands there are, and that may be one that hangs by the time of a request.
func (s *DB) meet(ctx context.Context, partitions int) (said greeting, err error) {
	err = s.Timed(ctx, "partitions", func(ctx context.Context) error {
		if err := s.Redis.Eval(ctx, firstUse, []string{MetaKey}, partitions, int(Dense)).Err(); err != nil {
			return err
		}
		said.meta, err = s.Redis.HGetAll(ctx, MetaKey).Result()
		return err
	})
	return said, err
}

// GreetedKeyring is the text of the keyring as a single server had it when the Store was
// opened; nil of a cluster.
func (s *DB) GreetedKeyring() *string { return s.keyring }

// Greeted is what a single server said when the Store was opened; nil of a cluster.
func (s *DB) Greeted() peer.Facts { return s.facts }

// Masters are all servers that take writes, by their address; a single one whatever
// it takes. do is called for several at once.
func (s *DB) Masters(ctx context.Context, do func(ctx context.Context, address string, master peer.Client) error) error {
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

// Clustered says that keys are on several servers.
func (s *DB) Clustered() bool { return s.clustered }

// Master is the server that takes writes of a key, and its address. A cluster is asked
// who that is where it is not known.
func (s *DB) Master(ctx context.Context, key string) (address string, master peer.Client, err error) {
	single, ok := s.Redis.(*redis.Client)
	if !ok {
		err = s.Timed(ctx, "find_master", func(ctx context.Context) (err error) {
			single, err = s.Redis.(*redis.ClusterClient).MasterForKey(ctx, key)
			return err
		})
	}
	if err != nil {
		return "", nil, err
	}
	return single.Options().Addr, single, nil
}

// OnReconnect has a function called with every new connection to Redis: after a cut, a
// restart or a failover there is one before the next answer. There are others, as when
// more is asked at once, so whoever is called looks whether anything has changed. It
// must not wait.
func (s *DB) OnReconnect(do func()) { s.connections.Tell(do) }
