package instances

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
	"tollgate/rediskv"
	"tollgate/rediskv/record"
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

// UpcomingOf reads scheduled activations by the members of their queue; one that is
// no longer scheduled is left out.
func (s *Store) UpcomingOf(ctx context.Context, members []string) (list []Upcoming, err error) {
	keys := make([]string, len(members))
	for i, m := range members {
		org, id, _ := strings.Cut(m, "/")
		keys[i] = s.db.Space(org).Object(id)
	}
	found, err := s.db.ReadFields(ctx, "read_activations", keys, "json")
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if found[i]["json"] == "" {
			continue
		}
		org, id, _ := strings.Cut(m, "/")
		one := Upcoming{Organization: org}
		if err := found[i].Document(&one.Activation); err != nil { // the others do not wait for it
			_ = s.db.Damaged(ctx, s.db.Space(org), "activation", id, err)
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
	round         int      // of looks
	read          uint64   // what was read into the cache when they were asked for

	// idle are the counts at which nothing was to come in a partition. A schedule changes
	// in the step that raises the count, so one that is the same needs no look.
	// unknown: nobody has looked, or something was. nil: nobody has looked anywhere.
	idle []int64
}

const unknown = -1

// seldom is in how many looks a partition is looked at once that has no organization and
// nothing in the cache.
const seldom = 10

// Poll looks what has changed since another look, and forgets what is cached of
// it: it stands behind the push of Watch. What it does not forget was current
// when it began. The first look, before the zero value,
// finds that everything may have changed.
func (s *Store) Poll(ctx context.Context, before Changes) (now Changes, err error) {
	begun := s.db.Clock()
	err = s.db.Timed(ctx, "poll", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		var counts []*redis.FloatCmd
		now, counts = s.askCounts(ctx, pipe, before)
		_, _ = pipe.Exec(ctx) // each reply has its error
		return s.changed(ctx, before, &now, counts)
	})
	return s.learn(begun, before, now, err)
}

// askCounts asks how many changes each partition has had. One that had none has no
// organization, and as long as nothing was read into the cache there is nothing there that
// could be old: it is asked for seldom.
func (s *Store) askCounts(ctx context.Context, pipe redis.Pipeliner, before Changes) (now Changes, counts []*redis.FloatCmd) {
	now = Changes{round: before.round + 1, read: s.db.Cache.Read.Load(), idle: before.idle}
	counts = make([]*redis.FloatCmd, s.db.Partitions())
	for p := range counts {
		if before.counts == nil || before.counts[p] > 0 || before.read != now.read || (p+now.round)%seldom == 0 {
			counts[p] = pipe.ZScore(ctx, rediskv.ChangesKey(p), changesCount)
		}
	}
	return now, counts
}

func (s *Store) changed(ctx context.Context, before Changes, now *Changes, counts []*redis.FloatCmd) error {
	now.counts = make([]int64, len(counts))
	for p, r := range counts {
		if r == nil { // it had none before
			continue
		}
		if err := r.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		now.counts[p] = int64(r.Val())
	}
	return s.changedSince(ctx, before, now)
}

// learn has the cache forget what has changed, or doubt what it has.
func (s *Store) learn(begun time.Time, before, now Changes, err error) (Changes, error) {
	if err != nil {
		s.db.Cache.Doubt(s.db.Clock())
		return before, err
	}
	if now.All {
		s.db.Cache.ForgetAll()
	} else if len(now.Organizations) > 0 {
		s.db.Cache.Forget(now.Organizations...)
	}
	s.db.Cache.Confirm(begun)
	return now, nil
}

// Look is what an instance finds on its round.
type Look struct {
	Changes  Changes
	Upcoming []Upcoming // every activation that is still to come, of all organizations
	All      Listing    // begun, where it was asked for
	Keyring  string     // the text of the keyring, and the seal: for package keyring
	Seal     string
}

// Listing is of all organizations: some of them, and where the others are.
type Listing struct {
	IDs     []string
	Cursors []uint64 // by partition, 0 where there are no others; nil: it has not begun
}

// Look says that an instance lives, and looks what is to come and what has changed since
// another look, as Poll does: in one round trip, and up to three more where something is
// to come or has changed. What is no longer to come has changed something by then. all
// begins to list all organizations as well, as they are after that.
func (s *Store) Look(ctx context.Context, before Changes, me Instance, all bool) (look Look, err error) {
	begun := s.db.Clock()
	text, err := s.heartbeat(&me)
	if err != nil {
		return look, err
	}
	first := before.counts == nil
	var members []string
	err = s.db.Timed(ctx, "look", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		beat(ctx, pipe, me.ID, text)
		var schedules []*redis.StringSliceCmd
		for p := 0; first && p < s.db.Partitions(); p++ {
			schedules = append(schedules, askSchedule(ctx, pipe, p))
		}
		var counts []*redis.FloatCmd
		look.Changes, counts = s.askCounts(ctx, pipe, before)
		keyring, seal := pipe.Get(ctx, rediskv.KeyringKey), pipe.HGet(ctx, rediskv.MetaKey, rediskv.SealField)
		var organizations []*redis.ScanCmd
		for p := 0; all && p < s.db.Partitions(); p++ {
			organizations = append(organizations, pipe.SScan(ctx, rediskv.OrganizationsKey(p), 0, "", rediskv.ReadTogether))
		}
		if err := rediskv.Answered(pipe.Exec(ctx)); err != nil {
			return err
		}
		for _, r := range schedules {
			members = append(members, r.Val()...)
		}
		for _, r := range organizations {
			ids, cursor := r.Val()
			look.All.IDs, look.All.Cursors = append(look.All.IDs, ids...), append(look.All.Cursors, cursor)
		}
		look.Keyring, look.Seal = keyring.Val(), seal.Val()
		return s.changed(ctx, before, &look.Changes, counts)
	})
	restless := false
	if err == nil && !first {
		before.idle, members, restless, err = s.restless(ctx, before.idle, look.Changes.counts)
	}
	if err == nil && (len(members) > 0 || restless) {
		if look.Upcoming, err = s.UpcomingOf(ctx, members); err == nil {
			look.All = Listing{} // it was begun too early
			look.Changes, err = s.Poll(ctx, before)
			return look, err
		}
	}
	look.Changes.idle = before.idle
	look.Changes, err = s.learn(begun, before, look.Changes, err)
	return look, err
}

