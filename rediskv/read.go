package rediskv

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
)

// ReadHashes reads hashes at one moment; the first must be there, and the
// counters of all can be read.
func (s *DB) ReadHashes(ctx context.Context, operation string, keys ...string) (found []Fields, err error) {
	found, err = s.Hashes(ctx, operation, keys...)
	for i, f := range found {
		if err == nil {
			err = s.DamagedAt(ctx, keys[i], Counters(f))
		}
	}
	return found, err
}

// Beside does something while its caller does something else, so that both are on
// their way to Redis at once. What it returns waits until that is done; its error
// comes before any other, and a panic is the caller's.
func Beside(do func() error) (done func(err *error)) {
	var failed error
	var panicked any
	end := make(chan struct{})
	go func() {
		defer close(end)
		defer func() { panicked = recover() }()
		failed = do()
	}()
	return func(err *error) {
		<-end
		if panicked != nil {
			panic(panicked)
		}
		if failed != nil {
			*err = failed
		}
	}
}

// AtOnce reads at one moment what ask queues; that something is not there is no
// error. go-redis does not send a transaction again that may have been carried out.
// One that reads can be: the connection may have been dead for long.
func (s *DB) AtOnce(ctx context.Context, ask func(redis.Pipeliner)) error {
	for tries := 0; ; tries++ {
		pipe := s.Redis.TxPipeline()
		ask(pipe)
		_, err := pipe.Exec(ctx)
		switch {
		case errors.Is(err, redis.Nil):
			return nil
		case tries == s.deadTries || ctx.Err() != nil || !(errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
			return err
		}
	}
}

// Hashes reads hashes at one moment, as they are; the first must be there.
func (s *DB) Hashes(ctx context.Context, operation string, keys ...string) (found []Fields, err error) {
	if s.IsOffline() {
		return s.keptHashes(ctx, operation, keys)
	}
	err = s.Timed(ctx, operation, func(ctx context.Context) error {
		replies := make([]*redis.MapStringStringCmd, len(keys))
		if err := s.AtOnce(ctx, func(pipe redis.Pipeliner) {
			for i, key := range keys {
				replies[i] = pipe.HGetAll(ctx, key)
			}
		}); err != nil {
			return err
		}
		for i, r := range replies {
			found = append(found, record.Verified(keys[i], r.Val()))
		}
		if len(found[0]) == 0 {
			return tollgate.NotFound()
		}
		return nil
	})
	return found, err
}

// ReadObject reads the hash of an object whose id begins with a prefix.
func (s *DB) ReadObject(ctx context.Context, operation string, k Space, prefix, id string) (Fields, error) {
	if !strings.HasPrefix(id, prefix) {
		return nil, tollgate.NotFound()
	}
	found, err := s.ReadHashes(ctx, operation, k.Object(id))
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// EachHash reads the hashes of a page, or some fields of them, as many at once as the
// caller may in its turn, and hands them over in their order; one that is gone has
// none. A client's turns are waited for at once: however many there are, those of a
// distant Redis are on their way together.
func EachHash[T any](ctx context.Context, s *DB, c Caller, operation string, page []T, key func(T) string, each func(T, Fields), names ...string) error {
	return EachRecord(ctx, s, c, operation, page, func(one T) record.Place { return record.Own(key(one)) }, each, names...)
}

// EachRecord is EachHash for records that may stand in one hash with others.
func EachRecord[T any](ctx context.Context, s *DB, c Caller, operation string, page []T, at func(T) record.Place, each func(T, Fields), names ...string) error {
	places := make([]record.Place, len(page))
	for i, one := range page {
		places[i] = at(one)
	}
	return s.eachPlace(ctx, c, operation, places, func(i int, f Fields) { each(page[i], f) }, names)
}

// eachPlace is what EachRecord does for any type: it is there once.
func (s *DB) eachPlace(ctx context.Context, c Caller, operation string, places []record.Place, each func(int, Fields), names []string) error {
	size := c.pageSize()
	parts := slices.Collect(slices.Chunk(places, size))
	replies := make([][]redis.Cmder, len(parts))
	read := func(n int) error {
		return s.TimedInTurn(ctx, c, operation, func(ctx context.Context) (err error) {
			pipe := s.Redis.Pipeline()
			for _, place := range parts[n] {
				if asked := place.Names(names); len(asked) > 0 {
					pipe.HMGet(ctx, place.Key, asked...)
				} else {
					pipe.HGetAll(ctx, place.Key)
				}
			}
			replies[n], err = pipe.Exec(ctx)
			return err
		})
	}
	ahead, first := []func(*error){}, new(record.First)
	for n := 1; n < len(parts) && c.Turn != nil; n++ {
		ahead = append(ahead, Beside(func() error { return read(n) }))
	}
	for n, part := range parts {
		var err error
		if n == 0 || c.Turn == nil {
			err = read(n)
		} else {
			ahead[n-1](&err)
		}
		if err != nil {
			return err
		}
		for i, r := range replies[n] {
			switch r := r.(type) {
			case *redis.MapStringStringCmd:
				each(n*size+i, record.Verified(part[i].Key, r.Val()))
			case *redis.SliceCmd:
				each(n*size+i, part[i].ReadWith(first, r.Val(), names))
			}
		}
		replies[n] = nil
	}
	return nil
}

// Gone reports whether an error says that there is no such object.
func Gone(err error) bool {
	var e *tollgate.Error
	return errors.As(err, &e) && e.Code == tollgate.CodeNotFound
}

// Away reports whether Redis cannot be reached at the moment.
func Away(err error) bool {
	var e *tollgate.Error
	return errors.As(err, &e) && e.Code == tollgate.CodeStoreUnavailable
}

// storedText is what a key holds: a string, nothing, or, by err, something else, or
// not what was written there. A record's is without its envelope.
type storedText struct {
	Text  string
	There bool
	Err   error
}

// ReadStrings reads keys of one organization that hold strings, up to readBatch
// of them in one round trip.
func (s *DB) ReadStrings(ctx context.Context, operation string, keys []string) ([]storedText, error) {
	found := make([]storedText, 0, len(keys))
	for part := range slices.Chunk(keys, readPage) {
		if err := s.Timed(ctx, operation, func(ctx context.Context) error {
			pipe := s.Redis.Pipeline()
			replies := make([]*redis.StringCmd, len(part))
			for i, key := range part {
				replies[i] = pipe.Get(ctx, key)
			}
			if _, err := pipe.Exec(ctx); err != nil && !peer.IsReply(err) {
				return err
			}
			for i, reply := range replies {
				text, err := reply.Result()
				switch {
				case err == nil:
					text, err = record.Opened(part[i], text)
					found = append(found, storedText{text, true, err})
				case errors.Is(err, redis.Nil):
					found = append(found, storedText{})
				case redis.HasErrorPrefix(err, "WRONGTYPE"):
					found = append(found, storedText{There: true, Err: err})
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

// Text is a field of an entry of a stream.
func Text(m redis.XMessage, field string) string {
	v, _ := m.Values[field].(string)
	return v
}

// ReadFields reads the same fields of many hashes, and their envelopes, in as few
// round trips as will do; what is not there is empty.
func (s *DB) ReadFields(ctx context.Context, operation string, keys []string, names ...string) ([]Fields, error) {
	found := make([]Fields, 0, len(keys))
	names = append(names, EnvelopeField)
	for some := range slices.Chunk(keys, ReadTogether) {
		err := s.Timed(ctx, operation, func(ctx context.Context) error {
			pipe := s.Redis.Pipeline()
			replies := make([]*redis.SliceCmd, len(some))
			for i, key := range some {
				replies[i] = pipe.HMGet(ctx, key, record.KindOf(key).Names(names)...)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for i, r := range replies {
				found = append(found, VerifiedIn(some[i], r.Val(), names...))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// VerifiedIn reads the reply to HMGET of the hash at a key, of names and what more its
// checksum covers.
func VerifiedIn(key string, values []any, names ...string) Fields {
	return record.Own(key).Read(values, names)
}

// ReadTogether is how many keys are read in one round trip.
const ReadTogether = 200

const (
	// ScanPage is how many index members are looked at per round trip.
	ScanPage = 500
	// readPage is how many hashes are read per round trip. Redis answers what
	// one connection has sent before it looks at the next: with 500 at once an
	// export doubled the p99 of those who were making payments.
	readPage = 125
	// turnPage is how many a client reads in one turn. It is what others wait
	// for, at most. Two turns read the longest page, and the row behind it.
	turnPage = 51
	// MostIndexes is how many accounts' indexes one script reads; of more, it reads
	// the index of all.
	MostIndexes = 32
	LeastOfEach = 16 // members of each index that it reads
	// ScanLimit bounds what one request looks at; a page may then be short or
	// empty and still have a next one.
	ScanLimit = 50_000
	// Skew is how far the clocks of two instances may be apart before a time
	// filter could miss a transaction.
	Skew = 5 * time.Minute
)

// Anys is a list as arguments of a command.
func Anys(list []string) []any {
	of := make([]any, len(list))
	for i, v := range list {
		of[i] = v
	}
	return of
}

// Answered is the error of commands sent together, if it is more than that there is
// nothing at a key.
func Answered(replies []redis.Cmder, err error) error {
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
