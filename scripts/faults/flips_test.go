package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/redistest"
)

// TestFlips: one bit of what is stored is another one. Redis, a read through the API or
// `tollgate check` finds it, and no answer shows another amount.
func TestFlips(t *testing.T) {
	p := planned(t, "flips", 2000)
	server := redistest.Started(t, redistest.Real)
	w := newWorld(t, p, newSite(t, server.URL, 6), 1, 1)
	w.load(6)
	w.await("something of everything is there", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked > 200
	})
	w.rest()
	w.relax()
	for _, o := range w.orgs {
		if _, wrong := w.settle(o, time.Now().Add(time.Minute)); len(wrong) > 0 {
			t.Logf("before anything is changed: %s", wrong[0])
		}
	}
	// Nobody writes while bits are wrong: what is put back would undo it.
	w.works[0].now.End("TERM")
	f := &flips{world: w, redis: connect(t, server.Addr), shown: map[*org]map[string]string{}, by: map[string]int{}, missed: map[string]int{}}
	for _, o := range w.orgs {
		f.shown[o], _ = f.read(o)
	}
	f.learn()
	t.Cleanup(func() {
		for _, one := range f.now {
			if t.Failed() {
				t.Logf("turned over at last: %s of %s (%s)", one.what, one.key, one.kind)
			}
		}
	})
	for done := 0; done < p.count; done += len(w.orgs) {
		f.round(min(len(w.orgs), p.count-done))
	}
	w.works[0].start()
	w.judge()
	t.Logf("%d bits of %d kinds of values: %v", p.count, len(f.kinds[w.orgs[0]]), f.by)
	if len(f.missed) > 0 {
		t.Logf("without effect, and found by nobody: %v", f.missed)
	}
}

// flips is what is turned over, and what there is to compare with.
type flips struct {
	*world
	redis  *redis.Client
	shown  map[*org]map[string]string   // objects by list and id, before
	kinds  map[*org]map[string][]string // keys by kind
	by     map[string]int               // who found how many
	missed map[string]int               // by kind of key
	now    []*flip                      // what is turned over while check runs, which may not end
}

// passing are kinds of keys that hold nothing but what may be forgotten: rates, tokens that
// were shown, marks that expire.
var passing = []string{"rate", "jti", "seen", "mark", "spent"}

// learn lists the keys of each organization by their kind: what stands behind its id,
// without ids and numbers.
func (f *flips) learn() {
	f.t.Helper()
	f.kinds = map[*org]map[string][]string{}
	ctx := context.Background()
	for _, o := range f.orgs {
		f.kinds[o] = map[string][]string{}
		keys := f.redis.Scan(ctx, 0, "{*}:"+o.id+"*", 1000).Iterator()
		for keys.Next(ctx) {
			kind := kindOf(keys.Val(), o)
			f.kinds[o][kind] = append(f.kinds[o][kind], keys.Val())
		}
		must(f.t, keys.Err())
		for _, all := range f.kinds[o] {
			slices.Sort(all)
		}
	}
}

func kindOf(key string, o *org) string {
	_, rest, _ := strings.Cut(key, o.id)
	var words []string
	for word := range strings.SplitSeq(strings.TrimPrefix(rest, ":"), ":") {
		word, _, _ = strings.Cut(word, "_")
		if !strings.ContainsAny(word, "0123456789") {
			words = append(words, word)
		}
	}
	return strings.Join(words, ":")
}

// flip is one bit, and how to put it back.
type flip struct {
	org             *org
	kind, key, what string
	before          string // as DUMP has it
	ttl             time.Duration
}

// round turns one bit over for each of some organizations, which have nothing in common.
func (f *flips) round(count int) {
	f.t.Helper()
	var all []*flip
	for _, o := range f.orgs[:count] {
		all = append(all, f.turn(o))
	}
	f.now = all
	code, stdout, stderr := program.Try(f.t, f.env, "check", "--json")
	if code != 0 && code != 1 {
		f.fail("tollgate check: exit code %d\n%s", code, stderr)
	}
	f.now = nil
	for _, one := range all {
		now, damaged := f.read(one.org)
		misleading := f.misleading(one.org, now)
		found := strings.Contains(stdout, `"organization_id":"`+one.org.id+`"`) || strings.Contains(stdout, one.org.id)
		passes := slices.ContainsFunc(passing, func(word string) bool { return strings.HasPrefix(one.kind, word) })
		switch {
		case misleading != "":
			f.fail("%s of %s: another amount is shown: %s", one.what, one.key, misleading)
		case damaged:
			f.by["read"]++
		case found:
			f.by["check"]++
		case one.what == "":
			f.by["nothing to turn"]++
		case passes, maps.Equal(now, f.shown[one.org]) && one.ttl > 0:
			f.by["passes"]++
			f.missed[one.kind]++
		default:
			f.fail("nobody finds %s of %s (%s)", one.what, one.key, one.kind)
		}
		if one.what != "" {
			must(f.t, f.redis.RestoreReplace(context.Background(), one.key, one.ttl, one.before).Err())
		}
	}
}

