package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Used is what a counter of a limit says: Count, or, where that is no number,
// Damage.
type Used struct {
	Count  int64
	Damage error
}

// Counters reads what has been consumed, many counters in one round trip; a
// counter that is not there is 0.
func (s *Store) Counters(ctx context.Context, org string, names []string) ([]Used, error) {
	k := s.space(org)
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = k.counter(name)
	}
	texts, err := s.readStrings(ctx, "read_counters", keys)
	if err != nil {
		return nil, err
	}
	used := make([]Used, len(names))
	for i, found := range texts {
		if !found.there {
			continue
		}
		err := found.err
		if err == nil {
			used[i].Count, err = counted(found.text)
		}
		used[i].Damage = s.damagedAt(ctx, keys[i], err)
	}
	return used, nil
}

// counted reads a counter as strictly as the scripts do (prelude.lua): what is
// not in the one decimal form cannot be counted further.
func counted(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text || n > tollgate.MaxMinor || n < -tollgate.MaxMinor {
		return 0, fmt.Errorf("counter %.32q is no number", text)
	}
	return n, nil
}

// storedText is what a key holds: a string, nothing, or, by err, something else.
type storedText struct {
	text  string
	there bool
	err   error
}

// readStrings reads keys of one organization that hold strings, up to readBatch
// of them in one round trip.
func (s *Store) readStrings(ctx context.Context, operation string, keys []string) ([]storedText, error) {
	found := make([]storedText, 0, len(keys))
	for part := range slices.Chunk(keys, readBatch) {
		if err := s.timed(ctx, operation, func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			replies := make([]*redis.StringCmd, len(part))
			for i, key := range part {
				replies[i] = pipe.Get(ctx, key)
			}
			if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
				return err
			}
			for _, reply := range replies {
				text, err := reply.Result()
				switch {
				case err == nil:
					found = append(found, storedText{text: text, there: true})
				case errors.Is(err, redis.Nil):
					found = append(found, storedText{})
				case redis.HasErrorPrefix(err, "WRONGTYPE"):
					found = append(found, storedText{there: true, err: err})
				default:
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}
