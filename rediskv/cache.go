package rediskv

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const (
	cacheSize = 100_000
	// cacheFresh is after which an entry is read again in the background; pushes come long before.
	cacheFresh = 30 * time.Second
	// cacheRetry keeps an unreachable Redis from being asked by every request.
	cacheRetry = time.Second
)

// Cache keeps configuration in process. It may be behind for a moment: the commit compares
// revisions. While Redis cannot be reached, what was last known is served.
type Cache struct {
	Entries *lru.Cache[Entry, *Cached]
	flight  singleflight.Group
	changes atomic.Uint64 // counts the times that something was marked
	Read    atomic.Uint64 // counts what was begun to be read into it, and again what was
	Lost    atomic.Bool   // everything was, and nobody has looked at what since
	// noticed is told of what is marked, of all where of no organization; it may be nil.
	noticed func(orgs ...string)

	// Unix nanoseconds: what is not marked was current at confirmed; doubtedAt is
	// when Redis last failed to say so, 0 once it has.
	confirmed, doubtedAt atomic.Int64
}

// Entry is a key in the cache. No organization is known yet where it is what is
// looked up.
type Entry struct{ kind, org, id string }

// EntryOf is the key of an object of a kind.
func EntryOf(kind, org, id string) Entry { return Entry{kind, org, id} }

// Cached is an entry with what was read for it.
type Cached struct {
	Org   string
	value any

	Mu      sync.Mutex
	until   time.Time // fresh until
	changed bool      // to be read before use
	Old     bool      // changed since it was read
	asOf    time.Time // known to be current: as it was read, or until it was marked
	failed  time.Time // when it was last to be read, in vain
	near    bool      // it was read from a replica

	hashes map[string]Fields // as they were read, where that is noted
}

func newCache() *Cache {
	entries, err := lru.New[Entry, *Cached](cacheSize)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &Cache{Entries: entries}
}

// Forget marks all of some organizations as changed.
func (c *Cache) Forget(orgs ...string) {
	of := make(map[string]bool, len(orgs))
	for _, org := range orgs {
		of[org] = true
	}
	if c.noticed != nil && len(orgs) > 0 {
		c.noticed(orgs...)
	}
	c.mark(func(org string) bool { return of[org] })
}

// ForgetAll marks everything as changed.
func (c *Cache) ForgetAll() {
	if c.noticed != nil {
		c.noticed()
	}
	c.mark(func(string) bool { return true })
	c.Lost.Store(true)
}

func (c *Cache) mark(changed func(org string) bool) {
	c.changes.Add(1) // first: who reads meanwhile knows that it may have come too early
	for _, e := range c.Entries.Values() {
		if changed(e.Org) {
			e.mark(c.confirmed.Load())
		}
	}
}

// mark notes that an entry has changed since it was last confirmed.
func (e *Cached) mark(confirmed int64) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if !e.Old {
		e.asOf = later(e.asOf, confirmed)
	}
	e.changed, e.Old = true, true
}

func later(t time.Time, nanoseconds int64) time.Time {
	if other := time.Unix(0, nanoseconds); other.After(t) {
		return other
	}
	return t
}

// Confirm notes that what is not marked was current at a moment.
func (c *Cache) Confirm(at time.Time) {
	c.confirmed.Store(at.UnixNano())
	c.doubtedAt.Store(0)
}

// Doubt notes that Redis could not say what is current.
func (c *Cache) Doubt(at time.Time) { c.doubtedAt.Store(at.UnixNano()) }

// Doubted says that Redis failed to answer a moment ago and has said nothing since.
func (c *Cache) Doubted(now time.Time) bool {
	at := c.doubtedAt.Load()
	return at != 0 && now.Sub(time.Unix(0, at)) < cacheRetry
}

// AsOf says when entries were last all known to be current, and whether nothing
// speaks against their being so now.
func (c *Cache) AsOf(keys ...Entry) (at time.Time, current bool) {
	current = true
	confirmed, doubted := c.confirmed.Load(), c.doubtedAt.Load()
	for _, key := range keys {
		e, ok := c.Entries.Peek(key)
		if !ok {
			return time.Time{}, false
		}
		e.Mu.Lock()
		known, old := e.asOf, e.Old
		e.Mu.Unlock()
		if old || (doubted != 0 && known.UnixNano() <= doubted) {
			current = false
		}
		if !old {
			known = later(known, confirmed)
		}
		if at.IsZero() || known.Before(at) {
			at = known
		}
	}
	return at, current
}

