package rediskv

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/history"
	"tollgate/rediskv/peer"
)

// Keeper has kept what an earlier process read (package snapshot).
type Keeper interface {
	// Hash is one of configuration, and when it was last known to be current.
	Hash(key string) (f Fields, asOf time.Time, ok bool)
	// Module is that of a published rule.
	Module(sha256 string) (module []byte, ok bool)
}

var errAway = errors.New("it was away when this process started")

// Offline is a DB for a process that starts while Redis is away. It reads accounts,
// grants and rules from a Keeper; everything else is store_unavailable. partitions and
// seal are as they were recorded in that Redis.
func Offline(o Options, kept Keeper, partitions int, seal string) (*DB, error) {
	o.URL, o.Replica = "redis://away.invalid", ""
	o.connections = new(peer.Connections)
	o.histories = &history.Watch{Book: history.NewBook(historyKeys(partitions))}
	o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errAway }
	own, _, err := redisOptions(o, 0, cmp.Or(o.Timeout, OperationTimeout))
	if err != nil {
		return nil, err
	}
	own.MaxRetries, own.DialerRetries = -1, 1
	s, err := newDB(o, clients{redis.NewClient(own), redis.NewClient(own), redis.NewClient(own)})
	if err != nil {
		return nil, err
	}
	s.kept, s.spaces = kept, spacesOf(partitions)
	s.Sealed(seal)
	s.Doubt()
	return s, nil
}

// IsOffline says that this is what Offline has made.
func (s *DB) IsOffline() bool { return s.kept != nil }

// KeptHash is what is kept at a key.
func (s *DB) KeptHash(ctx context.Context, operation, key string) (Fields, error) {
	f, asOf, ok := s.kept.Hash(key)
	if !ok {
		return nil, StoreUnavailable(operation, errAway)
	}
	if r := sourcesOf(ctx); r != nil && (r.asOf.IsZero() || asOf.Before(r.asOf)) {
		r.asOf = asOf
	}
	return f, nil
}

// KeptModule is the module of a published rule that is kept.
func (s *DB) KeptModule(sha256 string) ([]byte, error) {
	if module, ok := s.kept.Module(sha256); ok {
		return module, nil
	}
	return nil, StoreUnavailable("read_module", errAway)
}

// keptHashes is Hashes.
func (s *DB) keptHashes(ctx context.Context, operation string, keys []string) ([]Fields, error) {
	found := make([]Fields, len(keys))
	for i, key := range keys {
		f, err := s.KeptHash(ctx, operation, key)
		if err != nil {
			return nil, err
		}
		found[i] = f
	}
	return found, nil
}

// sources are what was read for an entry of an organization: hashes, where they are
// noted to be kept, and of kept ones since when nobody knows whether they are current.
type sources struct {
	org    string
	hashes map[string]Fields
	asOf   time.Time
}

type sourcesKey struct{}

func sourcesOf(ctx context.Context) *sources {
	r, _ := ctx.Value(sourcesKey{}).(*sources)
	return r
}

// Note has a hash kept together with the entry of the cache for which it was read. Many
// entries share what their organization's has.
func (s *DB) Note(ctx context.Context, key string, f Fields) {
	r := sourcesOf(ctx)
	if r == nil || !s.notes {
		return
	}
	if e, ok := s.Cache.Entries.Peek(EntryOf("organization", r.org, "")); ok && maps.Equal(e.hashes[key], f) {
		f = e.hashes[key]
	}
	if r.hashes == nil {
		r.hashes = make(map[string]Fields)
	}
	r.hashes[key] = f
}

// Noted is what was noted of an object of configuration.
type Noted struct {
	Kind, Organization, ID string
	Hashes                 map[string]Fields
	// AsOf is when it was last known to be current, where something speaks against its
	// being so at Confirmed; else 0.
	AsOf tollgate.Instant
}

// EachNoted hands over what has been noted of the configuration in the cache.
func (s *DB) EachNoted(each func(Noted)) {
	for _, key := range s.Cache.Entries.Keys() {
		e, ok := s.Cache.Entries.Peek(key)
		if !ok || e.hashes == nil {
			continue
		}
		n := Noted{Kind: key.kind, Organization: key.org, ID: key.id, Hashes: e.hashes}
		e.Mu.Lock()
		if e.Old {
			n.AsOf = tollgate.At(e.asOf)
		}
		e.Mu.Unlock()
		each(n)
	}
}

// Confirmed is when the configuration in the cache was last known to be current, but
// for what is known not to be.
func (s *DB) Confirmed() time.Time { return time.Unix(0, s.Cache.confirmed.Load()) }
