// Package look reads what checks compare: records as they are, each with its checksum
// looked at, and the events of payments.
package look

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// Reader reads what is kept of one organization.
type Reader struct {
	DB *rediskv.DB
	K  rediskv.Space
}

// Redis is the client.
func (r Reader) Redis() rediskv.Client { return r.DB.Redis }

// Timed bounds and reports an operation.
func (r Reader) Timed(ctx context.Context, operation string, do func(context.Context) error) error {
	return r.DB.Timed(ctx, "check_"+operation, do)
}

// AtOnce reads at one moment what ask queues. Whole hashes are compared with their
// checksums.
func (r Reader) AtOnce(ctx context.Context, operation string, ask func(context.Context, redis.Pipeliner)) error {
	return r.Timed(ctx, operation, func(ctx context.Context) error {
		var asked []redis.Cmder
		err := r.DB.AtOnce(ctx, func(pipe redis.Pipeliner) {
			ask(ctx, pipe)
			asked = pipe.Cmds()
		})
		verify(asked)
		return err
	})
}

// verify compares whole hashes that were read with their checksums.
func verify(read []redis.Cmder) {
	for _, reply := range read {
		if hash, ok := reply.(*redis.MapStringStringCmd); ok && reply.Err() == nil {
			key, _ := reply.Args()[1].(string)
			record.Verified(key, hash.Val())
		}
	}
}

// Pipelined reads what ask queues, in one round trip; hashes as AtOnce.
func (r Reader) Pipelined(ctx context.Context, operation string, ask func(context.Context, redis.Pipeliner)) error {
	return r.Timed(ctx, operation, func(ctx context.Context) error {
		pipe := r.Redis().Pipeline()
		ask(ctx, pipe)
		if pipe.Len() == 0 {
			return nil
		}
		asked, err := pipe.Exec(ctx)
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		verify(asked)
		return nil
	})
}

// Place is a score as a decimal number, which Redis reads as exactly that score.
func Place(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// PlaceOf is where a member stands in an index; empty where it does not.
func PlaceOf(score *redis.FloatCmd) string {
	if score.Err() != nil {
		return ""
	}
	return Place(score.Val())
}
