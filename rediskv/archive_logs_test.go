package rediskv_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs/shelf"
	"tollgate/rediskv/packs/shelf/s3/s3test"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
)

// packing is a fixture whose events go into packs.
type packing struct {
	*fixture
	logs    *logs.Store
	shelves []shelf.Shelf
}

func (f *fixture) packing(t testing.TB, o logs.Options, places ...string) *packing {
	t.Helper()
	for _, at := range places {
		o.Shelves = append(o.Shelves, openShelf(t, at))
	}
	o.Scratch = t.TempDir()
	a := &packing{fixture: f, logs: logs.New(f.DB, o), shelves: o.Shelves}
	f.UseLogs(a.logs)
	return a
}

// trimNow trims the events of all partitions, however young they are.
func (f *fixture) trimNow(t testing.TB) (removed int64) {
	t.Helper()
	for p := range f.Partitions() {
		n, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour)))
		must(t, err)
		removed += n
	}
	return removed
}

// kept is how many events Redis has.
func (f *fixture) kept(t testing.TB) int64 {
	t.Helper()
	raw, _ := f.raw(t)
	n, err := raw.XLen(t.Context(), f.Space(f.Caller.Organization).Events()).Result()
	must(t, err)
	return n
}

// findings are those of all partitions.
func (a *packing) findings(t testing.TB, heal bool) (all []logs.Finding, c logs.Checked) {
	t.Helper()
	for p := range a.Partitions() {
		n, err := a.logs.Check(t.Context(), p, heal, func(f logs.Finding) { all = append(all, f) })
		must(t, err)
		c.Lines, c.Packs, c.Entries, c.Bytes = c.Lines+n.Lines, c.Packs+n.Packs, c.Entries+n.Entries, c.Bytes+n.Bytes
	}
	return all, c
}

// briefly is what clients are answered who read all events, in both orders, and each by its
// id, of every so manieth.
func (f *fixture) briefly(t testing.TB, every int) map[string]string {
	t.Helper()
	all, n := map[string]string{}, 0
	for _, descending := range []bool{false, true} {
		q := eventlog.EventQuery{Limit: 60, Descending: descending}
		for more, page := true, 0; more; page++ {
			rows, next, again, err := f.Events(t.Context(), f.Caller, q)
			must(t, err)
			text, _ := json.Marshal(rows)
			all[fmt.Sprintf("descending %t, page %d", descending, page)] = string(text)
			q.After, more = next, again && err == nil
			for _, row := range rows {
				if n++; n%every == 0 && !descending {
					id := idIn(t, row)
					text, err := f.Event(t.Context(), f.Caller, id, nil)
					all[id] = fmt.Sprintf("%s %v", text, err)
				}
			}
		}
	}
	return all
}

// eventAnswers is everything that clients are answered about events: each by its id, and each
// page of all kinds of lists, page by page. Of two cursors that lead to the same next page
// either will do.
func (f *fixture) eventAnswers(t testing.TB, payments []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	ids := map[string]bool{}
	account := f.Config.MerchantAccounts[0].ID
	queries := map[string]eventlog.EventQuery{
		"all": {Limit: 7}, "many": {Limit: 100}, "of the account": {Limit: 5, MerchantAccountID: account}, "naming it": {Limit: 3, ObjectID: account},
		"captures": {Limit: 4, Types: tollgate.TypeFilter{"payment.captured"}}, "of nobody": {Limit: 5, Accounts: []string{"ma_none"}},
	}
	for i, id := range payments {
		if i%5 != 0 {
			continue
		}
		queries["of payment "+id] = eventlog.EventQuery{Limit: 1 + i%3, ObjectID: id}
	}
	for name, q := range queries {
		for _, q.Descending = range []bool{false, true} {
			of := q
			for more, page := true, 0; more; page++ {
				rows, next, again, err := f.Events(t.Context(), f.Caller, of)
				text, _ := json.Marshal(rows)
				all[fmt.Sprintf("%s, descending %t, page %d", name, q.Descending, page)] = fmt.Sprintf("%s %t %v", text, again, err)
				if err != nil {
					break
				}
				of.After, more = next, again
				for _, row := range rows {
					ids[idIn(t, row)] = true
				}
			}
		}
	}
	for id := range ids {
		text, err := f.Event(t.Context(), f.Caller, id, nil)
		all[id] = fmt.Sprintf("%s %v", text, err)
		_, err = f.Event(t.Context(), f.Caller, id, []string{"ma_none"})
		all[id+" of another account"] = fmt.Sprint(err)
	}
	return all
}