func askSchedule(ctx context.Context, pipe redis.Pipeliner, partition int) *redis.StringSliceCmd {
	return pipe.ZRange(ctx, rediskv.ScheduleKey(partition), 0, -1)
}

// restless reads what is to come in the partitions that are not idle at these counts, which
// were read before. any: there are such partitions.
func (s *Store) restless(ctx context.Context, idle, counts []int64) (now []int64, members []string, any bool, err error) {
	if idle == nil {
		idle = slices.Repeat([]int64{unknown}, len(counts))
	}
	asked := make(map[int]*redis.StringSliceCmd)
	pipe := s.db.Redis.Pipeline()
	for p, count := range counts {
		if idle[p] != count {
			asked[p] = askSchedule(ctx, pipe, p)
		}
	}
	if len(asked) == 0 {
		return idle, nil, false, nil
	}
	if err := s.db.Timed(ctx, "read_schedules", func(ctx context.Context) error { return rediskv.Answered(pipe.Exec(ctx)) }); err != nil {
		return nil, nil, false, err
	}
	now = slices.Clone(idle)
	for p, count := range counts {
		if r, ok := asked[p]; ok {
			members = append(members, r.Val()...)
			if now[p] = count; len(r.Val()) > 0 {
				now[p] = unknown
			}
		}
	}
	return now, members, true, nil
}

// changedSince finds whose changes there are between two looks. A Redis that has
// lost its latest writes counts from an earlier number again.
func (s *Store) changedSince(ctx context.Context, before Changes, now *Changes) error {
	if before.counts == nil {
		now.All = true
		return nil
	}
	pipe := s.db.Redis.Pipeline()
	var replies []*redis.StringSliceCmd
	for p, count := range now.counts {
		if count < before.counts[p] {
			now.All = true
			return nil
		}
		if count > before.counts[p] {
			by := &redis.ZRangeBy{Min: "(" + strconv.FormatInt(before.counts[p], 10), Max: "+inf"}
			replies = append(replies, pipe.ZRangeByScore(ctx, rediskv.ChangesKey(p), by))
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
func (s *Store) Changed() <-chan struct{} { return s.db.News }

// Heartbeat writes what an instance says of itself; it is forgotten when it does not
// go on saying it.
func (s *Store) Heartbeat(ctx context.Context, i Instance) error {
	text, err := s.heartbeat(&i)
	if err != nil {
		return err
	}
	return s.db.Timed(ctx, "say", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		beat(ctx, pipe, i.ID, text)
		_, err := pipe.Exec(ctx)
		return err
	})
}

func (s *Store) heartbeat(i *Instance) (text []byte, err error) {
	i.SaidAt = s.db.Now()
	if text, err = record.Enveloped(rediskv.InstanceKey(i.ID), *i); err != nil {
		err = fmt.Errorf("instance %s: %w", i.ID, err)
	}
	return text, err
}

func beat(ctx context.Context, pipe redis.Pipeliner, id string, text []byte) {
	pipe.Set(ctx, rediskv.InstanceKey(id), text, instanceLifetime)
	pipe.SAdd(ctx, rediskv.InstancesKey, id)
}

// Deregister takes an instance out that is about to stop.
func (s *Store) Deregister(ctx context.Context, id string) error {
	return s.db.Timed(ctx, "leave", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		pipe.Del(ctx, rediskv.InstanceKey(id))
		pipe.SRem(ctx, rediskv.InstancesKey, id)
		pipe.HDel(ctx, rediskv.SecretsKey, id)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Instances are those that live, by id.
func (s *Store) Instances(ctx context.Context) (list []Instance, err error) {
	err = s.db.Timed(ctx, "instances", func(ctx context.Context) error {
		ids, err := s.db.Redis.SMembers(ctx, rediskv.InstancesKey).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		slices.Sort(ids)
		pipe := s.db.Redis.Pipeline()
		replies := make([]*redis.StringCmd, len(ids))
		for i, id := range ids {
			replies[i] = pipe.Get(ctx, rediskv.InstanceKey(id))
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
			if err := record.DecodeAt(rediskv.InstanceKey(ids[i]), r.Val(), &one); err != nil {
				return fmt.Errorf("instance %s: %s: %w", ids[i], strconv.Quote(r.Val()), err)
			}
			list = append(list, one)
		}
		if len(dead) > 0 && !s.db.IsView() { // one that lives says so again
			return s.db.Redis.SRem(ctx, rediskv.InstancesKey, dead...).Err()
		}
		return nil
	})
	return list, err
}
