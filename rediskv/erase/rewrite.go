package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/script"
	"tollgate/rediskv/streams"
)

type rewriteEntriesKeys struct{ Stream, Rewritten string }

type rewriteEntriesArgs struct{ Entries int }

var scriptRewriteEntries = script.NewOpen[rewriteEntriesKeys, rewriteEntriesArgs](lua, "rewrite_entries")

// mostMoves is how often entries are looked for that somebody moves meanwhile.
const mostMoves = 20

// rewrite writes entries of a log anew, by their ids, which they keep. It can be run again:
// what is as it should be stays. Entries that have been trimmed are left out.
func rewrite(ctx context.Context, db *rediskv.DB, log string, ids []string, anew streams.Anew) error {
	for range mostMoves {
		places, err := whereAre(ctx, db, log, ids)
		if err != nil {
			return err
		}
		moved := false
		for place, some := range places {
			done, err := place.rewrite(ctx, db, log, some, anew)
			if err != nil {
				return err
			}
			moved = moved || !done
		}
		if !moved {
			return nil
		}
	}
	return fmt.Errorf("%s: its entries are moved again and again: %w", log, rediskv.ErrConflict)
}

// held is what holds entries of a log: its head, or a segment by its id in the directory.
type held struct {
	key, first string
	packed     bool
}

// whereAre says in what each entry is.
func whereAre(ctx context.Context, db *rediskv.DB, log string, ids []string) (map[held][]string, error) {
	heads, older := make([]*redis.XMessageSliceCmd, len(ids)), make([]*redis.XMessageSliceCmd, len(ids))
	if err := db.Timed(ctx, "log_places", func(ctx context.Context) error {
		pipe := db.Redis.Pipeline()
		for i, id := range ids {
			// An entry goes from the head into a segment: asked in this order it is in one of them.
			heads[i], older[i] = pipe.XRangeN(ctx, log, id, id, 1), pipe.XRevRangeN(ctx, streams.Directory(log), id, "-", 1)
		}
		if pipe.Len() == 0 {
			return nil
		}
		_, err := pipe.Exec(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	places := map[held][]string{}
	for i, id := range ids {
		place := held{key: log}
		if len(heads[i].Val()) == 0 {
			if len(older[i].Val()) == 0 {
				continue // it was trimmed
			}
			named := older[i].Val()[0]
			place = held{streams.Segment(log, named.ID), named.ID, streams.IsPacked(named)}
		}
		places[place] = append(places[place], id)
	}
	return places, nil
}

// rewrite is false where something has changed meanwhile.
func (h held) rewrite(ctx context.Context, db *rediskv.DB, log string, ids []string, anew streams.Anew) (done bool, err error) {
	if h.packed {
		return h.rewritePacked(ctx, db, log, ids, anew)
	}
	entries := make([]*redis.XMessageSliceCmd, len(ids))
	if err := db.Timed(ctx, "log_entries", func(ctx context.Context) error {
		pipe := db.Redis.Pipeline()
		for i, id := range ids {
			entries[i] = pipe.XRangeN(ctx, h.key, id, id, 1)
		}
		_, err := pipe.Exec(ctx)
		return err
	}); err != nil {
		return false, err
	}
	var changes []any
	done = true
	for _, reply := range entries {
		if len(reply.Val()) == 0 {
			done = h.first != "" // of the head it was moved on; of a segment it was trimmed
			continue
		}
		m := reply.Val()[0]
		text, envelope, ok, err := anew(m)
		if err != nil {
			return false, err
		}
		if ok {
			changes = append(changes, m.ID, streams.Digest(rediskv.Text(m, "b")), text, envelope)
		}
	}
	if len(changes) == 0 {
		return done, nil
	}
	inv := scriptRewriteEntries.With(rewriteEntriesKeys{h.key, streams.Rewritten(log)}, rewriteEntriesArgs{len(changes) / 4})
	inv.Args = append(inv.Args, changes...)
	_, _, err = db.Run(ctx, inv)
	return false, err // whoever looks again finds all of it done
}

func (h held) rewritePacked(ctx context.Context, db *rediskv.DB, log string, ids []string, anew streams.Anew) (done bool, err error) {
	text := ""
	if err := db.Timed(ctx, "log_segments", func(ctx context.Context) (err error) {
		if text, err = db.Redis.Get(ctx, h.key).Result(); errors.Is(err, redis.Nil) {
			return nil // it was trimmed
		}
		return err
	}); err != nil || text == "" {
		return err == nil, err
	}
	entries, err := streams.Unpack(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", h.key, err)
	}
	wanted, changed := map[string]bool{}, false
	for _, id := range ids {
		wanted[id] = true
	}
	for _, m := range entries {
		if !wanted[m.ID] {
			continue
		}
		body, envelope, ok, err := anew(m)
		if err != nil {
			return false, err
		}
		if ok {
			m.Values["b"], changed = body, true
			if rediskv.Text(m, "e") != "" {
				m.Values["e"] = envelope
			}
		}
	}
	if !changed {
		return true, nil
	}
	return streams.Repack(ctx, db, log, h.first, text, entries)
}