// exportedWhole compares an export of all events with the log until then.
func (f *fixture) exportedWhole(t testing.TB) {
	t.Helper()
	var log strings.Builder
	q := eventlog.EventQuery{Limit: 100}
	for more := true; more; {
		var rows []jsontext.Value
		var err error
		rows, q.After, more, err = f.Events(t.Context(), f.Caller, q)
		must(t, err)
		for _, row := range rows {
			log.Write(append(row, '\n'))
		}
	}
	e := f.export(t, tollgate.DatasetEvents, tollgate.FormatNDJSON, tollgate.ExportFilter{})
	if file := f.file(t, e); !strings.HasPrefix(file, log.String()) {
		t.Errorf("of %d bytes of events the export has\n%s", log.Len(), file)
	}
}

func idIn(t testing.TB, row jsontext.Value) string {
	t.Helper()
	var e struct {
		ID string `json:"id"`
	}
	must(t, json.Unmarshal(row, &e))
	return e.ID
}

// shopping makes payments, some of which are captured and refunded.
func (f *fixture) shopping(t testing.TB, n int) (ids []string) {
	t.Helper()
	for i := range n {
		p := f.Pay(t, eur(1000), tollgate.CaptureManual)
		ids = append(ids, p.ID)
		must(t, f.Capture(t.Context(), p.ID, 300, i%3 == 0))
		if i%4 == 0 {
			must(t, f.GiveBack(t.Context(), p.ID, 100, false))
		}
	}
	return ids
}

// Whatever is asked about events, the answer is the same after they have been trimmed.
func TestEventsInPacks(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		for name, layout := range inSegments {
			t.Run(name, func(t *testing.T) { eventsInPacks(t, place, layout) })
		}
	})
}

func eventsInPacks(t *testing.T, place place, layout rediskv.Layout) {
	f := newFixture(t)
	must(t, f.WriteLayout(t.Context(), layout))
	ids := f.shopping(t, 25)
	f.cut(t)
	ids = append(ids, f.shopping(t, 8)...)
	before := f.eventAnswers(t, ids)
	all := len(f.wholeLog(t))
	a := f.packing(t, logs.Options{Rows: 23}, place(t))
	removed := f.trimNow(t)
	if kept := f.kept(t); kept > 20 || removed+kept < int64(all) || removed < int64(all)-20 {
		t.Errorf("of %d events %d were removed, and Redis has %d", all, removed, kept)
	}
	sameAnswers(t, "trimmed", before, f.eventAnswers(t, ids))
	a.packing(t, logs.Options{CacheBytes: 1}, place(t)) // of another process, which has nothing yet
	f.UseLogs(a.logs)
	sameAnswers(t, "read again", before, f.eventAnswers(t, ids))
	testkit.Consistent(t, f.Store)
	found, c := a.findings(t, false)
	if len(found) > 0 || c.Lines < int64(all)/23 || c.Packs != c.Lines || c.Entries < removed {
		t.Errorf("%+v, %+v", found, c)
	}
	f.exportedWhole(t)
	more := f.shopping(t, 5)
	ids = append(ids, more...)
	before = f.eventAnswers(t, ids)
	f.trimNow(t)
	sameAnswers(t, "trimmed again", before, f.eventAnswers(t, ids))
	testkit.Consistent(t, f.Store)
}

