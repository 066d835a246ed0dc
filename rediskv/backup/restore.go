package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/rdb"
)

// Fields of rediskv.MetaKey.
const (
	stepField     = "restore_step"
	seedField     = "restore_seed" // what the ids of the new histories are made of
	restoredField = "restored"
)

// What is done while a copy is put back, one after the other.
const (
	stepData      = "data"
	stepHistories = "histories" // all data is there: it is not written again
)

// ErrRestored: the copy was put back before, and all of it is there.
var ErrRestored = errors.New("this copy has been restored into this Redis already; nothing was done")

// passing matches what processes say of themselves while they run, and buckets of rate
// limits, which are full without it; and postings, which a worker makes again. The record of a history is written at the end, as a
// new one.
var passing = regexp.MustCompile(`^(?:tollgate:(?:meta|heartbeat|instances|instance:.*|secrets)|\{p\d+\}:(?:heartbeat|checking|history|history:.*|org_\w+:(?:rate:.*|postings(?::.*)?)))$`)

// Restore puts a copy into an empty Redis. Run again after it has died, it goes on and
// ends the same.
func Restore(ctx context.Context, o Options, c *Copy) error {
	o = o.patient()
	have, err := c.take() // before anything is written, all of it has been read
	if err != nil {
		return err
	}
	db, err := rediskv.Bare(ctx, o.Redis)
	if err != nil {
		return err
	}
	defer db.Close()
	r := &restore{Copy: c, have: have, o: o, db: db}
	step, err := r.claim(ctx)
	if err != nil {
		return err
	}
	if step == stepData {
		if err := r.data(ctx); err != nil {
			return err
		}
	}
	o.say("beginning new histories")
	if err := r.histories(ctx); err != nil {
		return err
	}
	return r.open(ctx)
}

type restore struct {
	*Copy
	have *inventory
	o    Options
	db   *rediskv.DB

	seed string
	at   tollgate.Instant // when it began, which is in the seed
}

// claim has nobody start on the Redis until this copy is in it.
func (r *restore) claim(ctx context.Context) (step string, err error) {
	var refused error // by what is in Redis, which is not away
	err = r.db.Timed(ctx, "claim_redis", func(ctx context.Context) error {
		keys, err := r.db.Redis.DBSize(ctx).Result() // of all masters
		if err != nil {
			return err
		}
		return peer.Watch(ctx, r.db.Redis, func(tx redis.Cmdable) error {
			meta, err := tx.HGetAll(ctx, rediskv.MetaKey).Result()
			if err != nil {
				return err
			}
			r.seed, step = meta[seedField], meta[stepField]
			switch is := meta[history.Restoring]; {
			case is == r.ID:
				return r.begun()
			case is != "":
				refused = fmt.Errorf("another copy (%s) is being restored into this Redis. Go on with that one, or empty it first (FLUSHALL)", is)
			case meta[restoredField] == r.ID:
				refused = ErrRestored
			case len(meta) > 0:
				refused = errors.New("this Redis has data of Tollgate. Restore into an empty one; what is in it would be lost")
			case keys > 0:
				refused = fmt.Errorf("this Redis is not empty: it has %d keys. Restore into one of its own: stop what writes to it, and empty it (FLUSHALL)", keys)
			}
			if refused != nil {
				return nil
			}
			r.seed, step = r.db.NewID(""), stepData
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.HSet(ctx, rediskv.MetaKey, history.Restoring, r.ID, "partitions", history.NoPartitions, stepField, step, seedField, r.seed)
				return nil
			})
			return errors.Join(err, r.begun())
		}, rediskv.MetaKey)
	})
	return step, cmp.Or(err, refused)
}

// begun reads when it began.
func (r *restore) begun() error {
	at, ok := tollgate.IDTime("_" + r.seed)
	if !ok {
		return fmt.Errorf("%s of %s is %q, which no restore has written: empty this Redis (FLUSHALL) and restore again", seedField, rediskv.MetaKey, r.seed)
	}
	r.at = tollgate.At(at)
	return nil
}

// data writes everything but the histories.
func (r *restore) data(ctx context.Context) error {
	w := &writer{client: r.db.Redis}
	written, last := int64(0), -1
	err := r.Each(func(file, _ int, v *rdb.Value) error {
		if file != last {
			last = file
			r.o.say("restoring %s: %d keys", r.Files[file].Name, r.Files[file].Keys)
		}
		if passing.MatchString(v.Key) {
			return nil
		}
		written++
		if err := w.put(ctx, v); err != nil {
			return fmt.Errorf("key %.100q or one before it: %w", v.Key, err)
		}
		return nil
	})
	if err == nil {
		err = w.flush(ctx)
	}
	if err != nil {
		return err
	}
	r.o.say("restored %d keys", written)
	return r.db.Timed(ctx, "restore_step", func(ctx context.Context) error {
		return r.db.Redis.HSet(ctx, rediskv.MetaKey, stepField, stepHistories).Err()
	})
}

// histories begins one in each partition.
func (r *restore) histories(ctx context.Context) error {
	for p := range r.Partitions {
		key := rediskv.HistoryKey(p)
		record := r.next(p)
		err := r.db.Timed(ctx, "restore_history", func(ctx context.Context) error {
			return history.Put(ctx, r.db.Redis, key, record)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// next is the record of a partition as it is to be.
func (r *restore) next(partition int) history.Record {
	had, since := r.have.parts[partition], r.TakenAt
	was := history.Record{ID: r.id(partition, "before")}
	was.First = was.ID // so that tokens without a history are of one that has ended
	wait := false
	if had != nil {
		if had.known {
			was = had.record
		}
		if had.LastEventAt != 0 {
			since = had.LastEventAt
		}
		wait = len(had.Organizations) > 0
	}
	return was.Restored(r.id(partition, "after"), r.at, since, wait)
}

// id is the same whenever it is made, and another one in each restore.
func (r *restore) id(partition int, what string) string {
	sum := sha256.Sum256([]byte(r.seed + " " + strconv.Itoa(partition) + " " + what))
	return tollgate.NewID(tollgate.PrefixHistory, time.UnixMilli(int64(r.at)), bytes.NewReader(sum[:]))
}

// open lets processes start.
func (r *restore) open(ctx context.Context) error {
	fields := []any{restoredField, r.ID}
	for name, value := range r.have.meta {
		if name != restoredField {
			fields = append(fields, name, value)
		}
	}
	return r.db.Timed(ctx, "end_restore", func(ctx context.Context) error {
		_, err := r.db.Redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, rediskv.MetaKey, fields...)
			pipe.HDel(ctx, rediskv.MetaKey, history.Restoring, stepField, seedField)
			return nil
		})
		return err
	})
}
