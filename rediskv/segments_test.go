package rediskv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	for name, layout := range inSegments {
		t.Run(name, func(t *testing.T) { logsInSegments(t, layout) })
	}
}

// inSegments are the layouts in which segments are streams, and packed.
var inSegments = map[string]rediskv.Layout{"streams": rediskv.Together, "packed": rediskv.Compact}

func logsInSegments(t *testing.T, layout rediskv.Layout) {
	f := newFixture(t)
	must(t, f.WriteLayout(t.Context(), layout))
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
	must(t, f.WriteLayout(t.Context(), rediskv.Together))
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
		f.finds(t, what)
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

// finds is that a check has a finding whose id and message begin so.
func (f *fixture) finds(t *testing.T, what string) {
	t.Helper()
	var found []string
	for _, one := range testkit.Findings(t, f.Store) {
		found = append(found, one.ID+": "+one.Message)
	}
	if !slices.ContainsFunc(found, func(one string) bool { return strings.HasPrefix(one, what) }) {
		t.Errorf("not found: %s, only %q", what, found)
	}
}

// TestCheckFindsPackedSegments: one that is gone, one that is too many, one in the place of
// another, one with a bit that was turned over, and one in which other entries are.
func TestCheckFindsPackedSegments(t *testing.T) {
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
	text := func(n int) string {
		text, err := raw.Get(t.Context(), key(n)).Result()
		must(t, err)
		return text
	}
	for what, change := range map[string]func() (key, text string){
		"events:" + names[1].ID + ": the directory of the log names it, and it is not there": func() (string, string) { return key(1), "" },
		"events:1-1: no directory of a log names it":                                         func() (string, string) { return streams.Segment(log, "1-1"), text(2) },
		"events:" + names[3].ID + ": it begins with entry ":                                  func() (string, string) { return key(3), text(4) },
		"events:" + names[4].ID + ": it cannot be read: ": func() (string, string) {
			b := []byte(text(4))
			b[len(b)-1] ^= 4
			return key(4), string(b)
		},
		"events:" + names[5].ID + ": it cannot be read: it is no packed segment": func() (string, string) {
			return key(5), strings.Replace(text(5), "1;3;", "1;2;", 1)
		},
	} {
		changed, is := change()
		was, _ := raw.Get(t.Context(), changed).Result()
		put := func(text string) {
			if text == "" {
				must(t, raw.Del(t.Context(), changed).Err())
				return
			}
			must(t, raw.Set(t.Context(), changed, text, 0).Err())
		}
		put(is)
		f.finds(t, what)
		put(was)
	}
	testkit.Consistent(t, f.Store)
}

// TestDamagedSegment: who reads past a packed segment that is damaged is told of it once, in
// its place, and reads all that is in front of it and behind it.
func TestDamagedSegment(t *testing.T) {
	f := newFixture(t)
	for range 10 {
		f.Pay(t, eur(100), tollgate.CaptureAutomatic)
	}
	f.cut(t)
	all, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100})
	must(t, err)
	raw, log := f.raw(t)
	names, err := raw.XRange(t.Context(), streams.Directory(log), "-", "+").Result()
	must(t, err)
	key := streams.Segment(log, names[1].ID)
	text, err := raw.Get(t.Context(), key).Result()
	must(t, err)
	must(t, raw.Set(t.Context(), key, text[:len(text)-1], 0).Err())
	for _, descending := range []bool{false, true} {
		var found []string
		q := eventlog.EventQuery{Limit: 2, Descending: descending}
		for more := true; more; {
			var page []jsontext.Value
			page, q.After, more, err = f.Events(t.Context(), f.Caller, q)
			must(t, err)
			for _, one := range page {
				found = append(found, string(one))
			}
		}
		if descending {
			slices.Reverse(found)
		}
		// Its two others are missing, and the last event is that it was noticed.
		if len(found) != len(all)-1 || !strings.Contains(found[len(found)-1], `"integrity.failed"`) || !strings.Contains(found[3], `"damaged":true`) || !strings.Contains(found[3], strings.ReplaceAll(names[1].ID, "-", "_")) {
			t.Fatalf("%d of %d rows: %s", len(found), len(all), strings.Join(found, "\n"))
		}
		for i, want := range slices.Delete(slices.Clone(all), 3, 6) {
			if is := slices.Delete(slices.Clone(found), 3, 4)[i]; is != string(want) {
				t.Errorf("row %d is %s, not %s", i, is, want)
			}
		}
	}
}

// TestNoLogIsLarge: after a worker has looked, no key of a log is over a megabyte, and
// the newest entries are in the head; where earlier builds read, nothing is moved.
func TestNoLogIsLarge(t *testing.T) {
	for name, layout := range inSegments {
		t.Run(name, func(t *testing.T) { noLogIsLarge(t, layout) })
	}
}

func noLogIsLarge(t *testing.T, layout rediskv.Layout) {
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
	must(t, f.WriteLayout(t.Context(), layout))
	n, err := f.CutLogs(t.Context(), k.Partition)
	if n < 20 || err != nil {
		t.Errorf("%d segments, %v", n, err)
	}
	length := streams.Counter{Log: k.Audit()}
	for done := false; !done; done = length.Done() {
		must(t, f.AtOnce(t.Context(), func(pipe redis.Pipeliner) { length.Ask(t.Context(), pipe) }))
	}
	if length.Len() < entries {
		t.Errorf("%d entries are left", length.Len())
	}
	for _, key := range scanKeys(t, raw, k.Audit()+"*") {
		if redistest.Kind(t) != redistest.Miniredis {
			size, err := raw.MemoryUsage(t.Context(), key, 0).Result()
			must(t, err)
			if size > 1<<20 {
				t.Errorf("%s has %d bytes", key, size)
			}
		}
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

// logResends are those of both layouts, each with what cuts and what trims in it.
var logResends = slices.Concat(inLayout(rediskv.Together, "cut_segment", "trim_segment"), inLayout(rediskv.Compact, "pack_segment", "replace_segment"))

func inLayout(layout rediskv.Layout, cuts, trims string) []resend {
	cut := func(t *testing.T, f *fixture, k rediskv.Space) error {
		must(t, f.WriteLayout(t.Context(), layout))
		_, err := f.CutLogs(t.Context(), k.Partition)
		return err
	}
	return []resend{
		{cuts, "another worker goes on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
			k := f.long(t)
			return func(f *fixture) error { return cut(t, f, k) }, func() { must(t, cut(t, f, k)) }
		}},
		{trims, "another worker trims more", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
			k := f.long(t)
			must(t, cut(t, f, k))
			trim := func(f *fixture) error {
				_, err := f.TrimAudit(t.Context(), k.Org, tollgate.At(time.Now().Add(time.Hour)))
				return err
			}
			return trim, func() { must(t, trim(f)) }
		}},
	}
}
