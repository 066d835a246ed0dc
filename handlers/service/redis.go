package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/health"
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

// Await is Connect for a process that is started together with its Redis: it waits
// for one that cannot be reached as long as patience is. A refusal is not waited
// out.
func Await(ctx context.Context, o rediskv.Options, patience time.Duration) (*store.Store, error) {
	deadline := o.Clock().Add(patience)
	pause := 200 * time.Millisecond
	for {
		store, err := Connect(ctx, o)
		if err == nil {
			return store, nil
		}
		e, ok := errors.AsType[*tollgate.Error](err)
		away := ok && e.Code == tollgate.CodeStoreUnavailable
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case away && errors.Is(err, rediskv.ErrRefused):
			return nil, e.Cause
		case !away:
			return nil, fmt.Errorf("redis: %w", err)
		case !o.Clock().Add(pause).Before(deadline):
			return nil, fmt.Errorf("redis cannot be reached: %w", err)
		}
		o.Log.Warn("redis cannot be reached, waiting", "error", err, "next_in", pause.String())
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 2*time.Second)
	}
}

// Inspect says what Redis promises about what is kept in it, and refuses one that
// would throw payments away. What else is wrong with it the store writes down.
func Inspect(ctx context.Context, store *store.Store, log *slog.Logger) (health.Guarantees, error) {
	g, err := store.Inspect(ctx)
	if err != nil {
		return g, err
	}
	return g, judge(g, store.Partitions(), log)
}

func judge(g health.Guarantees, partitions int, log *slog.Logger) error {
	log.Info("redis", "version", g.Version, "mode", g.Mode, "aof", g.AOF, "appendfsync", g.Fsync,
		"maxmemory_policy", g.EvictionPolicy, "masters", g.Masters, "replicas", g.Replicas, "partitions", partitions)
	if g.Evicts() {
		return fmt.Errorf("redis has maxmemory-policy %s and would evict payments: set it to noeviction", g.EvictionPolicy)
	}
	return nil
}
