package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Holds reports whether an organization has an object: a version of a perimeter
// or rule set by id@version, the organization itself by "".
func (s *Store) Holds(ctx context.Context, org, id string) (there bool, err error) {
	k := s.space(org)
	key := k.versionNamed(id)
	if id == "" {
		key = k.organization()
	}
	err = s.timed(ctx, "read_config", func(ctx context.Context) error {
		n, err := s.client.Exists(ctx, key).Result()
		there = n > 0
		return err
	})
	return there, err
}

// ConfigFacts reads what a file is compared with: what it names and what that
// refers to. Mostly that is one round trip; more find the grants where it changes
// who has them or ends tokens, and what led to an account's rules.
func (s *Store) ConfigFacts(ctx context.Context, want tollgate.Config) (*tollgate.ConfigFacts, error) {
	k, f := s.space(want.Organization.ID), tollgate.NewConfigFacts()
	for {
		lacks := f.Lacks(want)
		if lacks.None() {
			return f, nil
		}
		if err := s.readConfig(ctx, k, lacks, f); err != nil {
			return nil, err
		}
		for id := range lacks.Histories { // after their rule sets
			h, err := s.history(ctx, k, id)
			if err != nil {
				return nil, err
			}
			f.Histories[id] = h
		}
		if lacks.Quotas != nil {
			q, err := s.readQuotas(ctx, k)
			if err != nil {
				return nil, err
			}
			f.Quotas = &q
		}
		if lacks.Grants != nil {
			list, err := s.grantList(ctx, k)
			if err != nil {
				return nil, err
			}
			f.Grants = &list
		}
	}
}

// asking sends a command and returns what becomes of its reply.
type asking func(redis.Pipeliner) (keep func() error)

// readConfig reads whatever has a key of its own, many in one round trip.
func (s *Store) readConfig(ctx context.Context, k space, lacks, f *tollgate.ConfigFacts) error {
	var all []asking
	hash := func(key string, keep func(fields) error) {
		all = append(all, func(pipe redis.Pipeliner) func() error {
			reply := pipe.HGetAll(ctx, key)
			return func() error {
				found := fields(reply.Val())
				err := counters(found)
				if err == nil && len(found) > 0 && found.int("v") == 0 {
					err = errors.New("it has no revision")
				}
				return cmp.Or(s.damagedAt(ctx, key, err), keep(found))
			}
		})
	}
	text := func(key string, keep func(string)) {
		all = append(all, func(pipe redis.Pipeliner) func() error {
			reply := pipe.Get(ctx, key)
			return func() error {
				object, of := opened(reply.Val())
				keep(object)
				return s.damagedAt(ctx, key, checkEnvelope(of))
			}
		})
	}
	for id := range lacks.Objects {
		hash(k.configured(id), func(found fields) (err error) {
			f.Objects[id], err = storedObject(id, found)
			return err
		})
	}
	for id := range lacks.RuleSets {
		hash(k.object(id), func(found fields) error {
			f.RuleSets[id] = tollgate.RuleSetState{ID: id, Revision: found.int("v"), Last: found.int("last"), Pending: strings.Fields(found["pending"])}
			return nil
		})
	}
	for name := range lacks.Versions {
		text(k.versionNamed(name), func(doc string) { f.Versions[name] = doc })
	}
	for id := range lacks.Owners {
		text(clientKey(id), func(org string) { f.Owners[id] = org })
	}
	for some := range slices.Chunk(all, readTogether) {
		if err := s.asked(ctx, some); err != nil {
			return err
		}
	}
	refs, err := s.resolve(ctx, k, slices.Collect(maps.Keys(lacks.Rules)))
	for _, ref := range refs {
		f.Rules[ref.Rule] = ref.SHA256
	}
	return err
}

// asked sends commands in one round trip. What is not there has an empty reply.
func (s *Store) asked(ctx context.Context, all []asking) error {
	keeps := make([]func() error, len(all))
	if err := s.timed(ctx, "read_config", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		for i, ask := range all {
			keeps[i] = ask(pipe)
		}
		return answered(pipe.Exec(ctx))
	}); err != nil {
		return err
	}
	for _, keep := range keeps {
		if err := keep(); err != nil {
			return err
		}
	}
	return nil
}

// answered is the error of commands sent together, if it is more than that there is
// nothing at a key.
func answered(replies []redis.Cmder, err error) error {
	for _, reply := range replies { // err is only the first
		if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// storedObject is the zero value of one that is not there.
func storedObject(id string, found fields) (o tollgate.StoredObject, err error) {
	o = tollgate.StoredObject{
		Revision: found.int("v"), Document: jsontext.Value(found["json"]),
		AccountIDs: strings.Fields(found["accounts"]), Perimeter: found["limits"], Given: found["given"],
	}
	if o.Cutoffs, o.Closed, err = cutoffVersions(found); err != nil {
		err = fmt.Errorf("merchant account %s: %w", id, err)
	}
	return o, err
}
