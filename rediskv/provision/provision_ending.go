package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tollgate"
	"tollgate/rediskv"
)

// endedTogether is how many grants one script raises at most.
const endedTogether = 1000

// grantList reads an organization's grants, each with its client. An organization
// of a release that kept no list of them is searched once.
func (s *Store) grantList(ctx context.Context, k rediskv.Space) (tollgate.GrantList, error) {
	list, err := s.accounts.ListedGrants(ctx, k)
	if err != nil || list.Revision > 0 || len(list.Clients) > 0 {
		return list, err
	}
	ids, err := s.search(ctx, k, tollgate.PrefixGrant)
	if err != nil {
		return list, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = k.Object(id)
	}
	docs, err := s.db.ReadFields(ctx, "read_grants", keys, "json")
	if err != nil {
		return list, err
	}
	for i, doc := range docs {
		var g tollgate.Grant
		if doc["json"] == "" {
			continue
		}
		// One that cannot be read is somebody's, and its tokens end with all others.
		_ = s.db.DamagedAt(ctx, keys[i], doc.Document(&g))
		list.Clients[ids[i]] = g.ClientID
	}
	return list, nil
}

// search finds an organization's grants or clients by the names of their keys, on
// the one master that has them.
func (s *Store) search(ctx context.Context, k rediskv.Space, kind string) (ids []string, err error) {
	_, node, err := s.db.Master(ctx, k.Organization())
	if err != nil {
		return nil, err
	}
	prefix := k.Object("")
	for cursor := uint64(0); ; {
		var keys []string
		if err := s.db.Timed(ctx, "search_access", func(ctx context.Context) (err error) {
			keys, cursor, err = node.Scan(ctx, cursor, prefix+kind+"*", 5000).Result()
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

// finish ends the tokens that are left to end, of this run or of one that died.
// Grants that are raised twice only cost their clients another token.
func (s *Store) finish(ctx context.Context, k rediskv.Space) error {
	var left []string
	if err := s.db.Timed(ctx, "read_ending", func(ctx context.Context) (err error) {
		left, err = s.db.Redis.SMembers(ctx, k.Ending()).Result()
		return err
	}); err != nil || len(left) == 0 {
		return err
	}
	list, err := s.grantList(ctx, k)
	if err != nil {
		return err
	}
	raised := map[string]bool{}
	for _, note := range left {
		id, _, _ := strings.Cut(note, "/")
		e := tollgate.Ending{Kind: "organization", ID: id}
		if id != k.Org {
			docs, err := s.db.ReadFields(ctx, "read_client", []string{k.Object(id)}, "json")
			if err != nil {
				return err
			}
			var c tollgate.Client
			if err := docs[0].Document(&c); err != nil {
				return fmt.Errorf("client %s: %w", id, err)
			}
			e = tollgate.Ending{Kind: "client", ID: id, GrantIDs: c.GrantIDs}
		}
		maps.Copy(raised, e.Of(list.Clients))
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(raised)), endedTogether) {
		c := s.db.NewCommit(rediskv.Caller{Organization: k.Org}, nil)
		c.Notify, c.Raised = true, some
		if _, err := c.Run(ctx); err != nil {
			return err
		}
	}
	return s.db.Timed(ctx, "forget_ending", func(ctx context.Context) error {
		return s.db.Redis.SRem(ctx, k.Ending(), rediskv.Anys(left)...).Err()
	})
}
