package exports

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// Exports lists an organization's exports, the newest first, from the one
// before an id on (empty: from the newest), at most limit of them.
func (s *Store) Exports(ctx context.Context, c rediskv.Caller, before string, limit int) (rows []StoredExport, more bool, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	var ids []string
	if err := c.InTurn(ctx, func() (err error) { ids, err = s.exportIDs(ctx, k, before, limit+1); return err }); err != nil {
		return nil, false, err
	}
	more = len(ids) > limit
	err = rediskv.EachHash(ctx, s.db, c, "read_exports", ids[:min(limit, len(ids))], k.Object, func(id string, f rediskv.Fields) {
		row := &StoredExport{Export: tollgate.Export{ID: id}}
		if len(f) > 0 { // else its record has expired: the page has a hole
			var err error
			if row, err = exportOf(k.Object(id), f); s.db.Damaged(ctx, k, "export", id, err) != nil {
				row = &StoredExport{Export: tollgate.Export{Object: "export", ID: id, Damaged: true}}
			}
			row.Export = row.At(s.db.Now())
		}
		rows = append(rows, *row)
	})
	return rows, more, err
}

// exportIDs are the next ids in the order of the list. Exports of before the
// list was kept are found among those that are unfinished or have a file.
func (s *Store) exportIDs(ctx context.Context, k rediskv.Space, before string, limit int) (ids []string, err error) {
	last := "+"
	if before != "" {
		last = "(" + before
	}
	err = s.db.Timed(ctx, "list_exports", func(ctx context.Context) error {
		var listed, unfinished, files *redis.StringSliceCmd
		if err := s.db.AtOnce(ctx, func(pipe redis.Pipeliner) {
			listed = pipe.ZRevRangeByLex(ctx, k.AllExports(), &redis.ZRangeBy{Min: "-", Max: last, Count: int64(limit)})
			unfinished, files = pipe.SMembers(ctx, k.Unfinished()), pipe.ZRange(ctx, k.ExportFiles(), 0, -1)
		}); err != nil {
			return err
		}
		ids = listed.Val()
		for _, id := range append(unfinished.Val(), files.Val()...) {
			if before == "" || id < before {
				ids = append(ids, id)
			}
		}
		return nil
	})
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	return ids[:min(limit, len(ids))], err
}
