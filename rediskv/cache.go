package rediskv

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const (
	cacheSize = 100_000
	// cacheFresh is how long an entry is used before it is read again in the
	// background; changes come by push long before.
	cacheFresh = 30 * time.Second
	// cacheRetry keeps an unreachable Redis from being asked by every request.
	cacheRetry = time.Second
)

// cache keeps configuration in process. It may be behind for a moment: the
// commit compares revisions. While Redis cannot be reached, what was last
// known is served.
type cache struct {
	entries *lru.Cache[string, *cached]
	flight  singleflight.Group
	changes atomic.Uint64 // counts the times that something was marked
}

type cached struct {
	org   string
	value any

	mu      sync.Mutex
	until   time.Time // fresh until
	changed bool      // known to be old: read before use
}

func newCache() *cache {
	entries, err := lru.New[string, *cached](cacheSize)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &cache{entries: entries}
}

// forget marks all of some organizations as changed.
func (c *cache) forget(orgs ...string) {
	of := make(map[string]bool, len(orgs))
	for _, org := range orgs {
		of[org] = true
	}
	c.mark(func(org string) bool { return of[org] })
}

// forgetAll marks everything as changed.
func (c *cache) forgetAll() { c.mark(func(string) bool { return true }) }

func (c *cache) mark(changed func(org string) bool) {
	c.changes.Add(1) // first: who reads meanwhile knows that it may have come too early
	for _, e := range c.entries.Values() {
		if changed(e.org) {
			e.mu.Lock()
			e.changed = true
			e.mu.Unlock()
		}
	}
}

// lookup returns an entry, reading it when there is none or when it is known
// to be old. One that is merely aged is returned and read again behind.
func lookup[T any](ctx context.Context, s *Store, org, key string, read func(context.Context) (T, error)) (T, error) {
	c := s.cache
	load := func(ctx context.Context) (T, error) {
		// Who asks after a change does not share the reading of who asked before.
		changes := c.changes.Load()
		v, err, _ := c.flight.Do(key+"@"+strconv.FormatUint(changes, 10), func() (any, error) {
			v, err := read(context.WithoutCancel(ctx))
			if err == nil {
				e := &cached{org: org, value: v, until: s.clock().Add(cacheFresh)}
				c.entries.Add(key, e)
				// What was marked while this was read was marked in vain.
				if c.changes.Load() != changes {
					e.mu.Lock()
					e.changed = true
					e.mu.Unlock()
				}
			}
			return v, err
		})
		t, _ := v.(T)
		return t, err
	}
	e, ok := c.entries.Get(key)
	if !ok {
		return load(ctx)
	}
	known, _ := e.value.(T)
	now := s.clock()
	e.mu.Lock()
	changed, aged := e.changed, now.After(e.until)
	if changed || aged {
		e.until = now.Add(cacheRetry) // others use what is known meanwhile
		e.changed = false
	}
	e.mu.Unlock()
	switch {
	case changed:
		v, err := load(ctx)
		if err == nil {
			return v, nil
		}
		if gone(err) {
			c.entries.Remove(key)
			return v, err
		}
	case aged:
		go func() {
			if _, err := load(context.WithoutCancel(ctx)); gone(err) {
				c.entries.Remove(key)
			}
		}()
	}
	return known, nil
}