// A worker may die behind any step. Another one goes on from there, every answer is as before,
// and nothing is trimmed that no pack has.
func TestLogsWorkerDies(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		at, copied := place(t), place(t)
		for dies := 1; ; dies++ {
			f.packing(t, logs.Options{}, at, copied)
			f.shopping(t, 2)
			f.NextMilli(t)
			f.shopping(t, 1)
			before := f.briefly(t, 5)
			ctx, die := context.WithCancel(t.Context())
			steps, dead := 0, ""
			f.packing(t, logs.Options{Rows: 5, Step: func(_ int, step string) {
				if steps++; steps == dies {
					dead = step
					die()
				}
			}}, at, copied)
			for p := range f.Partitions() {
				if _, err := f.TrimEvents(ctx, p, tollgate.At(time.Now().Add(time.Hour))); err != nil && ctx.Err() == nil {
					t.Fatal(err)
				}
			}
			die()
			a := f.packing(t, logs.Options{}, at, copied)
			sameAnswers(t, "dead behind "+dead, before, f.briefly(t, 5))
			f.trimNow(t)
			sameAnswers(t, "after "+dead, before, f.briefly(t, 5))
			found, _ := a.findings(t, false)
			for _, one := range found {
				if !one.Orphan {
					t.Errorf("dead behind %s: %+v", dead, one)
				}
			}
			if t.Failed() || dead == "" {
				testkit.Consistent(t, f.Store)
				t.Logf("it can die behind %d steps", steps)
				break
			}
		}
	})
}

// Two workers at once put each event into one pack.
func TestTwoPackLogsAtOnce(t *testing.T) {
	onShelves(t, func(t *testing.T, place place) {
		f := newFixture(t)
		at := place(t)
		ids := f.shopping(t, 20)
		before, all := f.eventAnswers(t, ids), f.wholeLog(t)
		var both sync.WaitGroup
		for rows := range 2 {
			by := f.with(t, rediskv.Options{URL: f.URL})
			a := by.packing(t, logs.Options{Rows: 5 + 2*rows}, at)
			both.Go(func() { a.trimNow(t) })
		}
		both.Wait()
		a := f.packing(t, logs.Options{}, at)
		sameAnswers(t, "packed by two", before, f.eventAnswers(t, ids))
		testkit.Consistent(t, f.Store)
		lines, err := a.logs.Manifest(t.Context(), f.Partition(f.Caller.Organization))
		must(t, err)
		rows, next := int64(0), int64(1)
		for _, l := range lines {
			rows += l.Pack.Rows
			for _, r := range l.Ranges {
				if r.FirstSequence != next || r.LastSequence != r.FirstSequence+r.Entries-1 {
					t.Errorf("%+v does not begin with %d", r, next)
				}
				next = r.LastSequence + 1
			}
		}
		if rows > int64(len(all)) || rows < int64(len(all))-10 {
			t.Errorf("packs have %d events of %d", rows, len(all))
		}
	})
}

// Several organizations share a pack, which waits for more, but not for ever.
func TestLogsWaitForMore(t *testing.T) {
	f := newFixture(t)
	f.shopping(t, 5)
	a := f.packing(t, logs.Options{Wait: 2 * time.Hour}, directory(t))
	if n := f.trimNow(t); n != 0 {
		t.Errorf("%d events are gone after an hour", n)
	}
	if _, c := a.findings(t, false); c.Packs != 0 {
		t.Errorf("%d packs", c.Packs)
	}
	for p := range f.Partitions() {
		_, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(3*time.Hour)))
		must(t, err)
	}
	if _, c := a.findings(t, false); c.Packs != 1 {
		t.Errorf("%d packs", c.Packs)
	}
}

