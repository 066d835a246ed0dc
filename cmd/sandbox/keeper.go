package sandbox

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"tollgate"
	"tollgate/handlers/problem"
)

// Keeper keeps what changes in a Redis before anybody is told of it.
type Keeper struct {
	Redis *Redis
	// Write keeps changes after those that were kept before, or whole, in place of
	// them. When it returns they stay, whatever happens; after an error what was
	// kept before is still there.
	Write func(ctx context.Context, changes []byte, whole bool) error
	// RewriteFrom is how large what is kept grows at least before everything is kept
	// anew, as it is; 0: 4 MiB.
	RewriteFrom int

	mu       sync.Mutex
	size     int  // of what is kept
	smallest int  // of what everything was, the last time it was kept whole
	failed   bool // the last time; so everything has to be kept anew
}

// keepEvery is how often is kept what nobody waits for.
const keepEvery = 10 * time.Second

// Load makes Redis what was kept: pieces, the oldest first. Times to live pass as if
// it had run all the time.
func (k *Keeper) Load(pieces ...[]byte) error {
	var last time.Time
	for _, p := range pieces {
		at, err := k.Redis.Replay(p)
		if err != nil {
			return err
		}
		last = at
		k.size += len(p)
	}
	if by := k.Redis.clock().Sub(last); !last.IsZero() && by > 0 {
		k.Redis.FastForward(by)
	}
	return nil
}

// Keep returns when everything that has changed until now is kept.
func (k *Keeper) Keep(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	whole := k.failed || k.size > max(cmp.Or(k.RewriteFrom, 4<<20), 2*k.smallest)
	var changes []byte
	if whole {
		var err error
		if changes, err = k.Redis.Rewritten(); err != nil {
			return err
		}
	} else if changes = k.Redis.Changes(); changes == nil {
		return nil
	}
	k.failed = true
	if err := k.Write(context.WithoutCancel(ctx), changes, whole); err != nil {
		return err
	}
	k.failed = false
	if k.size += len(changes); whole {
		k.size, k.smallest = len(changes), len(changes)
	}
	return nil
}

// Run keeps what changes beside requests, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	every := time.NewTicker(keepEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			_ = k.Keep(ctx) // the next answer says so
		}
	}
}

// Handler answers as next does, once everything is kept that an answer may tell of.
// What cannot be kept is answered with 503.
func (k *Keeper) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := &keptAnswer{ResponseWriter: w, keeper: k, ctx: r.Context()}
		next.ServeHTTP(kept, r)
		kept.WriteHeader(http.StatusOK)
	})
}

type keptAnswer struct {
	http.ResponseWriter
	keeper *Keeper
	ctx    context.Context
	begun  bool
	failed bool
}

// WriteHeader begins the answer, or another.
func (w *keptAnswer) WriteHeader(status int) {
	if w.begun {
		return
	}
	w.begun = true
	err := w.keeper.Keep(w.ctx)
	if err == nil {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.failed = true
	header := w.Header()
	id := header.Get("Request-Id")
	clear(header)
	answer := problem.Of(&tollgate.Error{
		Code: tollgate.CodeStoreUnavailable, Cause: err,
		Message: "The sandbox cannot keep what has changed: " + err.Error() + ". The change may have been made. Make room, then send the request again with the same key.",
	}, id)
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Set("Retry-After", "1")
	header.Set("Request-Id", id)
	w.ResponseWriter.WriteHeader(answer.Status)
	_, _ = w.ResponseWriter.Write(answer.Body)
}

// Write is part of the answer, unless it is another.
func (w *keptAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.failed {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}
