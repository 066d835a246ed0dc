package history

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

//go:embed lua/*.lua
var lua embed.FS

type beginKeys struct{ History, Mark string }

type beginArgs struct{ ID, NowMs, Envelope string }

var scriptBegin = script.NewOpen[beginKeys, beginArgs](lua, "begin_history")

type decideKeys struct{ History string }

type decideArgs struct {
	KnownID, KnownLoss string
	FieldCount         int
}

var scriptDecide = script.NewOpen[decideKeys, decideArgs](lua, "decide_history")

// begin reads the records of all partitions, counts this process in them, and begins
// a history where there is none, if it may. id makes an identifier.
func (b *Book) begin(ctx context.Context, c peer.Client, first func(redis.Pipeliner), id func() string, may bool, now tollgate.Instant) error {
	pipe := c.Pipeline()
	if first != nil {
		first(pipe)
	}
	answers := make([]*redis.Cmd, len(b.parts))
	for i := range b.parts {
		next, key := id(), b.parts[i].key
		at := strconv.FormatInt(int64(now), 10)
		begun := beginArgs{NowMs: at}
		if may {
			begun.ID, begun.Envelope = next, record.Seal(key, []any{"id", next, "first", next, "began", at}, nil)
		}
		inv := scriptBegin.With(beginKeys{key, key + ":op:" + next}, begun)
		answers[i] = inv.EvalSha(ctx, pipe, inv.Keys, inv.Args...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, answer := range answers {
		// What is no record it is for who compares to say.
		if r, err := recordIn(b.parts[i].key, answer); err == nil {
			b.counted(i, r)
		}
	}
	return nil
}

// write says that a partition's history has lost something, unless that is known.
// With next, the id of a history, that begins at once; with "" nothing is written
// until somebody accepts it.
func (b *Book) write(ctx context.Context, c redis.Scripter, f Finding, next string) (Record, error) {
	r := *b.Of(f.Partition)
	r.Loss, r.Open = &f.Loss, false
	if tollgate.ValidID(f.stored) && f.stored != r.ID { // who has begun it anew has to find it
		r.Past = append(slices.Clone(r.Past), Past{ID: f.stored, Began: f.Loss.FoundAt, Ended: f.Loss.FoundAt})
	}
	if next != "" {
		r = r.next(next, f.Loss.FoundAt)
	}
	return b.decide(ctx, c, f.Partition, f.stored, f.loss, r)
}

// finding is one of the history that is known.
func (b *Book) finding(partition int, loss Loss) Finding {
	r := b.Of(partition)
	return Finding{partition, loss, r.ID, r.loss}
}

// Read reads the record of a partition. ok is false where it cannot be read, is not there
// or does not follow the one that is known: found says so then.
func (b *Book) Read(ctx context.Context, c redis.Cmdable, partition int, now tollgate.Instant) (r Record, found Finding, ok bool, err error) {
	known := b.Of(partition) // before it is asked: what is answered may be older than what is known then
	f, err := c.HGetAll(ctx, b.Key(partition)).Result()
	if err != nil && !(peer.IsReply(err) && strings.HasPrefix(err.Error(), "WRONGTYPE")) {
		return r, found, false, err
	}
	r, read := RecordOf(b.Key(partition), f)
	if ok = read && r.follows(known); ok {
		return r, found, true, nil
	}
	found = Finding{partition, Loss{Reason: Unreadable, FoundAt: now}, f["id"], f["lost"]}
	if read && r.ID == known.ID {
		found.Loss.Reason = Behind
	} else if read || err == nil && len(f) == 0 {
		found.Loss.Reason = Empty
	}
	return r, found, false, nil
}

// ErrNothingToAccept: no loss was found.
var ErrNothingToAccept = errors.New("nothing was found to be lost")

// accept ends the wait after a finding: a history begins if none has, and payouts are
// made again. ErrNothingToAccept where nothing was found, unless anew, which always
// begins a history; since is from when on data may be missing then.
func (b *Book) accept(ctx context.Context, c peer.Client, partition int, next string, anew bool, since, now tollgate.Instant) (Record, error) {
	r, _, ok, err := b.Read(ctx, c, partition, now)
	known, loss := r.ID, r.loss
	switch {
	case err != nil:
		return r, err
	case !ok:
		return r, fmt.Errorf("%s cannot be read, and no process has found that", b.Key(partition))
	case r.Loss == nil && !anew:
		return r, ErrNothingToAccept
	case r.Loss == nil:
		r.Loss = &Loss{Reason: ByHand, FoundAt: now, Since: since}
		r = r.next(next, now)
	case !r.Open:
		r = r.next(next, now)
	}
	r.Loss = nil
	return b.decide(ctx, c, partition, known, loss, r)
}

// next is the record with a history behind the one that has a loss.
func (r Record) next(id string, now tollgate.Instant) Record {
	r.Past = r.ended(now, r.Loss.Since)
	r.ID, r.Began, r.Open = id, now, true
	return r
}

// decide writes a record, and adopts what is there then.
func (b *Book) decide(ctx context.Context, c redis.Scripter, partition int, known, loss string, r Record) (Record, error) {
	fields, err := r.fields(b.Key(partition))
	if err != nil {
		return Record{}, err
	}
	inv := scriptDecide.With(decideKeys{b.Key(partition)}, decideArgs{known, loss, len(fields)})
	inv.Args = append(inv.Args, fields...)
	is, err := recordIn(b.Key(partition), inv.Script.Run(ctx, c, inv.Keys, inv.Args...))
	if err == nil {
		b.Adopt(partition, is)
	}
	return is, err
}

// fields are what is written of a record.
func (r *Record) fields(key string) ([]any, error) {
	f := []any{"id", r.ID, "first", r.First, "began", strconv.FormatInt(int64(r.Began), 10)}
	if r.Open {
		f = append(f, "open", r.ID)
	}
	if len(r.Past) > 0 {
		text, err := json.Marshal(r.Past)
		if err != nil {
			return nil, err
		}
		f = append(f, "past", string(text))
	}
	if r.Loss != nil {
		text, err := json.Marshal(r.Loss)
		if err != nil {
			return nil, err
		}
		f = append(f, "lost", string(text))
	}
	return append(f, record.Field, record.Seal(key, f, nil)), nil
}

func recordIn(key string, reply *redis.Cmd) (Record, error) {
	list, err := reply.Slice()
	if err != nil {
		return Record{}, err
	}
	pairs, _ := list[1].([]any)
	f := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		f[name], _ = pairs[i+1].(string)
	}
	r, ok := RecordOf(key, f)
	if !ok {
		return r, fmt.Errorf("history: %v is no record", f)
	}
	return r, nil
}
