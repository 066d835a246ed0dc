package rediskv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
)

// cut has nearly all of the organization's logs in segments, of a few entries each.
func (f *fixture) cut(t testing.TB) {
	t.Helper()
	k := f.Space(f.Caller.Organization)
	if _, err := streams.Cut(t.Context(), f.DB, streams.Bounds{Entries: 3, Bytes: 64 << 10}, []string{k.Events(), k.Audit()}); err != nil {
		t.Fatal(err)
	}
}

// logged is all that can be read of the logs, by every way there is.
func (f *fixture) logged(t testing.TB, times []tollgate.Instant) (all []string) {
	t.Helper()
	say := func(what string, value any, err error) {
		must(t, err)
		all = append(all, fmt.Sprintf("%s: %s", what, value))
	}
	for _, descending := range []bool{false, true} {
		for _, q := range []eventlog.EventQuery{
			{Limit: 4}, {Limit: 100}, {Limit: 5, MerchantAccountID: f.Config.MerchantAccounts[0].ID}, {Limit: 3, ObjectID: f.Config.MerchantAccounts[0].ID},
		} {
			q.Descending = descending
			for more := true; more; {
				events, next, again, err := f.Events(t.Context(), f.Caller, q)
				say(fmt.Sprintf("%+v", q), fmt.Sprintf("%s %v %v", events, next, again), err)
				q.After, more = next, again
				for _, text := range events {
					var e struct {
						ID string `json:"id"`
					}
					must(t, json.Unmarshal(text, &e))
					found, err := f.Event(t.Context(), f.Caller, e.ID, nil)
					say(e.ID, found, err)
				}
			}
		}
		for _, from := range times {
			for _, until := range times {
				q := ledger.TransactionQuery{Descending: descending, Limit: 100, CreatedAfter: from, CreatedBefore: until}
				found, _, _, err := f.Transactions(t.Context(), f.Caller, q)
				must(t, err)
				text, err := json.Marshal(found)
				say(fmt.Sprint(from, until), text, err)
			}
		}
	}
	for _, d := range []tollgate.Dataset{tollgate.DatasetEvents, tollgate.DatasetAudit} {
		facts, err := f.ExportFacts(t.Context(), f.Caller.Organization, d, tollgate.ExportFilter{})
		say(string(d), fmt.Sprintf("%+v", *facts), err)
	}
	return all
}

// TestLogsInSegments: whatever is in segments is read as before.
func TestLogsInSegments(t *testing.T) {
	f := newFixture(t)
	w := f.endpoint(t)
	times := []tollgate.Instant{0}
	for n := range 30 {
		f.Pay(t, eur(100), tollgate.CaptureAutomatic)
		if n%10 == 0 {
			times = append(times, f.Now())
		}
		f.Clock.Advance(time.Minute)
	}
	f.fanOut(t, "a")
	before := f.logged(t, times)
	f.cut(t)
	raw, log := f.raw(t)
	for _, log := range []string{log, f.Space(f.Caller.Organization).Audit()} {
		if n, err := raw.XLen(t.Context(), streams.Directory(log)).Result(); err != nil || n < 5 {
			t.Fatalf("%s has %d segments, %v", log, n, err)
		}
	}
	for i, is := range f.logged(t, times) {
		if is != before[i] {
			t.Errorf("was %.700s\nis  %.700s", before[i], is)
		}
	}
	work := f.take(t, 100)
	must(t, f.ReadBodies(t.Context(), work))
	for _, one := range work {
		if one.Body == nil || one.Endpoint.ID != w.ID {
			t.Errorf("%s has no body", one.EventID)
		}
		f.record(t, one, succeeded)
	}
	e := f.export(t, tollgate.DatasetEvents, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	if rows, all := strings.Count(f.file(t, e), "\n"), *e.Progress.RowsTotal; int64(rows) != all || rows < 30 {
		t.Errorf("%d of %d events are exported", rows, all)
	}
	testkit.Consistent(t, f.Store)

	// A cursor of before stays one; what has been trimmed is told; and so is what is lost.
	all, end, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100})
	must(t, err)
	_, early, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 2})
	must(t, err)
	names, err := raw.XRange(t.Context(), streams.Directory(log), "-", "+").Result()
	must(t, err)
	must(t, raw.Del(t.Context(), streams.Segment(log, names[0].ID)).Err())
	must(t, raw.XDel(t.Context(), streams.Directory(log), names[0].ID).Err())
	if _, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 1, After: early}); code(err) != string(tollgate.CodeCursorExpired) {
		t.Errorf("a position that was trimmed: %v", err)
	}
	if left, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100}); err != nil || len(left) != len(all)-3 {
		t.Errorf("%d of %d events are left, %v", len(left), len(all), err)
	}
	last, err := raw.XRevRangeN(t.Context(), log, "+", "-", 1).Result()
	must(t, err)
	must(t, raw.XDel(t.Context(), log, last[0].ID).Err())
	f.Pay(t, eur(200), tollgate.CaptureManual)
	if _, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100, After: end}); code(err) != string(tollgate.CodeHistoryLost) {
		t.Errorf("after a loss: %v", err)
	}
}