// While the archive is away, logs stay longer, and what Redis has is read without it.
func TestLogsAway(t *testing.T) {
	server := s3test.New(t)
	f := newFixture(t)
	f.packing(t, logs.Options{}, server.At(""))
	old := f.shopping(t, 10)
	q := eventlog.EventQuery{Limit: 3}
	first, early, _, err := f.Events(t.Context(), f.Caller, q)
	must(t, err)
	f.trimNow(t)
	f.NextMilli(t)
	hot := f.shopping(t, 10)
	server.Fail(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		s3test.Refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
	})
	f.packing(t, logs.Options{}, server.At("")) // nothing is known
	server.Requests()
	rows, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 10, Descending: true})
	if err != nil || len(rows) != 10 {
		t.Errorf("the newest: %d, %v", len(rows), err)
	}
	if _, err := f.Event(t.Context(), f.Caller, idIn(t, rows[9]), nil); err != nil {
		t.Errorf("one of them: %v", err)
	}
	place, err := f.LastEvent(t.Context(), f.Caller)
	must(t, err)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	if rows, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 10, After: place}); err != nil || len(rows) == 0 {
		t.Errorf("what is new: %d, %v", len(rows), err)
	}
	if rows, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 2, Descending: true, ObjectID: hot[9]}); err != nil || len(rows) != 2 {
		t.Errorf("of a payment: %d, %v", len(rows), err)
	}
	if asked := server.Requests(); len(asked) != 0 {
		t.Errorf("the archive was asked: %v", asked)
	}
	away := func(what string, err error) {
		t.Helper()
		if testkit.Code(err) != "archive_unavailable" {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = f.Event(t.Context(), f.Caller, idIn(t, first[0]), nil)
	away("an old event", err)
	_, _, _, err = f.Events(t.Context(), f.Caller, q)
	away("the oldest", err)
	_, _, _, err = f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 3, After: early})
	away("behind an old cursor", err)
	_, _, _, err = f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100, Descending: true})
	away("all, the newest first", err)
	_, _, _, err = f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 100, ObjectID: old[3]})
	away("of an old payment", err)
	kept := f.kept(t)
	removed := int64(0)
	for p := range f.Partitions() {
		n, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour)))
		if removed += n; p == f.Partition(f.Caller.Organization) {
			away("trimming", err)
		}
	}
	if removed > 1 || f.kept(t) < kept-1 { // the last one that packs have may still be there
		t.Errorf("%d events were removed", removed)
	}
	f.UseLogs(nil)
	_, err = f.Event(t.Context(), f.Caller, idIn(t, first[0]), nil)
	away("an old event, of an instance that knows no archive", err)
	if f.trimNow(t) > 1 || f.kept(t) < kept-1 {
		t.Error("a worker that knows no archive has trimmed what no pack has")
	}
	server.Fail(nil)
	f.packing(t, logs.Options{}, server.At(""))
	if found, err := f.Event(t.Context(), f.Caller, idIn(t, first[0]), nil); err != nil || string(found) != string(first[0]) {
		t.Errorf("back again: %s, %v", found, err)
	}
	if f.trimNow(t) == 0 {
		t.Error("nothing is trimmed once it is back")
	}
}

// A flipped bit in a pack is named, and concerns what is in its frame alone; a copy heals it.
func TestBitsOfLogs(t *testing.T) {
	f := newFixture(t)
	f.packing(t, logs.Options{}, directory(t))
	at, copied := directory(t), directory(t)
	f.shopping(t, 90) // some frames
	before := f.briefly(t, 9)
	a := f.packing(t, logs.Options{}, at, copied)
	f.trimNow(t)
	lines, err := a.logs.Manifest(t.Context(), f.Partition(f.Caller.Organization))
	must(t, err)
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	packs, err := a.shelves[0].List(t.Context(), "logs/packs/")
	must(t, err)
	damage := func(on shelf.Shelf) {
		spoilFile(t, on, packs[0].Name, func(text []byte) { text[2000] ^= 4 })
	}
	damage(a.shelves[0])
	sameAnswers(t, "read in the copy", before, f.packing(t, logs.Options{}, at, copied).briefly(t, 9))
	damage(a.shelves[1])
	a = f.packing(t, logs.Options{}, at, copied)
	found, _ := a.findings(t, true)
	if len(found) != 2 || !strings.Contains(found[0].Message, "frame 0") || found[0].Healed {
		t.Errorf("%+v", found)
	}
	q, seen, torn := eventlog.EventQuery{Limit: 100}, 0, 0
	for more := true; more; {
		var rows []jsontext.Value
		rows, q.After, more, err = f.Events(t.Context(), f.Caller, q)
		must(t, err)
		for _, row := range rows {
			if seen++; strings.Contains(string(row), `"damaged"`) {
				torn++
			}
		}
	}
	if torn != 1 || seen < 50 {
		t.Errorf("of a log with a damaged frame %d rows are shown, %d of them damaged", seen, torn)
	}
	var first tollgate.Event
	must(t, json.Unmarshal([]byte(firstOf(t, before["descending false, page 0"])), &first))
	if _, err := f.Event(t.Context(), f.Caller, first.ID, nil); testkit.Code(err) != "record_damaged" {
		t.Errorf("an event of the damaged frame: %v", err)
	}
	lose(t, a.shelves[1], packs[0].Name)
	spoilFile(t, a.shelves[0], packs[0].Name, func(text []byte) { text[2000] ^= 4 }) // as it was
	a = f.packing(t, logs.Options{}, at, copied)
	if found, _ := a.findings(t, true); len(found) != 1 || !found[0].Copy || !found[0].Healed {
		t.Errorf("%+v", found)
	}
	if found, _ := a.findings(t, false); len(found) != 0 {
		t.Errorf("healed: %+v", found)
	}
	maps.DeleteFunc(before, func(what, _ string) bool { return !strings.HasPrefix(what, tollgate.PrefixEvent) }) // there are new events, of the damage
	sameAnswers(t, "healed", before, f.briefly(t, 9))
}

