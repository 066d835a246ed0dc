package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"tollgate"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"
)

// readHashes reads hashes at one moment; the first must be there, and the
// counters of all can be read.
func (s *Store) readHashes(ctx context.Context, operation string, keys ...string) (found []fields, err error) {
	found, err = s.hashes(ctx, operation, keys...)
	for i, f := range found {
		if err == nil {
			err = s.damagedAt(ctx, keys[i], counters(f))
		}
	}
	return found, err
}

// hashes reads hashes at one moment, as they are; the first must be there.
func (s *Store) hashes(ctx context.Context, operation string, keys ...string) (found []fields, err error) {
	err = s.timed(ctx, operation, func(ctx context.Context) error {
		pipe := s.client.TxPipeline()
		replies := make([]*redis.MapStringStringCmd, len(keys))
		for i, key := range keys {
			replies[i] = pipe.HGetAll(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for _, r := range replies {
			found = append(found, r.Val())
		}
		if len(found[0]) == 0 {
			return tollgate.NotFound()
		}
		return nil
	})
	return found, err
}

// sameObject checks that a stored document can be read and is the one of an
// object.
func sameObject(f fields, kind, id string) error {
	var o struct {
		Object string `json:"object"`
		ID     string `json:"id"`
	}
	if err := f.document(&o); err != nil {
		return err
	}
	if o.Object != kind || o.ID != id {
		return fmt.Errorf("%s %s: the document is of %s %q", kind, id, o.Object, o.ID)
	}
	return nil
}

// decode reads pairs of JSON text and target; the first may have an envelope.
func decode(text string, into any, more ...any) error {
	if rest, ok := strings.CutPrefix(text, envelopeMember); ok {
		of, _, _ := strings.Cut(rest, `"`)
		if err := checkEnvelope(of); err != nil {
			return err
		}
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return err
	}
	for i := 0; i+1 < len(more); i += 2 {
		text, _ := more[i].(string)
		if err := json.Unmarshal([]byte(text), more[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func gone(err error) bool {
	var e *tollgate.Error
	return errors.As(err, &e) && e.Code == tollgate.CodeNotFound
}

// away reports whether Redis cannot be reached at the moment.
func away(err error) bool {
	var e *tollgate.Error
	return errors.As(err, &e) && e.Code == tollgate.CodeStoreUnavailable
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

// cutoffsOf reads the versions of an account's cutoff and its last closed
// sales day. An account from before versions were kept has the one.
func cutoffsOf(f fields, current tollgate.Cutoff) (*tollgate.Timeline, tollgate.Date, error) {
	versions, closed, err := cutoffVersions(f)
	if err != nil {
		return nil, tollgate.NoDate, err
	}
	if versions == nil {
		versions = []tollgate.CutoffVersion{{Cutoff: current}}
	}
	t, err := tollgate.NewTimeline(versions)
	return t, closed, err
}

// cutoffVersions are nil where none were kept.
func cutoffVersions(f fields) (versions []tollgate.CutoffVersion, closed tollgate.Date, err error) {
	if text := f["cutoffs"]; text != "" {
		if err := decode(text, &versions); err != nil {
			return nil, tollgate.NoDate, fmt.Errorf("cutoffs: %w", err)
		}
	}
	if text := f["closed"]; text != "" {
		if closed, err = tollgate.ParseDate(text); err != nil {
			return nil, tollgate.NoDate, fmt.Errorf("closed: %w", err)
		}
	}
	return versions, closed, nil
}

func text(m redis.XMessage, field string) string {
	v, _ := m.Values[field].(string)
	return v
}

// readFields reads the same fields of many hashes, and their envelopes, in as few
// round trips as will do; what is not there is empty.
func (s *Store) readFields(ctx context.Context, operation string, keys []string, names ...string) ([]fields, error) {
	found := make([]fields, 0, len(keys))
	names = append(names, envelopeField)
	for some := range slices.Chunk(keys, readTogether) {
		err := s.timed(ctx, operation, func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			replies := make([]*redis.SliceCmd, len(some))
			for i, key := range some {
				replies[i] = pipe.HMGet(ctx, key, names...)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for _, r := range replies {
				found = append(found, fieldsIn(r.Val(), names...))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readTogether is how many keys are read in one round trip.
const readTogether = 200

const (
	// scanBatch is how many index members are looked at per round trip.
	scanBatch = 500
	// readBatch is how many hashes are read per round trip. Redis answers what
	// one connection has sent before it looks at the next: with 500 at once an
	// export doubled the p99 of those who were making payments.
	readBatch = 125
	// turnBatch is how many a client reads in one turn. It is what others wait
	// for, at most.
	turnBatch = 50
	// mostIndexes is how many accounts' indexes one script reads; of more, it reads
	// the index of all.
	mostIndexes = 32
	leastOfEach = 16 // members of each index that it reads
	// scanLimit bounds what one request looks at; a page may then be short or
	// empty and still have a next one.
	scanLimit = 50_000
	// skew is how far the clocks of two instances may be apart before a time
	// filter could miss a transaction.
	skew = 5 * time.Minute
)

func anys(list []string) []any {
	of := make([]any, len(list))
	for i, v := range list {
		of[i] = v
	}
	return of
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