// turn turns over one bit of something of a kind that is drawn: every kind has as many.
func (f *flips) turn(o *org) *flip {
	f.t.Helper()
	ctx := context.Background()
	kinds := slices.Sorted(maps.Keys(f.kinds[o]))
	kind := kinds[f.plan.IntN(len(kinds))]
	keys := f.kinds[o][kind]
	one := &flip{org: o, kind: kind, key: keys[f.plan.IntN(len(keys))]}
	var err error
	if one.before, err = f.redis.Dump(ctx, one.key).Result(); err != nil {
		return one // it has expired
	}
	one.ttl = max(0, f.redis.PTTL(ctx, one.key).Val())
	switch f.redis.Type(ctx, one.key).Val() {
	case "string":
		text := f.redis.Get(ctx, one.key).Val()
		must(f.t, f.redis.SetArgs(ctx, one.key, f.bit(text, &one.what), redis.SetArgs{KeepTTL: true}).Err())
	case "hash":
		fields := f.redis.HGetAll(ctx, one.key).Val()
		names := slices.Sorted(maps.Keys(fields))
		name := names[f.plan.IntN(len(names))]
		text := f.bit(fields[name], &one.what)
		one.what = "field " + name + ", " + one.what
		must(f.t, f.redis.HSet(ctx, one.key, name, text).Err())
	case "set":
		members := f.redis.SMembers(ctx, one.key).Val()
		slices.Sort(members)
		member := members[f.plan.IntN(len(members))]
		must(f.t, f.redis.SRem(ctx, one.key, member).Err())
		must(f.t, f.redis.SAdd(ctx, one.key, f.bit(member, &one.what)).Err())
	case "zset":
		f.turnMember(ctx, one)
	case "stream":
		f.turnEntry(ctx, one)
	default:
		one.what = ""
	}
	return one
}

// turnMember turns a bit of a member, or of its score.
func (f *flips) turnMember(ctx context.Context, one *flip) {
	f.t.Helper()
	members := f.redis.ZRangeWithScores(ctx, one.key, 0, -1).Val()
	m := members[f.plan.IntN(len(members))]
	if f.plan.IntN(2) == 0 {
		bit := f.plan.IntN(52)
		one.what = fmt.Sprintf("bit %d of the score of %v", bit, m.Member)
		score := math.Float64frombits(math.Float64bits(m.Score) ^ 1<<bit)
		must(f.t, f.redis.ZAdd(ctx, one.key, redis.Z{Score: score, Member: m.Member}).Err())
		return
	}
	must(f.t, f.redis.ZRem(ctx, one.key, m.Member).Err())
	must(f.t, f.redis.ZAdd(ctx, one.key, redis.Z{Score: m.Score, Member: f.bit(fmt.Sprint(m.Member), &one.what)}).Err())
}

// turnEntry writes a stream anew, with one bit of one value turned.
func (f *flips) turnEntry(ctx context.Context, one *flip) {
	f.t.Helper()
	entries := f.redis.XRange(ctx, one.key, "-", "+").Val()
	if len(entries) == 0 {
		return
	}
	turned := f.plan.IntN(len(entries))
	must(f.t, f.redis.Del(ctx, one.key).Err())
	for i, e := range entries {
		if i == turned {
			names := slices.Sorted(maps.Keys(e.Values))
			name := names[f.plan.IntN(len(names))]
			e.Values[name] = f.bit(fmt.Sprint(e.Values[name]), &one.what)
			one.what = "entry " + e.ID + ", " + name + ", " + one.what
		}
		must(f.t, f.redis.XAdd(ctx, &redis.XAddArgs{Stream: one.key, ID: e.ID, Values: e.Values}).Err())
	}
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

// read is every object that the API shows of an organization, by list and id; damaged is
// whether it says that something is.
func (f *flips) read(o *org) (shown map[string]string, damaged bool) {
	shown = map[string]string{}
	lists := []string{"/v1/payments", "/v1/transactions", "/v1/events", "/v1/payouts", "/v1/webhooks"}
	for _, list := range lists {
		cursor := ""
		for {
			said, err := f.once(o, "http://"+f.serves[0].addr, "GET", list+"?limit=100"+cursor, "", "")
			var page struct {
				Data []json.RawMessage `json:"data"`
				More bool              `json:"has_more"`
				Next string            `json:"next_cursor"`
			}
			if err != nil || said.status != 200 || json.Unmarshal([]byte(said.text), &page) != nil {
				damaged = true // an answer that says so
				break
			}
			for _, text := range page.Data {
				var object struct {
					ID      string `json:"id"`
					Damaged bool   `json:"damaged"`
				}
				_ = json.Unmarshal(text, &object)
				if object.Damaged {
					damaged = true
					continue
				}
				shown[fmt.Sprint(list, " ", object.ID)] = string(text)
			}
			if !page.More {
				break
			}
			cursor = "&cursor=" + page.Next
		}
	}
	return shown, damaged
}

// misleading is an object that is shown with other amounts than before.
func (f *flips) misleading(o *org, now map[string]string) string {
	for id, text := range now {
		before, known := f.shown[o][id]
		if known && amounts(text) != amounts(before) {
			return before + " and now " + text
		}
	}
	return ""
}

// amounts are the members of an object that have money.
func amounts(text string) string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &object)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if strings.Contains(name, "amount") || strings.Contains(name, "fee") || name == "currency" || name == "data" {
			all = append(all, name+string(object[name]))
		}
	}
	return strings.Join(all, " ")
}
