package history

import (
	"context"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/peer"
)

// Restored is the record of a partition whose log was put back as it was: a history
// begins at a moment, and what was written since another moment may be missing. Who
// pays waits for somebody to accept it, if wait says so.
func (r Record) Restored(id string, at, since tollgate.Instant, wait bool) Record {
	if r.Loss != nil && !r.Open { // nothing has been written since that loss
		since = min(since, r.Loss.Since)
	}
	r.Loss = &Loss{Reason: ByRestore, FoundAt: at, Since: since}
	r = r.next(id, at)
	if !wait {
		r.Loss = nil
	}
	return r
}

// Put writes the record at a key, instead of any that is there, unless it has been
// written: what processes have made of it since is left alone then.
func Put(ctx context.Context, c peer.Client, key string, r Record) error {
	fields, err := r.fields(key)
	if err != nil {
		return err
	}
	fields = append(fields, "starts", r.Starts)
	return peer.Watch(ctx, c, func(tx redis.Cmdable) error {
		if kind, err := tx.Type(ctx, key).Result(); err != nil {
			return err
		} else if kind == "hash" {
			if id, err := tx.HGet(ctx, key, "id").Result(); err != nil && err != redis.Nil || id == r.ID {
				return err
			}
		}
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Del(ctx, key)
			pipe.HSet(ctx, key, fields...)
			return nil
		})
		return err
	}, key)
}