// Distrust has entries read before they are used again, but for those that could
// not be read just now.
func (c *Cache) Distrust(now time.Time, keys ...Entry) {
	for _, key := range keys {
		if e, ok := c.Entries.Peek(key); ok {
			e.Mu.Lock()
			e.changed = e.changed || now.Sub(e.failed) >= cacheRetry
			e.Mu.Unlock()
		}
	}
}

// DistrustReplica is Distrust for an entry that was read from a replica, and says
// whether it was.
func (c *Cache) DistrustReplica(now time.Time, key Entry) bool {
	e, ok := c.Entries.Peek(key)
	if ok && e.near {
		c.Distrust(now, key)
	}
	return ok && e.near
}

// Lookup returns an entry, reading it when there is none or when it is known
// to be old. One that is merely aged is returned and read again behind.
func Lookup[T any](ctx context.Context, s *DB, key Entry, read func(context.Context) (T, error)) (T, error) {
	e, ok := s.Cache.Entries.Get(key)
	if !ok {
		return load(ctx, s, key, read)
	}
	known, _ := e.value.(T)
	now := s.Clock()
	e.Mu.Lock()
	aged := now.After(e.until)
	changed := e.changed || (e.Old && aged) || // it could not be read the last time
		(s.silence > 0 && now.Sub(later(e.asOf, s.Cache.confirmed.Load())) > s.silence && now.Sub(e.failed) > cacheRetry)
	if changed || aged {
		if s.IsView() { // for its first contact alone
			e.Mu.Unlock()
			var none T
			return none, errBehind
		}
		e.until = now.Add(cacheRetry) // others use what is known meanwhile
		e.changed = false
	}
	e.Mu.Unlock()
	switch {
	case changed:
		if v, err := reload(ctx, s, key, e, now, read); err == nil || Gone(err) {
			return v, err
		}
	case aged:
		go func(ctx context.Context) { _, _ = reload(ctx, s, key, e, now, read) }(context.WithoutCancel(ctx))
	}
	return known, nil
}

// reload reads an entry again, and notes when that failed.
func reload[T any](ctx context.Context, s *DB, key Entry, e *Cached, now time.Time, read func(context.Context) (T, error)) (T, error) {
	v, err := load(ctx, s, key, read)
	if Gone(err) {
		s.Cache.Entries.Remove(key)
	} else if err != nil {
		e.Mu.Lock()
		e.failed = now
		e.Mu.Unlock()
	}
	return v, err
}

// load reads an entry for all who ask at the same time.
func load[T any](ctx context.Context, s *DB, key Entry, read func(context.Context) (T, error)) (T, error) {
	c := s.Cache
	// Who asks after a change does not share the reading of who asked before.
	changes := c.changes.Load()
	c.Read.Add(1)
	begun := s.Clock()
	from := "@"
	if s.IsView() {
		begun, from = begun.Add(-s.replica.lag()), "@near"
	}
	flight := key.kind + ":" + key.org + ":" + key.id + from + strconv.FormatUint(changes, 10)
	v, err, _ := c.flight.Do(flight, func() (any, error) {
		ctx, r := context.WithoutCancel(ctx), &sources{org: key.org}
		if s.notes || s.IsOffline() {
			ctx = context.WithValue(ctx, sourcesKey{}, r)
		}
		v, err := read(ctx)
		if err == nil {
			e := &Cached{Org: key.org, value: v, until: s.Clock().Add(cacheFresh), asOf: begun, near: s.IsView(), hashes: r.hashes}
			if s.IsOffline() {
				e.asOf = r.asOf
			}
			c.Entries.Add(key, e)
			c.Read.Add(1)
			// What was marked while this was read was marked in vain.
			if c.changes.Load() != changes {
				e.mark(0)
			}
		} else if Away(err) {
			s.Doubt()
		}
		return v, err
	})
	t, _ := v.(T)
	return t, err
}