// firstOf is the first row of a page, as eventAnswers has it.
func firstOf(t testing.TB, page string) string {
	t.Helper()
	d := jsontext.NewDecoder(strings.NewReader(page))
	_, err := d.ReadToken()
	must(t, err)
	row, err := d.ReadValue()
	must(t, err)
	return string(row)
}

// A check compares where the log begins with where packs end, and what Redis says of packs
// with their lines.
func TestCheckOfTrimmedLogs(t *testing.T) {
	f := newFixture(t)
	a := f.packing(t, logs.Options{}, directory(t))
	f.shopping(t, 4)
	f.trimNow(t)
	f.shopping(t, 4)
	testkit.Consistent(t, f.Store)
	k := f.Space(f.Caller.Organization)
	raw, _ := f.raw(t)
	in, err := f.Packed(t.Context(), k, "events")
	must(t, err)
	entries, err := raw.XRange(t.Context(), k.Events(), "-", "+").Result()
	must(t, err)
	behind := slices.IndexFunc(entries, func(m redis.XMessage) bool { return streams.Less(in.Last, m.ID) })
	for _, m := range entries[:behind+3] {
		must(t, raw.XDel(t.Context(), k.Events(), m.ID).Err())
	}
	found := testkit.Findings(t, f.Store)
	if !slices.ContainsFunc(found, func(one checks.Finding) bool { return strings.Contains(one.Message, "packs have them until number") }) {
		t.Errorf("of a log that has lost three events: %v", found)
	}
	key := eventlog.PackedKey(k, "events")
	in.Last, in.Sequence = entries[behind+3].ID, in.Sequence+4
	text, err := in.Stored(key)
	must(t, err)
	must(t, raw.Set(t.Context(), key, text, 0).Err())
	if found, _ := a.findings(t, false); len(found) != 1 || !strings.Contains(found[0].Message, "another record") {
		t.Errorf("%+v", found)
	}
	must(t, raw.Set(t.Context(), key, strings.Replace(text, `"entries":`, `"entries":1`, 1), 0).Err())
	if _, err := f.TrimEvents(t.Context(), k.Partition, tollgate.At(time.Now().Add(time.Hour))); testkit.Code(err) != "archive_unavailable" {
		t.Errorf("trimmed by a damaged record: %v", err)
	}
}