// TestCheckFindsSegments: a segment that is gone, one that is too many, one that another
// has entries of, and one that has lost some.
func TestCheckFindsSegments(t *testing.T) {
	f := newFixture(t)
	for range 30 {
		f.Pay(t, eur(100), tollgate.CaptureAutomatic)
	}
	f.cut(t)
	testkit.Consistent(t, f.Store)
	raw, log := f.raw(t)
	names, err := raw.XRange(t.Context(), streams.Directory(log), "-", "+").Result()
	must(t, err)
	key := func(n int) string { return streams.Segment(log, names[n].ID) }
	for what, break_ := range map[string]func() (key string){
		"events:" + names[1].ID + ": the directory of the log names it, and it is not there": func() string {
			must(t, raw.Del(t.Context(), key(1)).Err())
			return key(1)
		},
		"events:" + names[2].ID + ": no directory of a log names it": func() string {
			must(t, raw.XDel(t.Context(), streams.Directory(log), names[2].ID).Err())
			return streams.Directory(log)
		},
		"events:" + names[3].ID + ": it has 2 entries, and had 3": func() string {
			entries, err := raw.XRange(t.Context(), key(3), "-", "+").Result()
			must(t, err)
			must(t, raw.XDel(t.Context(), key(3), entries[1].ID).Err())
			return key(3)
		},
		"events:" + names[4].ID + ": it begins with entry ": func() string {
			must(t, raw.XTrimMaxLen(t.Context(), key(4), 1).Err())
			return key(4)
		},
		"events:" + names[5].ID + ": it ends with entry ": func() string {
			must(t, raw.XAdd(t.Context(), &redis.XAddArgs{Stream: key(5), ID: streams.Next(names[6].ID), Values: []any{"b", "{}"}}).Err())
			return key(5)
		},
		"events:" + names[6].ID + `: the directory of the log counts "x"`: func() string {
			must(t, raw.Del(t.Context(), streams.Directory(log)).Err())
			for i, m := range names {
				n := rediskv.Text(m, "n")
				if i == 6 {
					n = "x"
				}
				must(t, raw.XAdd(t.Context(), &redis.XAddArgs{Stream: streams.Directory(log), ID: m.ID, Values: []any{"n", n}}).Err())
			}
			return streams.Directory(log)
		},
	} {
		kept := map[string][]redis.XMessage{}
		for _, key := range scanKeys(t, raw, log+":*") {
			entries, err := raw.XRange(t.Context(), key, "-", "+").Result()
			must(t, err)
			kept[key] = entries
		}
		changed := break_()
		found := slices.Collect(func(yield func(string) bool) {
			for _, one := range testkit.Findings(t, f.Store) {
				yield(one.ID + ": " + one.Message)
			}
		})
		if !slices.ContainsFunc(found, func(one string) bool { return strings.HasPrefix(one, what) }) {
			t.Errorf("not found: %s, only %q", what, found)
		}
		must(t, raw.Del(t.Context(), changed).Err())
		for _, m := range kept[changed] {
			values := []any{}
			for _, name := range []string{"i", "t", "a", "b", "e", "n"} {
				if value, ok := m.Values[name]; ok {
					values = append(values, name, value)
				}
			}
			must(t, raw.XAdd(t.Context(), &redis.XAddArgs{Stream: changed, ID: m.ID, Values: values}).Err())
		}
	}
	testkit.Consistent(t, f.Store)
}

// TestNoLogIsLarge: after a worker has looked, no key of a log is over a megabyte, and
// the newest entries are in the head; where earlier builds read, nothing is moved.
func TestNoLogIsLarge(t *testing.T) {
	f := newFixture(t)
	k := f.Space(f.Caller.Organization)
	raw := rawClient(t, f.URL)
	pipe := raw.Pipeline()
	const entries = 4000
	for n := range entries {
		size := 1200
		if n%40 < 2 || n > entries-20 {
			size = 60 << 10
		}
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: k.Audit(), Values: []any{"b", strings.Repeat("x", size), "e", "1;;"}})
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	must(t, f.WriteLayout(t.Context(), rediskv.Apart))
	if n, err := f.CutLogs(t.Context(), k.Partition); n != 0 || err != nil {
		t.Errorf("%d segments for earlier builds, %v", n, err)
	}
	must(t, f.WriteLayout(t.Context(), rediskv.Together))
	n, err := f.CutLogs(t.Context(), k.Partition)
	if n < 20 || err != nil {
		t.Errorf("%d segments, %v", n, err)
	}
	found := int64(0)
	for _, key := range scanKeys(t, raw, k.Audit()+"*") {
		if redistest.Kind(t) != redistest.Miniredis {
			size, err := raw.MemoryUsage(t.Context(), key, 0).Result()
			must(t, err)
			if size > 1<<20 {
				t.Errorf("%s has %d bytes", key, size)
			}
		}
		if key != streams.Directory(k.Audit()) {
			found += raw.XLen(t.Context(), key).Val()
		}
	}
	if found < entries {
		t.Errorf("%d entries are left", found)
	}
	if n, err := f.CutLogs(t.Context(), k.Partition); n != 0 || err != nil {
		t.Errorf("%d more segments, %v", n, err)
	}
}

// long is an organization whose audit record is too long.
func (f *fixture) long(t *testing.T) rediskv.Space {
	k := f.Space(f.Caller.Organization)
	pipe := rawClient(t, f.URL).Pipeline()
	for range 1200 {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: k.Audit(), Values: []any{"b", "{}"}})
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	return k
}

var logResends = []resend{
	{"cut_segment", "another worker goes on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		k := f.long(t)
		cut := func(f *fixture) error { _, err := f.CutLogs(t.Context(), k.Partition); return err }
		return cut, func() { must(t, cut(f)) }
	}},
	{"trim_segment", "another worker trims more", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		k := f.long(t)
		_, err := f.CutLogs(t.Context(), k.Partition)
		must(t, err)
		trim := func(f *fixture) error {
			_, err := f.TrimAudit(t.Context(), k.Org, tollgate.At(time.Now().Add(time.Hour)))
			return err
		}
		return trim, func() { must(t, trim(f)) }
	}},
}
