package streams_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/store"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
)

const log = "{p03}:org_test:events"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, url string, observe func(string, time.Duration, error)) *store.Store {
	return testkit.Open(t, rediskv.Options{URL: url, Clock: time.Now, Observe: observe})
}

// book is a log beside what must be in it.
type book struct {
	t       *testing.T
	random  *rand.Rand
	s       [2]*store.Store
	recent  *streams.Recent
	between func() // what happens after the next answer to a reader
	entries []redis.XMessage
	milli   uint64
	seq     uint64
}

// append appends entries, some of them in one millisecond, and now and then a large one.
func (b *book) append() {
	for range 1 + b.random.IntN(6) {
		if step := b.random.IntN(3); step > 0 {
			b.milli, b.seq = b.milli+uint64(step), uint64(b.random.IntN(2))
		} else {
			b.seq++
		}
		size := 1 + b.random.IntN(20)
		if b.random.IntN(20) == 0 {
			size = 200
		}
		m := redis.XMessage{ID: fmt.Sprintf("%d-%d", b.milli, b.seq), Values: map[string]any{
			"i": fmt.Sprint("evt_", len(b.entries)), "t": fmt.Sprint("t", b.random.IntN(3)), "a": "ma_1", "b": strings.Repeat("x", size),
		}}
		values := []any{"i", m.Values["i"], "t", m.Values["t"], "a", "ma_1", "b", m.Values["b"]}
		must(b.t, b.s[0].Redis.XAdd(b.t.Context(), &redis.XAddArgs{Stream: log, ID: m.ID, Values: values}).Err())
		b.entries = append(b.entries, m)
	}
}

var small = streams.Bounds{Entries: 4, Bytes: 120}

// meanwhile has a worker cut, sometimes, while a reader or another worker has one answer
// and not yet the other one.
func (b *book) meanwhile() {
	if b.random.IntN(2) == 0 {
		b.between = func() {
			if _, err := streams.Cut(b.t.Context(), b.s[1].DB, small, []string{log}); err != nil {
				b.t.Error(err)
			}
		}
	}
}

// answered is told of what the reader's store does.
func (b *book) answered(operation string, _ time.Duration, _ error) {
	if do := b.between; do != nil && (operation == "read_log" || operation == "plan_segment") {
		b.between = nil
		do()
	}
}

// cut has one worker cut, or two at once, one of which may die between two segments.
func (b *book) cut() {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	b.meanwhile()
	var workers sync.WaitGroup
	workers.Go(func() { _, _ = streams.Cut(ctx, b.s[0].DB, small, []string{log}) })
	if b.random.IntN(2) == 0 {
		if b.random.IntN(2) == 0 {
			cancel()
		}
		workers.Go(func() {
			if _, err := streams.Cut(b.t.Context(), b.s[1].DB, small, []string{log}); err != nil {
				b.t.Error(err)
			}
		})
	}
	workers.Wait()
	b.between = nil
}

func (b *book) trim() {
	if len(b.entries) == 0 {
		return
	}
	at := b.entries[b.random.IntN(len(b.entries))].ID
	milli, _ := strconv.ParseInt(at[:strings.IndexByte(at, '-')], 10, 64)
	if b.random.IntN(6) == 0 {
		milli = int64(b.milli) + 1 // all of it
	}
	n, err := streams.Trim(b.t.Context(), b.s[0].DB, "trim", log, tollgate.Instant(milli))
	must(b.t, err)
	before := len(b.entries)
	b.entries = slices.DeleteFunc(b.entries, func(m redis.XMessage) bool { return streams.Less(m.ID, fmt.Sprintf("%d-0", milli)) })
	if removed := before - len(b.entries); int(n) != removed {
		b.t.Errorf("trimmed %d entries, and says %d", removed, n)
	}
}

// bound is an end of a range in each of its forms, and what it means.
func (b *book) bound(low bool) (text string, within func(id string) bool) {
	all := func(string) bool { return true }
	less := func(a, c string) bool { return low && streams.Less(a, c) || !low && streams.Less(c, a) }
	milli := 1000 + uint64(b.random.IntN(int(b.milli)-999+2))
	id := fmt.Sprintf("%d-%d", milli, b.random.IntN(3))
	if len(b.entries) > 0 && b.random.IntN(2) == 0 {
		id = b.entries[b.random.IntN(len(b.entries))].ID
	}
	switch b.random.IntN(5) {
	case 0:
		if low {
			return "-", all
		}
		return "+", all
	case 1:
		return "(" + id, func(other string) bool { return less(id, other) }
	case 2:
		return fmt.Sprint(milli), func(other string) bool {
			m, _, _ := strings.Cut(other, "-")
			n, _ := strconv.ParseUint(m, 10, 64)
			return low && n >= milli || !low && n <= milli
		}
	default:
		return id, func(other string) bool { return !less(other, id) }
	}
}

