// Package agenda says what falls due next in every partition, and hears when
// something falls due sooner.
package agenda

import (
	"context"
	"embed"
	"fmt"
	"strconv"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

//go:embed lua/*.lua
var lua embed.FS

// Kind is something that falls due.
type Kind int

// The kinds, each in its queue of the partition. Jobs and Exports are due as soon as
// there is one. Unfinished are entries of the dispatch stream that are in a worker's
// hands, which may be dead.
const (
	Payments Kind = iota
	Cutoffs
	Payouts
	Activations
	Jobs
	Deliveries
	Exports
	Unfinished
	Kinds int = iota
)

// Never is when nothing falls due.
const Never tollgate.Instant = 1<<63 - 1

// Next is when the first of each kind falls due, Never where nothing is.
type Next [Kinds]tollgate.Instant

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db    *rediskv.DB
	queue map[string]place // by the queue's key
}

// place is a kind in a partition.
type place struct {
	kind      Kind
	partition int
}

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	s := &Store{db: db, queue: make(map[string]place)}
	for p := range db.Partitions() {
		k := keysOf(p)
		for kind, key := range []string{k.Due, k.Cutoffs, k.Payouts, k.Activations, k.Jobs, k.Ready, k.Exports} {
			s.queue[key] = place{Kind(kind), p}
		}
	}
	return s
}

type upcomingKeys struct{ Organizations, Due, Cutoffs, Payouts, Activations, Jobs, Ready, Exports, Dispatch string }

type upcomingArgs struct{ Group string }

var scriptUpcoming = script.NewRead[upcomingKeys, upcomingArgs](lua, "upcoming")

func keysOf(p int) upcomingKeys {
	return upcomingKeys{
		rediskv.OrganizationsKey(p), rediskv.DueKey(p), rediskv.CutoffsKey(p), rediskv.PayoutsKey(p), rediskv.ScheduleKey(p), rediskv.JobsKey(p), rediskv.ReadyKey(p),
		rediskv.ExportsKey(p), rediskv.DispatchKey(p),
	}
}

// Upcoming reads when the first of each kind falls due in a partition, and whether it is
// vacant: it has no organizations.
func (s *Store) Upcoming(ctx context.Context, partition int) (next Next, vacant bool, err error) {
	_, found, err := s.db.RunOn(ctx, s.db.Batched, scriptUpcoming.With(keysOf(partition), upcomingArgs{rediskv.DispatchGroup}))
	if err != nil {
		return next, false, err
	}
	if len(found) != Kinds+1 {
		return next, false, fmt.Errorf("redis upcoming: %d kinds", len(found))
	}
	for kind := range next {
		next[kind] = Never
		switch one := found[kind].(type) {
		case int64:
			if one > 0 {
				next[kind] = 0
			}
		case string:
			if score, err := strconv.ParseFloat(one, 64); err == nil && one != "" {
				next[kind] = tollgate.Instant(score)
			}
		}
	}
	return next, found[Kinds] == int64(0), nil
}

// Listen calls sooner when something of a kind may fall due sooner than it was read,
// and missed where that may have gone unheard: at the start, and after a lost
// connection. It returns when ctx ends.
func (s *Store) Listen(ctx context.Context, sooner func(Kind, int), missed func()) {
	s.db.Subscribe(ctx, func(_, queue string) {
		if at, ok := s.queue[queue]; ok {
			sooner(at.kind, at.partition)
		}
	}, missed, rediskv.WorkChannel)
}

// AskForHelp tells all workers that more deliveries of a partition are due than this
// one has room for.
func (s *Store) AskForHelp(ctx context.Context, partition int) error {
	return s.db.Timed(ctx, "ask_for_help", func(ctx context.Context) error {
		return s.db.Redis.Publish(ctx, rediskv.WorkChannel, rediskv.ReadyKey(partition)).Err()
	})
}
