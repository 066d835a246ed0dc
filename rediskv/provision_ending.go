package rediskv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// endedTogether is how many grants one script raises at most.
const endedTogether = 1000

// ending is a change that ends tokens: those of every grant of an organization
// or of a client. A token names its grant's revision, and a raised one ends it.
type ending struct {
	kind, id string   // organization or client
	grants   []string // of the client, as it names them
}

// of reports whether a grant of a holder is concerned.
func (e ending) of(grant, holder string) bool {
	return e.kind == "organization" || holder == e.id || slices.Contains(e.grants, grant)
}

// holders reads the organization's grants, each with its client. An
// organization of a release that kept no list of them is searched once; listed
// is then false.
func (s *Store) holders(ctx context.Context, k space) (found map[string]string, revision string, listed bool, err error) {
	if found, revision, err = s.holdersListed(ctx, k); err != nil || revision != "" || len(found) > 0 {
		return found, revision, err == nil, err
	}
	ids, err := s.searchGrants(ctx, k)
	if err != nil {
		return nil, "", false, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = k.object(id)
	}
	docs, err := s.readFields(ctx, "read_grants", keys, "json")
	if err != nil {
		return nil, "", false, err
	}
	found = make(map[string]string, len(ids))
	for i, doc := range docs {
		var g tollgate.Grant
		if doc["json"] == "" {
			continue
		}
		// One that cannot be read is somebody's, and its tokens end with all others.
		_ = s.damagedAt(ctx, keys[i], doc.document(&g))
		found[ids[i]] = g.ClientID
	}
	return found, "", false, nil
}

// holdersListed reads the list of an organization's grants, each with its client,
// and the list's revision. A release that kept none left no list.
func (s *Store) holdersListed(ctx context.Context, k space) (list map[string]string, revision string, err error) {
	err = s.timed(ctx, "read_grants", func(ctx context.Context) (err error) {
		list, err = s.client.HGetAll(ctx, k.grants()).Result()
		return err
	})
	revision = list["v"]
	delete(list, "v")
	return list, revision, err
}

// searchGrants finds an organization's grants by the names of their keys, on
// the one master that has them.
func (s *Store) searchGrants(ctx context.Context, k space) (ids []string, err error) {
	var node redis.Cmdable = s.client
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		if err := s.timed(ctx, "find_master", func(ctx context.Context) (err error) {
			node, err = cluster.MasterForKey(ctx, k.organization())
			return err
		}); err != nil {
			return nil, err
		}
	}
	prefix := k.object("")
	for cursor := uint64(0); ; {
		var keys []string
		if err := s.timed(ctx, "search_grants", func(ctx context.Context) (err error) {
			keys, cursor, err = node.Scan(ctx, cursor, prefix+tollgate.PrefixGrant+"*", 5000).Result()
			return err
		}); err != nil {
			return nil, err
		}
		for _, key := range keys {
			if id := strings.TrimPrefix(key, prefix); tollgate.ValidID(id) {
				ids = append(ids, id)
			}
		}
		if cursor == 0 {
			slices.Sort(ids)
			return slices.Compact(ids), nil // a key can come twice
		}
	}
}

// endTokens finds the grants whose tokens the plan ends, and keeps the list of all
// grants. Up to endedTogether are raised by the script that writes the plan; of
// more it leaves a note, from which finish goes on, in this run or the next.
func (p *plan) endTokens(ctx context.Context) error {
	if len(p.ending) == 0 && len(p.holders) == 0 {
		return nil
	}
	known := map[string]string{}
	revision, listed := "", true
	if p.exists {
		var err error
		if known, revision, listed, err = p.store.holders(ctx, p.space); err != nil {
			return err
		}
	}
	p.list(known, revision, listed)
	written := map[string]bool{}
	for _, h := range p.hashes {
		written[h.key] = written[h.key] || len(h.fields) > 0
	}
	raised := map[string]bool{}
	for _, e := range p.ending {
		ids := map[string]bool{}
		for id, holder := range known {
			if e.of(id, holder) {
				ids[id] = true
			}
		}
		for _, id := range e.grants {
			if _, isNew := p.holders[id]; !isNew || known[id] != "" {
				ids[id] = true
			}
		}
		at := slices.IndexFunc(p.changes, func(c ConfigChange) bool { return c.Kind == e.kind && c.ID == e.id })
		p.changes[at].Ends = len(ids)
		for id := range ids {
			if !written[p.space.object(id)] { // else its own change raises it
				raised[id] = true
			}
		}
	}
	p.raised = slices.Sorted(maps.Keys(raised))
	if len(p.raised) > endedTogether {
		p.raised = nil
		for _, e := range p.ending {
			p.left = append(p.left, e.id)
		}
	}
	return nil
}

// list adds the plan's new grants to the list, all of them where there is none
// yet, and makes the plan hold only while nobody else adds one.
func (p *plan) list(known map[string]string, revision string, listed bool) {
	add := p.holders
	if !listed {
		add = maps.Clone(known)
		maps.Copy(add, p.holders)
	}
	h := hashWrite{key: p.space.grants(), expected: revision}
	if len(add) == 0 {
		p.hashes = append(p.hashes, h)
		return
	}
	h.fields.int("v", fields{"v": revision}.int("v")+1)
	for _, id := range slices.Sorted(maps.Keys(add)) {
		if len(h.fields) >= 2000 { // Lua's stack is no longer
			p.hashes = append(p.hashes, h)
			h.fields = nil
		}
		h.fields.set(id, add[id])
	}
	p.hashes = append(p.hashes, h)
}

// finish ends the tokens that are left to end, of this run or of one that died.
// Grants that are raised twice only cost their clients another token.
func (s *Store) finish(ctx context.Context, k space) error {
	var left []string
	if err := s.timed(ctx, "read_ending", func(ctx context.Context) (err error) {
		left, err = s.client.SMembers(ctx, k.ending()).Result()
		return err
	}); err != nil || len(left) == 0 {
		return err
	}
	known, _, _, err := s.holders(ctx, k)
	if err != nil {
		return err
	}
	raised := map[string]bool{}
	for _, note := range left {
		id, _, _ := strings.Cut(note, "/")
		e := ending{kind: "organization", id: id}
		if id != k.org {
			docs, err := s.readFields(ctx, "read_client", []string{k.object(id)}, "json")
			if err != nil {
				return err
			}
			var c tollgate.Client
			if err := docs[0].document(&c); err != nil {
				return fmt.Errorf("client %s: %w", id, err)
			}
			e = ending{kind: "client", id: id, grants: c.GrantIDs}
		}
		for grant, holder := range known {
			if e.of(grant, holder) {
				raised[grant] = true
			}
		}
		for _, grant := range e.grants {
			raised[grant] = true
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(raised)), endedTogether) {
		c := s.commit(Caller{Organization: k.org}, nil)
		c.notify, c.raised = true, some
		if _, err := c.run(ctx); err != nil {
			return err
		}
	}
	return s.timed(ctx, "forget_ending", func(ctx context.Context) error {
		return s.client.SRem(ctx, k.ending(), anys(left)...).Err()
	})
}

func anys(list []string) []any {
	of := make([]any, len(list))
	for i, v := range list {
		of[i] = v
	}
	return of
}