// read compares a page with what must be there.
func (b *book) read() {
	low, above := b.bound(true)
	high, below := b.bound(false)
	q := streams.Query{Log: log, First: low, Last: high, Count: 1 + b.random.IntN(30)}
	in := slices.Clone(b.entries)
	if b.random.IntN(2) == 0 {
		q.Descending, q.First, q.Last = true, high, low
		slices.Reverse(in)
	}
	in = slices.DeleteFunc(in, func(m redis.XMessage) bool { return !above(m.ID) || !below(m.ID) })
	in = in[:min(len(in), q.Count)]
	if b.random.IntN(3) == 0 {
		q.Types = ",t1,"
	}
	want := slices.Clone(in)
	if q.Types != "" {
		want = slices.DeleteFunc(want, func(m redis.XMessage) bool { return m.Values["t"] != "t1" })
	}
	b.meanwhile()
	p, err := streams.Read(b.t.Context(), b.s[0].DB, q)
	must(b.t, err)
	last := ""
	if p.Last != nil {
		last = p.Last.ID
	}
	expected := ""
	if len(in) > 0 {
		expected = in[len(in)-1].ID
	}
	if fmt.Sprint(p.Entries) != fmt.Sprint(want) || p.Looked != len(in) || last != expected {
		b.t.Errorf("%+v: %d looked at, the last %s: %v, not %d, %s: %v", q, p.Looked, last, p.Entries, len(in), expected, want)
	}
}

// resume reads on from an entry, which must be found.
func (b *book) resume() {
	if len(b.entries) == 0 {
		return
	}
	at := b.random.IntN(len(b.entries))
	m := b.entries[at]
	q := streams.Query{Log: log, Resumed: m.ID, First: streams.Next(m.ID), Last: "+", Count: 1 + b.random.IntN(5)}
	want := b.entries[at+1:]
	if b.random.IntN(2) == 0 {
		q.Descending, q.First, q.Last = true, streams.Previous(m.ID), "-"
		want = slices.Clone(b.entries[:at])
		slices.Reverse(want)
	}
	p, err := streams.Read(b.t.Context(), b.s[0].DB, q)
	must(b.t, err)
	if want = want[:min(len(want), q.Count)]; fmt.Sprint(p.Entries) != fmt.Sprint(want) {
		b.t.Errorf("from %s on: %v, not %v", m.ID, p.Entries, want)
	}
	if p.There != nil && p.There.ID != m.ID {
		b.t.Errorf("%s is %s", m.ID, p.There.ID)
	}
	if p.There == nil { // then whoever asks looks there alone
		if p.Entries, err = streams.Range(b.t.Context(), b.s[0].DB, log, m.ID, m.ID, 1); err != nil || len(p.Entries) != 1 {
			b.t.Errorf("%s is not there: %v", m.ID, err)
		}
	}
	behind := &streams.Asked{Log: log, First: m.ID, Last: m.ID, Count: 1}
	must(b.t, streams.Behind(b.t.Context(), b.s[0].Redis, []*streams.Asked{behind}))
	again := &streams.Asked{Log: log, First: m.ID, Last: m.ID, Count: 1}
	must(b.t, b.recent.Behind(b.t.Context(), b.s[0].Redis, []*streams.Asked{again}))
	head, err := b.s[0].Redis.XRange(b.t.Context(), log, m.ID, m.ID).Result()
	must(b.t, err)
	if len(behind.Found)+len(head) != 1 || fmt.Sprint(again.Found) != fmt.Sprint(behind.Found) {
		b.t.Errorf("%s is %d times in the head, and %d times in segments; kept is %v", m.ID, len(head), len(behind.Found), again.Found)
	}
}

func (b *book) count() {
	c := streams.Counter{Log: log}
	for asked, done := 0, false; !done; done = c.Done() {
		if asked++; asked > 2 {
			b.t.Fatal("it is not done")
		}
		must(b.t, b.s[0].AtOnce(b.t.Context(), func(pipe redis.Pipeliner) { c.Ask(b.t.Context(), pipe) }))
	}
	if c.Len() != int64(len(b.entries)) {
		b.t.Errorf("%d entries, not %d", c.Len(), len(b.entries))
	}
}

