package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// instanceLifetime is for how long an instance that says nothing more counts.
const instanceLifetime = 10 * time.Second

// Instance is what an instance of the API says of itself.
type Instance struct {
	ID      string           `json:"id"`
	Modules []LoadedModule   `json:"modules"` // of activations that are still to come
	SaidAt  tollgate.Instant `json:"said_at"`
}

// LoadedModule is a rule that an instance has, or why it has not.
type LoadedModule struct {
	tollgate.RuleRef
	Error string `json:"error,omitempty"`
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
		replies := make([]*redis.StringSliceCmd, s.partitions)
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
		return nil, err
	}
	return s.upcoming(ctx, members)
}

func (s *Store) upcoming(ctx context.Context, members []string) (list []Upcoming, err error) {
	for _, m := range members {
		org, id, _ := strings.Cut(m, "/")
		a, err := s.activation(ctx, s.space(org), id)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if a.Status == tollgate.ActivationScheduled {
			list = append(list, Upcoming{org, a.Activation})
		}
	}
	return list, nil
}

// Poll looks whether something has changed that instances have to know of, and
// forgets what is cached if so: it stands behind the push of Watch. before is
// what the last call returned.
func (s *Store) Poll(ctx context.Context, before string) (now string, err error) {
	err = s.timed(ctx, "poll", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.StringCmd, s.partitions)
		for p := range replies {
			replies[p] = pipe.Get(ctx, changesKey(p))
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		counts := make([]string, len(replies))
		for p, r := range replies {
			counts[p] = r.Val()
		}
		now = strings.Join(counts, " ")
		return nil
	})
	if err != nil {
		return before, err
	}
	if now != before {
		s.cache.forget("")
	}
	return now, nil
}

// Changed has a value after each push that Watch has received.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Say writes what an instance says of itself; it is forgotten when it does not
// go on saying it.
func (s *Store) Say(ctx context.Context, i Instance) error {
	i.SaidAt = s.Now()
	text, err := json.Marshal(i, json.Deterministic(true))
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

// Leave takes an instance out that is about to stop.
func (s *Store) Leave(ctx context.Context, id string) error {
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
