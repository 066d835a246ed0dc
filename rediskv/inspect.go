package rediskv

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Guarantees is what a Redis promises about the data in it.
type Guarantees struct {
	Version        string
	Mode           string // standalone, sentinel or cluster
	AOF            bool
	Fsync          string // always, everysec or no; empty when it does not say
	EvictionPolicy string // empty when it does not say
	Masters        int
	Replicas       int // of all masters
}

// Evicts reports whether Redis may throw payments away to make room.
func (g Guarantees) Evicts() bool {
	return g.EvictionPolicy != "" && g.EvictionPolicy != "noeviction"
}

// Inspect asks every master; where they differ, the weakest promise counts. A single
// server has said it when the Store was opened.
func (s *DB) Inspect(ctx context.Context) (g Guarantees, err error) {
	cluster, ok := s.Redis.(*redis.ClusterClient)
	if !ok {
		return *s.guarantees, nil
	}
	err = s.Timed(ctx, "inspect", func(ctx context.Context) error {
		nodes := make(chan *redis.Client, maxPartitions)
		if err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
			nodes <- c
			return nil
		}); err != nil {
			return err
		}
		close(nodes)
		for c := range nodes {
			pipe := c.Pipeline()
			asked := askGuarantees(ctx, pipe)
			if _, err := pipe.Exec(ctx); err != nil && !IsReply(err) {
				return err
			}
			if err := g.add(asked); err != nil {
				return err
			}
		}
		return nil
	})
	return g, err
}

// guaranteesAsked are questions to a server: INFO by section, and CONFIG.
type guaranteesAsked struct {
	sections []*redis.StringCmd
	fsync    *redis.MapStringStringCmd
}

func askGuarantees(ctx context.Context, pipe redis.Pipeliner) (asked guaranteesAsked) {
	for _, section := range []string{"server", "persistence", "replication", "memory"} {
		asked.sections = append(asked.sections, pipe.Info(ctx, section))
	}
	asked.fsync = pipe.ConfigGet(ctx, "appendfsync")
	return asked
}

// add takes the answers of a server. An embedded one knows few sections, and a managed
// one does not let us ask for its settings.
func (g *Guarantees) add(asked guaranteesAsked) error {
	info := map[string]string{}
	for _, section := range asked.sections {
		text, err := section.Result()
		if err != nil && !IsReply(err) {
			return err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				info[name] = value
			}
		}
	}
	if err := asked.fsync.Err(); err != nil && !IsReply(err) {
		return err
	}
	fsync := asked.fsync.Val()["appendfsync"]
	g.Version, g.Mode, g.Fsync = info["redis_version"], info["redis_mode"], fsync
	if policy := info["maxmemory_policy"]; g.EvictionPolicy == "" || g.EvictionPolicy == "noeviction" {
		g.EvictionPolicy = policy
	}
	g.AOF = info["aof_enabled"] == "1" && (g.Masters == 0 || g.AOF)
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	g.Replicas += replicas
	g.Masters++
	return nil
}

// OnceSecret keeps the first candidate under a name and returns what is kept.
// It is for the sandbox, which has to be the same client the next time; a real
// deployment keeps secrets outside of Redis.
func (s *DB) OnceSecret(ctx context.Context, name string, candidate []byte) (kept []byte, err error) {
	return s.once(ctx, sandboxKey, name, candidate)
}

func (s *DB) once(ctx context.Context, key, name string, candidate []byte) (kept []byte, err error) {
	err = s.Timed(ctx, "once_secret", func(ctx context.Context) error {
		pipe := s.Redis.Pipeline()
		pipe.HSetNX(ctx, key, name, candidate)
		is := pipe.HGet(ctx, key, name)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		var err error
		kept, err = is.Bytes()
		return err
	})
	return kept, err
}

// OnceSealed keeps the first seal that a process makes with its secret key, and
// returns what is kept: who cannot open that has another key than the others.
func (s *DB) OnceSealed(ctx context.Context, candidate []byte) (kept []byte, err error) {
	if s.seal != "" {
		return []byte(s.seal), nil
	}
	kept, err = s.once(ctx, metaKey, "seal", candidate)
	s.seal = string(kept)
	return kept, err
}

// SandboxClock is how far the sandbox of this Redis is ahead of real time, in
// milliseconds.
func (s *DB) SandboxClock(ctx context.Context) (ahead int64, err error) {
	err = s.Timed(ctx, "sandbox_clock", func(ctx context.Context) error {
		var err error
		if ahead, err = s.Redis.HGet(ctx, sandboxKey, "ahead").Int64(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return ahead, err
}

// KeepSandboxClock remembers how far the sandbox is ahead.
func (s *DB) KeepSandboxClock(ctx context.Context, ahead int64) error {
	return s.Timed(ctx, "keep_sandbox_clock", func(ctx context.Context) error {
		return s.Redis.HSet(ctx, sandboxKey, "ahead", ahead).Err()
	})
}
