package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/rediskv"
	"tollgate/rediskv/store"
	"tollgate/wasm"
)

// Connect opens the store that knows the rules of this program.
func Connect(ctx context.Context, o rediskv.Options) (*store.Store, error) {
	var err error
	if o.Rules, err = wasm.BuiltinRefs(); err != nil {
		return nil, err
	}
	return store.Open(ctx, o)
}

// OpenStore connects to Redis and, for a process that is started together
// with it, waits for it a while. A refusal is not waited out.
func OpenStore(ctx context.Context, o rediskv.Options, patience time.Duration, log *slog.Logger) (*store.Store, error) {
	deadline := time.Now().Add(patience)
	pause := 200 * time.Millisecond
	for {
		store, err := Connect(ctx, o)
		if err == nil {
			return store, nil
		}
		var e *tollgate.Error
		away := errors.As(err, &e) && e.Code == tollgate.CodeStoreUnavailable
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case away && errors.Is(err, rediskv.ErrRefused):
			return nil, cli.UsageError(e.Cause)
		case !away:
			return nil, cli.UsageError(fmt.Errorf("redis: %w", err))
		case !time.Now().Add(pause).Before(deadline):
			return nil, cli.UnavailableError(fmt.Errorf("redis cannot be reached: %w", err))
		}
		log.Warn("redis cannot be reached, waiting", "error", err, "next_in", pause.String())
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// Inspect says what Redis promises about what is kept in it, and refuses one
// that would throw payments away.
func Inspect(ctx context.Context, store *store.Store, log *slog.Logger) (rediskv.Guarantees, error) {
	g, err := store.Inspect(ctx)
	if err != nil {
		return g, err
	}
	return g, judge(g, store.Partitions(), log)
}

func judge(g rediskv.Guarantees, partitions int, log *slog.Logger) error {
	log.Info("redis", "version", g.Version, "mode", g.Mode, "aof", g.AOF, "appendfsync", g.Fsync,
		"maxmemory_policy", g.EvictionPolicy, "masters", g.Masters, "replicas", g.Replicas, "partitions", partitions)
	if g.Evicts() {
		return cli.UsageError(fmt.Errorf("redis has maxmemory-policy %s and would evict payments: set it to noeviction", g.EvictionPolicy))
	}
	if g.EvictionPolicy == "" {
		log.Warn("redis does not say its maxmemory-policy; make sure that it is noeviction")
	}
	switch {
	case !g.AOF:
		log.Warn("redis keeps no append-only file: what is acknowledged is lost when it stops (appendonly yes)")
	case g.Fsync != "always":
		// Redis answers while the background thread still writes: up to two
		// seconds of answers are only in its memory when the disk is slow.
		log.Warn("a crash of Redis or a power cut can lose up to two seconds of what was acknowledged (appendfsync " + g.Fsync + "; always loses nothing)")
	}
	return nil
}
