package faults

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// flip is one bit, and how to put it back.
type flip struct {
	org                *org
	kind, key, what    string
	field, before, now string // of a hash; of any other value before and now
	nearly             bool   // a score is less than a minute off
	back               func(context.Context) error
}

// turn turns over one bit of something of a kind that is drawn: every kind has as many.
// Only that piece is put back: whoever reads it may have written beside it.
func (f *flips) turn(o *org) *flip {
	f.t.Helper()
	ctx := context.Background()
	kinds := slices.Sorted(maps.Keys(f.kinds[o]))
	kind := kinds[f.plan.IntN(len(kinds))]
	keys := f.kinds[o][kind]
	one := &flip{org: o, kind: kind, key: keys[f.plan.IntN(len(keys))]}
	switch f.redis.Type(ctx, one.key).Val() {
	case "string":
		one.before = f.redis.Get(ctx, one.key).Val()
		one.now = f.bit(one.before, &one.what)
		set := func(ctx context.Context, text string) error {
			err := f.redis.SetArgs(ctx, one.key, text, redis.SetArgs{Mode: "XX", KeepTTL: true}).Err()
			if err == redis.Nil { // it has expired
				return nil
			}
			return err
		}
		must(f.t, set(ctx, one.now))
		one.back = func(ctx context.Context) error { return set(ctx, one.before) }
	case "hash":
		fields := f.redis.HGetAll(ctx, one.key).Val()
		names := slices.Sorted(maps.Keys(fields))
		one.field = names[f.plan.IntN(len(names))]
		one.before = fields[one.field]
		one.now = f.bit(one.before, &one.what)
		one.what = "field " + one.field + ", " + one.what
		must(f.t, f.redis.HSet(ctx, one.key, one.field, one.now).Err())
		one.back = func(ctx context.Context) error { return f.redis.HSet(ctx, one.key, one.field, one.before).Err() }
	case "set":
		members := f.redis.SMembers(ctx, one.key).Val()
		slices.Sort(members)
		one.before = members[f.plan.IntN(len(members))]
		one.now = f.bit(one.before, &one.what)
		if slices.Contains(members, one.now) {
			return one
		}
		exchange := func(ctx context.Context, from, to string) error {
			_, err := f.redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.SRem(ctx, one.key, from)
				pipe.SAdd(ctx, one.key, to)
				return nil
			})
			return err
		}
		must(f.t, exchange(ctx, one.before, one.now))
		one.back = func(ctx context.Context) error { return exchange(ctx, one.now, one.before) }
	case "zset":
		f.turnMember(ctx, one)
	case "stream":
		f.turnEntry(ctx, one)
	case "list":
		f.turnItem(ctx, one)
	}
	return one
}

// turnMember turns a bit of a member, or of its score.
func (f *flips) turnMember(ctx context.Context, one *flip) {
	f.t.Helper()
	members := f.redis.ZRangeWithScores(ctx, one.key, 0, -1).Val()
	before := members[f.plan.IntN(len(members))]
	now := before
	if f.plan.IntN(2) == 0 {
		bit := f.plan.IntN(63) // of the mantissa or the exponent
		one.what = fmt.Sprintf("bit %d of the score %v of %v", bit, before.Score, before.Member)
		if now.Score = math.Float64frombits(math.Float64bits(before.Score) ^ 1<<bit); math.IsNaN(now.Score) {
			one.what = "" // Redis takes none
			return
		}
	} else {
		now.Member = f.bit(fmt.Sprint(before.Member), &one.what)
		if slices.ContainsFunc(members, func(z redis.Z) bool { return z.Member == now.Member }) {
			one.what = "" // putting it back would take away the other
			return
		}
	}
	exchange := func(ctx context.Context, from, to redis.Z) error {
		_, err := f.redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.ZRem(ctx, one.key, from.Member)
			pipe.ZAdd(ctx, one.key, to)
			return nil
		})
		return err
	}
	one.nearly = math.Abs(before.Score-now.Score) < 60_000
	must(f.t, exchange(ctx, before, now))
	one.back = func(ctx context.Context) error { return exchange(ctx, now, before) }
}

// turnEntry writes a stream anew, with one bit of one value turned.
func (f *flips) turnEntry(ctx context.Context, one *flip) {
	f.t.Helper()
	entries := f.redis.XRange(ctx, one.key, "-", "+").Val()
	if len(entries) == 0 {
		return
	}
	turned := entries[f.plan.IntN(len(entries))]
	names := slices.Sorted(maps.Keys(turned.Values))
	name := names[f.plan.IntN(len(names))]
	one.field, one.before = name, fmt.Sprint(turned.Values[name])
	one.now = f.bit(one.before, &one.what)
	one.what = "entry " + turned.ID + ", " + name + ", " + one.what
	anew := func(ctx context.Context, text string) error {
		return f.redis.Watch(ctx, func(tx *redis.Tx) error {
			now, err := tx.XRange(ctx, one.key, "-", "+").Result()
			if err != nil {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Del(ctx, one.key)
				for _, e := range now {
					if e.ID == turned.ID {
						e.Values[name] = text
					}
					pipe.XAdd(ctx, &redis.XAddArgs{Stream: one.key, ID: e.ID, Values: e.Values})
				}
				return nil
			})
			return err
		}, one.key)
	}
	must(f.t, anew(ctx, one.now))
	one.back = func(ctx context.Context) error { return anew(ctx, one.before) }
}

// turnItem turns a bit of an item of a list.
func (f *flips) turnItem(ctx context.Context, one *flip) {
	f.t.Helper()
	items := f.redis.LRange(ctx, one.key, 0, -1).Val()
	at := f.plan.IntN(len(items))
	one.before = items[at]
	one.now = f.bit(one.before, &one.what)
	must(f.t, f.redis.LSet(ctx, one.key, int64(at), one.now).Err())
	one.back = func(ctx context.Context) error { return f.redis.LSet(ctx, one.key, int64(at), one.before).Err() }
}

// bit turns over one bit of a text.
func (f *flips) bit(text string, what *string) string {
	if text == "" {
		*what = "a bit that is not there"
		return "\x01"
	}
	b := []byte(text)
	at, bit := f.plan.IntN(len(b)), f.plan.IntN(8)
	b[at] ^= 1 << bit
	*what = fmt.Sprintf("bit %d of byte %d of %.80q", bit, at, text)
	return string(b)
}

// counts are fields that count changes or attempts, by the kind of their key, and have
// no checksum: scripts raise them. Another number is shown to nobody and decides over no
// money: a change that was computed from the one before is refused, and computed again.
// run is how often a delivery has been tried of the times that it may be.
var counts = map[string][]string{"grants": {"v"}, "webhooks": {"v"}, "dlv": {"run"}}

// counting reports whether a count is another count now, or the room of a file is free some
// seconds sooner or later.
func (one *flip) counting() bool {
	if one.kind == "exports:files" && one.nearly {
		return true
	}
	// A transaction that stands in a payout says when it was moved along last.
	moved := one.kind == "parts" && strings.HasSuffix(one.field, ".upd")
	n, err := strconv.ParseUint(one.now, 10, 63)
	return err == nil && strconv.FormatUint(n, 10) == one.now && (moved || slices.Contains(counts[one.kind], one.field))
}
