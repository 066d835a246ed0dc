package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// changesCount is the member that counts, beside the organizations.
const changesCount = "count"

// instanceLifetime is for how long an instance that says nothing more counts.
const instanceLifetime = 10 * time.Second

// Instance is what an instance of the API says of itself. Modules are those of
// activations that are still to come, without those that it has yet to load, and
// those in force that it cannot load.
type Instance struct {
	ID      string           `json:"id"`
	Modules []LoadedModule   `json:"modules"`
	SaidAt  tollgate.Instant `json:"said_at"`
}

// LoadedModule is a rule that an instance has, or why it has not.
type LoadedModule struct {
	tollgate.RuleRef
	Error string `json:"error,omitempty"`
}

// CannotLoad reports whether an instance has tried to load a rule in vain.
func (i *Instance) CannotLoad(ref tollgate.RuleRef) bool {
	return slices.ContainsFunc(i.Modules, func(m LoadedModule) bool { return m.RuleRef == ref && m.Error != "" })
}

// Lacks reports whether an instance does not have all of some rules, and the
// first reason that it gives.
func (i *Instance) Lacks(rules []tollgate.RuleRef) (lacks bool, reason string) {
	for _, ref := range rules {
		at := slices.IndexFunc(i.Modules, func(m LoadedModule) bool { return m.RuleRef == ref })
		if at < 0 || i.Modules[at].Error != "" {
			lacks = true
		}
		if at >= 0 && reason == "" {
			reason = i.Modules[at].Error
		}
	}
	return lacks, reason
}

// Upcoming is an activation that is still to come.
type Upcoming struct {
	Organization string
	tollgate.Activation
}

// Upcoming reads every activation that is still to come, of all organizations.
func (s *Store) Upcoming(ctx context.Context) ([]Upcoming, error) {
	var members []string
	err := s.timed(ctx, "upcoming", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.StringSliceCmd, s.Partitions())
		for p := range replies {
			replies[p] = pipe.ZRange(ctx, scheduleKey(p), 0, -1)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for _, r := range replies {
			members = append(members, r.Val()...)
		}
		return nil
	})
	if err != nil {
		s.cache.doubt(s.clock()) // as after a Poll, which comes later
		return nil, err
	}
	return s.upcoming(ctx, members)
}

func (s *Store) upcoming(ctx context.Context, members []string) (list []Upcoming, err error) {
	keys := make([]string, len(members))
	for i, m := range members {
		org, id, _ := strings.Cut(m, "/")
		keys[i] = s.space(org).object(id)
	}
	found, err := s.readFields(ctx, "read_activations", keys, "json")
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if found[i]["json"] == "" {
			continue
		}
		org, id, _ := strings.Cut(m, "/")
		one := Upcoming{Organization: org}
		if err := found[i].document(&one.Activation); err != nil { // the others do not wait for it
			_ = s.damaged(ctx, s.space(org), "activation", id, err)
			continue
		}
		if one.Status == tollgate.ActivationScheduled {
			list = append(list, one)
		}
	}
	return list, nil
}

// Changes is what has changed that instances have to know of.
type Changes struct {
	All           bool     // nobody knows what has: everything may have
	Organizations []string // otherwise: the configuration of these
	counts        []int64  // by partition, as they were found
}

// Poll looks what has changed since another look, and forgets what is cached of
// it: it stands behind the push of Watch. What it does not forget was current
// when it began. The first look, before the zero value,
// finds that everything may have changed.
func (s *Store) Poll(ctx context.Context, before Changes) (now Changes, err error) {
	begun := s.clock()
	err = s.timed(ctx, "poll", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.FloatCmd, s.Partitions())
		for p := range replies {
			replies[p] = pipe.ZScore(ctx, changesKey(p), changesCount)
		}
		_, _ = pipe.Exec(ctx) // each reply has its error
		now.counts = make([]int64, s.Partitions())
		for p, r := range replies {
			if err := r.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			now.counts[p] = int64(r.Val())
		}
		return s.changedSince(ctx, before, &now)
	})
	if err != nil {
		s.cache.doubt(s.clock())
		return before, err
	}
	if now.All {
		s.cache.forgetAll()
	} else if len(now.Organizations) > 0 {
		s.cache.forget(now.Organizations...)
	}
	s.cache.confirm(begun)
	return now, nil
}

// changedSince finds whose changes there are between two looks. A Redis that has
// lost its latest writes counts from an earlier number again.
func (s *Store) changedSince(ctx context.Context, before Changes, now *Changes) error {
	if before.counts == nil {
		now.All = true
		return nil
	}
	pipe := s.client.Pipeline()
	var replies []*redis.StringSliceCmd
	for p, count := range now.counts {
		if count < before.counts[p] {
			now.All = true
			return nil
		}
		if count > before.counts[p] {
			by := &redis.ZRangeBy{Min: "(" + strconv.FormatInt(before.counts[p], 10), Max: "+inf"}
			replies = append(replies, pipe.ZRangeByScore(ctx, changesKey(p), by))
		}
	}
	if len(replies) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for _, r := range replies {
		now.Organizations = append(now.Organizations, r.Val()...)
	}
	now.Organizations = slices.DeleteFunc(now.Organizations, func(member string) bool { return member == changesCount })
	return nil
}

// Changed has a value after each push that Watch has received.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Heartbeat writes what an instance says of itself; it is forgotten when it does not
// go on saying it.
func (s *Store) Heartbeat(ctx context.Context, i Instance) error {
	i.SaidAt = s.Now()
	text, err := enveloped(i)
	if err != nil {
		return fmt.Errorf("instance %s: %w", i.ID, err)
	}
	return s.timed(ctx, "say", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		pipe.Set(ctx, instanceKey(i.ID), text, instanceLifetime)
		pipe.SAdd(ctx, instancesKey, i.ID)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Deregister takes an instance out that is about to stop.
func (s *Store) Deregister(ctx context.Context, id string) error {
	return s.timed(ctx, "leave", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		pipe.Del(ctx, instanceKey(id))
		pipe.SRem(ctx, instancesKey, id)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Instances are those that live, by id.
func (s *Store) Instances(ctx context.Context) (list []Instance, err error) {
	err = s.timed(ctx, "instances", func(ctx context.Context) error {
		ids, err := s.client.SMembers(ctx, instancesKey).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		slices.Sort(ids)
		pipe := s.client.Pipeline()
		replies := make([]*redis.StringCmd, len(ids))
		for i, id := range ids {
			replies[i] = pipe.Get(ctx, instanceKey(id))
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		var dead []any
		for i, r := range replies {
			if errors.Is(r.Err(), redis.Nil) {
				dead = append(dead, ids[i])
				continue
			}
			var one Instance
			if err := decode(r.Val(), &one); err != nil {
				return fmt.Errorf("instance %s: %s: %w", ids[i], strconv.Quote(r.Val()), err)
			}
			list = append(list, one)
		}
		if len(dead) > 0 { // one that lives says so again
			return s.client.SRem(ctx, instancesKey, dead...).Err()
		}
		return nil
	})
	return list, err
}
