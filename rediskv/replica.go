package rediskv

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/peer"
)

const (
	// DefaultMaxLag is how far a replica may be behind to be read, and for how long
	// the primary is asked about an organization that has just changed.
	DefaultMaxLag = 5 * time.Second
	// beatEvery is how often the heartbeat is written and looked for.
	beatEvery = time.Second
	// beatLifetime is after how long without replicas nothing is left of it.
	beatLifetime = time.Hour
	// replicaOrgs bounds the organizations of which it is known what the replica
	// must have.
	replicaOrgs = 100_000
)

// replica is a copy of Redis nearby that answers reads. It may be behind, and what
// it says is never waited for or guessed: where it may not know yet, the primary
// is asked.
type replica struct {
	view   *DB // reads from the replica, and writes to the primary
	maxLag time.Duration
	now    func() time.Time

	mu      sync.Mutex
	primary time.Time // the primary's clock at
	asked   time.Time // this moment of ours, or a little earlier
	beat    time.Time // by the primary's clock, as the replica has it; zero: it does not answer
	every   time.Time // when it was last noticed that anything may have changed

	needed  *lru.Cache[string, int64]     // by organization: the revision of what this process acknowledged
	changed *lru.Cache[string, time.Time] // by organization: when a change of it was last noticed
}

// errBehind says that a replica may not know it yet.
var errBehind = errors.New("the replica may be behind")

// addReplica connects to the replica of the URL, which need not answer yet.
func (s *DB) addReplica(ctx context.Context, o Options) error {
	o.URL, o.connections = o.Replica, new(peer.Connections) // of no interest: it is looked at once a second
	o.histories = nil                                       // what a replica has not yet is no loss
	own, others, err := redisOptions(o, o.Pool, s.Timeout)
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	if _, ok := s.Redis.(*redis.ClusterClient); ok || len(others) > 0 {
		return errors.New("replica: a cluster's replicas are not read; leave the replica's URL out")
	}
	needed, err := lru.New[string, int64](replicaOrgs)
	if err != nil {
		return err
	}
	changed, err := lru.New[string, time.Time](replicaOrgs)
	if err != nil {
		return err
	}
	client := redis.NewClient(own)
	view := &DB{
		Redis: client, Blocking: s.Blocking, Batched: client, primary: s, deadTries: s.deadTries, spaces: s.spaces,
		Timeout: s.Timeout, ExportBytes: s.ExportBytes, Clock: s.Clock, observe: s.observe, trace: s.trace, Log: s.Log, Cache: s.Cache,
		told: s.told, notes: s.notes, onDamage: s.onDamage, OnHeld: s.OnHeld, News: s.News, Builtin: s.Builtin, mint: s.mint,
		Histories: s.Histories,
	}
	s.replica = &replica{view: view, maxLag: o.MaxLag, now: s.Clock, needed: needed, changed: changed}
	view.replica = s.replica
	if s.replica.maxLag == 0 {
		s.replica.maxLag = DefaultMaxLag
	}
	s.Cache.noticed = s.replica.notice
	if err := loadInto(ctx, view, client, nil); err != nil {
		s.Log.Warn("the replica does not answer; reads go to the primary", "error", err)
	}
	return nil
}

// Near says whether an organization may be read from the replica: it has all that was
// changed up to a revision and all that this process has acknowledged, and was not too
// far behind a moment ago. Else the primary is to be asked.
func (s *DB) Near(ctx context.Context, org string, least int64) bool {
	r := s.replica
	if r == nil || !r.usable(org) {
		return false
	}
	needed, _ := r.needed.Get(org)
	if least = max(least, needed); least > 0 {
		var has int64
		err := r.view.Timed(ctx, "replica_revision", func(ctx context.Context) (err error) {
			has, err = r.view.Redis.HGet(ctx, s.Space(org).Sequences(), "event").Int64()
			return err
		})
		if err != nil || has < least {
			return false
		}
		r.has(org, has)
	}
	return true
}

// View reads from the replica; nil where there is none. Whether it may be read is
// what Near says.
func (s *DB) View() *DB {
	if s.replica == nil {
		return nil
	}
	return s.replica.view
}

// IsView says that this is what reads from the replica.
func (s *DB) IsView() bool { return s.primary != nil }

// Doubt notes that Redis failed to answer, unless it was the replica.
func (s *DB) Doubt() {
	if !s.IsView() {
		s.Cache.Doubt(s.Clock())
	}
}

// Doubted says that what this reads from failed to answer a moment ago, and has said
// nothing since. Of the replica Near knows it.
func (s *DB) Doubted() bool { return !s.IsView() && s.Cache.Doubted(s.Clock()) }

// FollowReplica has the primary write a heartbeat and looks for it on the replica,
// until ctx ends.
func (s *DB) FollowReplica(ctx context.Context) {
	if s.replica == nil {
		return
	}
	tick := time.NewTicker(min(beatEvery, s.replica.maxLag/2))
	defer tick.Stop()
	for {
		s.replica.look(ctx, s)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks both: the primary what time it is, which it then writes, and the replica
// what time it has.
func (r *replica) look(ctx context.Context, primary *DB) {
	asked := r.now()
	_ = primary.Timed(ctx, "heartbeat", func(ctx context.Context) error { // without one the replica is not read for long
		now, err := primary.Redis.Time(ctx).Result()
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.primary, r.asked = now, asked
		r.mu.Unlock()
		return primary.Redis.Set(ctx, HeartbeatKey, now.UnixMilli(), beatLifetime).Err()
	})
	var milli int64
	err := r.view.Timed(ctx, "replica_heartbeat", func(ctx context.Context) (err error) {
		milli, err = r.view.Redis.Get(ctx, HeartbeatKey).Int64()
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beat = time.UnixMilli(milli); err != nil {
		r.beat = time.Time{}
	}
}

// usable says whether the replica may be read for an organization.
func (r *replica) usable(org string) bool {
	r.mu.Lock()
	every := r.every
	r.mu.Unlock()
	changed, _ := r.changed.Get(org)
	now := r.now()
	return now.Sub(changed) > r.maxLag && now.Sub(every) > r.maxLag && r.lag() <= r.maxLag
}

// unknownLag is that of a replica which does not answer.
const unknownLag = time.Duration(1<<63 - 1)

// ReplicaLag is how far the replica is behind, at most, in seconds: +Inf where it does
// not answer. It is false where there is no replica.
func (s *DB) ReplicaLag() (seconds float64, configured bool) {
	if s.replica == nil {
		return 0, false
	}
	if lag := s.replica.lag(); lag != unknownLag {
		return lag.Seconds(), true
	}
	return math.Inf(1), true
}

// lag is how far the replica is behind, at most.
func (r *replica) lag() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beat.IsZero() || r.primary.IsZero() {
		return unknownLag
	}
	return r.primary.Add(r.now().Sub(r.asked)).Sub(r.beat)
}

// lost notes that the replica does not answer.
func (r *replica) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat = time.Time{}
}

// acknowledged notes that this process has told of a revision.
func (r *replica) acknowledged(org string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if has, _ := r.needed.Get(org); has < revision {
		r.needed.Add(org, revision)
	}
}

// has notes what the replica has: all that was needed of it.
func (r *replica) has(org string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if needed, _ := r.needed.Get(org); needed <= revision {
		r.needed.Remove(org)
	}
}

// notice notes that organizations have changed: all, where none is named.
func (r *replica) notice(orgs ...string) {
	now := r.now()
	for _, org := range orgs {
		r.changed.Add(org, now)
	}
	if len(orgs) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.every = now
	}
}