// Cursors and identifiers of before there was an archive have expired; so has what no pack has.
func TestTrimmedBeforeAnArchive(t *testing.T) {
	f := newFixture(t)
	f.shopping(t, 3)
	first, early, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 2})
	must(t, err)
	f.trimNow(t)
	f.packing(t, logs.Options{}, directory(t))
	f.NextMilli(t)
	ids := f.shopping(t, 6)
	before := f.eventAnswers(t, ids)
	f.trimNow(t)
	sameAnswers(t, "packed", before, f.eventAnswers(t, ids))
	if _, _, _, err := f.Events(t.Context(), f.Caller, eventlog.EventQuery{Limit: 2, After: early}); testkit.Code(err) != "cursor_expired" {
		t.Errorf("behind a cursor that is older: %v", err)
	}
	if _, err := f.Event(t.Context(), f.Caller, idIn(t, first[0]), nil); testkit.Code(err) != "not_found" {
		t.Errorf("an event that is older: %v", err)
	}
	testkit.Consistent(t, f.Store)
}

// The clock of a sandbox is ahead of that of Redis: identifiers do not say where events are.
func TestPackedEventsOfAnotherClock(t *testing.T) {
	f := newFixture(t)
	f.packing(t, logs.Options{Rows: 300}, directory(t))
	for range 15 {
		f.shopping(t, 9)
		f.days(3)
	}
	before := f.briefly(t, 7)
	f.trimNow(t)
	sameAnswers(t, "packed", before, f.briefly(t, 7))
}

var logsResends = []resend{
	{"add_logs", "somebody pays", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.shopping(t, 3)
		at, p := directory(t), f.Partition(f.Caller.Organization)
		return func(through *fixture) error {
			through.packing(t, logs.Options{}, at)
			n, err := through.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour)))
			if err == nil && n == 0 {
				err = errors.New("nothing was trimmed")
			}
			return err
		}, func() { f.Pay(t, eur(100), tollgate.CaptureManual) }
	}},
}

// A delivery is replayed whose event is in a pack alone, with the same bytes; while that cannot
// be read, it is not given up.
func TestReplayOfAPackedEvent(t *testing.T) {
	f := newFixture(t)
	server := s3test.New(t)
	f.packing(t, logs.Options{}, server.At(""))
	w := f.sendable(t)
	sent := f.take(t, 1)[0]
	f.record(t, sent, succeeded)
	f.NextMilli(t)
	for range 2 {
		f.Pay(t, eur(100), tollgate.CaptureManual)
		f.NextMilli(t)
		f.fanOut(t, "a")
		f.record(t, f.take(t, 1)[0], succeeded)
	}
	if f.trimNow(t) == 0 || len(sent.Body) == 0 {
		t.Fatal("nothing is trimmed")
	}
	_, err := f.replay(t, w.ID, sent.DeliveryID)
	must(t, err)
	work := f.take(t, 1)
	if len(work) != 1 || string(work[0].Body) != string(sent.Body) || work[0].Unread {
		t.Fatalf("%+v", work)
	}
	server.Close()
	f.packing(t, logs.Options{}, server.At(""))
	work[0].Body = nil
	must(t, f.ReadBodies(t.Context(), work))
	if work[0].Body != nil || !work[0].Unread {
		t.Errorf("while the archive is away: %+v", work[0])
	}
}

// A Redis that is put back from a copy has events again that packs have. They are read there,
// and packed again; nothing refers to the first packs any more.
func TestLogsAfterARestore(t *testing.T) {
	f := newFixture(t)
	at := directory(t)
	f.packing(t, logs.Options{Rows: 8}, at)
	f.shopping(t, 5)
	f.trimNow(t)
	f.NextMilli(t)
	f.shopping(t, 5)
	before := f.briefly(t, 3)
	copied := testkit.State(t, rawClient(t, f.URL))
	f.trimNow(t)
	sameAnswers(t, "trimmed", before, f.briefly(t, 3))
	f = f.archived(t, archive.Options{}).restored(t, copied).fixture
	a := f.packing(t, logs.Options{}, at)
	sameAnswers(t, "put back", before, f.briefly(t, 3))
	f.trimNow(t)
	sameAnswers(t, "trimmed again", before, f.briefly(t, 3))
	testkit.Consistent(t, f.Store)
	found, c := a.findings(t, false)
	if c.Lines == 0 || len(found) == 0 || slices.ContainsFunc(found, func(one logs.Finding) bool { return !one.Orphan }) {
		t.Errorf("%+v, %+v", c, found)
	}
}