// segment is what a segment has.
func (b *book) segment(name redis.XMessage) []redis.XMessage {
	key := streams.Segment(log, name.ID)
	if name.Values["l"] == nil {
		entries, err := b.s[0].Redis.XRange(b.t.Context(), key, "-", "+").Result()
		must(b.t, err)
		return entries
	}
	text, err := b.s[0].Redis.Get(b.t.Context(), key).Result()
	must(b.t, err)
	entries, err := streams.Unpack(text)
	must(b.t, err)
	return entries
}

// keys are as small as they must be, and the head has the last entry.
func (b *book) keys() {
	ctx, c := b.t.Context(), b.s[0].Redis
	head, err := c.XRange(ctx, log, "-", "+").Result()
	must(b.t, err)
	if n := len(b.entries); n > 0 && (len(head) == 0 || head[len(head)-1].ID != b.entries[n-1].ID) {
		b.t.Errorf("the head has %v, and not the last entry", head)
	}
	names, err := c.XRange(ctx, streams.Directory(log), "-", "+").Result()
	must(b.t, err)
	for _, name := range names {
		entries := b.segment(name)
		bytes := 0
		for _, m := range entries {
			for name, value := range m.Values {
				bytes += len(name) + len(value.(string))
			}
		}
		if len(entries) == 0 || len(entries) > small.Entries || bytes > small.Bytes && len(entries) > 1 {
			b.t.Errorf("segment %s has %d entries with %d bytes", name.ID, len(entries), bytes)
		}
	}
	if n, err := c.Exists(ctx, streams.Directory(log)).Result(); err != nil || n == 1 && len(names) == 0 {
		b.t.Errorf("a directory without segments, %v", err)
	}
}

// TestReadsAreThoseOfOneStream: whatever is appended, moved and trimmed, by however many
// workers, every read gives what one stream would: where segments are streams, where they
// are packed, and where some are.
func TestReadsAreThoseOfOneStream(t *testing.T) {
	for name, layouts := range map[string][]rediskv.Layout{"streams": {rediskv.Together}, "packed": {rediskv.Compact}, "both": {rediskv.Together, rediskv.Compact}} {
		t.Run(name, func(t *testing.T) {
			url := redistest.URL(t)
			b := &book{t: t, milli: 1000, recent: streams.NewRecent(3)}
			b.s[0], b.s[1] = open(t, url, b.answered), open(t, url, nil)
			segments := 0
			for seed := range uint64(25) {
				b.random = rand.New(rand.NewPCG(seed, 14))
				for range 60 {
					switch b.random.IntN(12) {
					case 0, 1, 2, 3, 4:
						b.append()
					case 5, 6:
						for _, s := range b.s { // each has its own, for as long as it has not heard of a change
							must(t, s.WriteLayout(t.Context(), layouts[b.random.IntN(len(layouts))]))
						}
						b.cut()
					case 7:
						if b.random.IntN(3) == 0 {
							b.trim()
							b.keys()
						}
					default:
						b.read()
						b.resume()
						b.count()
					}
				}
				b.keys()
				n, err := b.s[0].Redis.XLen(t.Context(), streams.Directory(log)).Result()
				must(t, err)
				if segments = max(segments, int(n)); t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			if segments < 40 {
				t.Errorf("only %d segments at a time: the reads say little", segments)
			}
		})
	}
}

// TestRecentOfALostLog: a Redis that has lost its last writes has another segment that begins
// with the same entry. Who kept the one of before reads it anew.
func TestRecentOfALostLog(t *testing.T) {
	s := open(t, redistest.URL(t), nil)
	must(t, s.WriteLayout(t.Context(), rediskv.Compact))
	recent := streams.NewRecent(3)
	for _, id := range []string{"5-2", "5-3"} { // what comes behind the first entry
		must(t, s.Redis.Del(t.Context(), log, streams.Directory(log), streams.Segment(log, "5-1")).Err())
		for _, id := range []string{"5-1", id, "9-1", "9-2", "9-3", "9-4"} {
			must(t, s.Redis.XAdd(t.Context(), &redis.XAddArgs{Stream: log, ID: id, Values: []any{"b", id}}).Err())
		}
		if n, err := streams.Cut(t.Context(), s.DB, streams.Bounds{Entries: 2, Bytes: 100}, []string{log}); n == 0 || err != nil {
			t.Fatalf("%d segments, %v", n, err)
		}
		a := &streams.Asked{Log: log, First: id, Last: id, Count: 1}
		must(t, recent.Behind(t.Context(), s.Redis, []*streams.Asked{a}))
		if len(a.Found) != 1 || a.Found[0].ID != id {
			t.Errorf("%s is not found: %v", id, a.Found)
		}
	}
}
