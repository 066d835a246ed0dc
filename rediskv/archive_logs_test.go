package rediskv_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs/shelf"
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
