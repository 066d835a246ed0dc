package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/record"
)

// Holds reports whether an organization has an object: a version of a perimeter
// or rule set by id@version, the organization itself by "".
func (s *Store) Holds(ctx context.Context, org, id string) (there bool, err error) {
	k := s.db.Space(org)
	key := k.VersionNamed(id)
	if id == "" {
		key = k.Organization()
	}
	err = s.db.Timed(ctx, "read_config", func(ctx context.Context) error {
		n, err := s.db.Redis.Exists(ctx, key).Result()
		there = n > 0
		return err
	})
	return there, err
}

// ConfigFacts reads what a file is compared with: what it names and what that
// refers to, each kind in one round trip; then the grants where it changes who has
// them or ends tokens, and what led to the rules of an account that is given others.
func (s *Store) ConfigFacts(ctx context.Context, want tollgate.Config) (*tollgate.ConfigFacts, error) {
	k, f := s.db.Space(want.Organization.ID), tollgate.NewConfigFacts()
	for {
		lacks := f.Lacks(want)
		if lacks.None() {
			return f, nil
		}
		if err := s.readConfig(ctx, k, lacks, f); err != nil {
			return nil, err
		}
		for id := range lacks.Histories { // after their rule sets
			h, err := s.rules.History(ctx, k, id)
			if err != nil {
				return nil, err
			}
			f.Histories[id] = h
		}
		if lacks.Quotas != nil {
			q, err := s.rules.ReadQuotas(ctx, k)
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

// readConfig reads whatever has a key of its own.
func (s *Store) readConfig(ctx context.Context, k rediskv.Space, lacks, f *tollgate.ConfigFacts) error {
	objects, sets := slices.Collect(maps.Keys(lacks.Objects)), slices.Collect(maps.Keys(lacks.RuleSets))
	found, err := s.readCounted(ctx, objects, k.Configured, "v", "json", "accounts", "limits", "given", "cutoffs", "closed")
	for i, o := range found {
		if f.Objects[objects[i]], err = storedObject(o); err != nil {
			return fmt.Errorf("merchant account %s: %w", objects[i], err)
		}
	}
	if err != nil {
		return err
	}
	found, err = s.readCounted(ctx, sets, k.Object, "v", "last", "pending")
	for i, r := range found {
		f.RuleSets[sets[i]] = tollgate.RuleSetState{ID: sets[i], Revision: r.Int("v"), Last: r.Int("last"), Pending: strings.Fields(r["pending"])}
	}
	if err != nil {
		return err
	}
	if err := s.readTexts(ctx, lacks.Versions, f.Versions, k.VersionNamed); err != nil {
		return err
	}
	if err := s.readTexts(ctx, lacks.Owners, f.Owners, rediskv.ClientKey); err != nil {
		return err
	}
	refs, err := s.rules.Pinned(ctx, k, slices.Collect(maps.Keys(lacks.Rules)))
	for _, ref := range refs {
		f.Rules[ref.Rule] = ref.SHA256
	}
	return err
}

// readCounted reads fields of hashes whose counters can be read. One that is there
// has a revision.
func (s *Store) readCounted(ctx context.Context, ids []string, key func(string) string, names ...string) ([]rediskv.Fields, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = key(id)
	}
	found, err := s.db.ReadFields(ctx, "read_config", keys, names...)
	for i, row := range found {
		fault := rediskv.Counters(row)
		if fault == nil && row["v"] == "" && strings.Join(slices.Collect(maps.Values(row)), "") != "" {
			fault = errors.New("it has no revision")
		}
		if fault != nil {
			return nil, s.db.DamagedAt(ctx, keys[i], fault)
		}
	}
	return found, err
}

// readTexts reads the strings of names; empty where there is none.
func (s *Store) readTexts(ctx context.Context, names, into map[string]string, key func(string) string) error {
	for some := range slices.Chunk(slices.Collect(maps.Keys(names)), rediskv.ReadTogether) {
		replies := make([]*redis.StringCmd, len(some))
		if err := s.db.Timed(ctx, "read_config", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			for i, name := range some {
				replies[i] = pipe.Get(ctx, key(name))
			}
			return rediskv.Answered(pipe.Exec(ctx))
		}); err != nil {
			return err
		}
		for i, name := range some {
			object, err := record.Opened(key(name), replies[i].Val())
			if err != nil {
				return s.db.DamagedAt(ctx, key(name), err)
			}
			into[name] = object
		}
	}
	return nil
}

// storedObject is the zero value of one that is not there.
func storedObject(found rediskv.Fields) (o tollgate.StoredObject, err error) {
	o = tollgate.StoredObject{
		Revision: found.Int("v"), Document: jsontext.Value(found["json"]),
		AccountIDs: strings.Fields(found["accounts"]), Perimeter: found["limits"], Given: found["given"],
	}
	o.Cutoffs, o.Closed, err = accounts.CutoffVersions(found)
	return o, err
}
