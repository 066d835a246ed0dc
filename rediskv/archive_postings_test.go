package rediskv_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/record"
	"tollgate/rediskv/testkit"
)

// cool moves the postings of all whole spans to packs.
func (f *fixture) cool(t testing.TB) postings.State {
	t.Helper()
	org := f.Caller.Organization
	must(t, f.CoolPostings(t.Context(), f.Partition(org), f.Now().Add(40*24*time.Hour)))
	st, err := postings.New(f.DB).State(t.Context(), f.Space(org))
	must(t, err)
	return st
}

// hotPostings is how many postings Redis has.
func (f *fixture) hotPostings(t testing.TB) (n int64) {
	t.Helper()
	raw, _ := f.raw(t)
	for _, key := range scanKeys(t, raw, postings.StateKey(f.Space(f.Caller.Organization))+":*") {
		if strings.HasSuffix(key, ":times") {
			continue
		}
		length, err := raw.StrLen(t.Context(), key).Result()
		must(t, err)
		n += length / 8
	}
	return n
}

// Whatever is asked for, and however many of the lists are in packs, a search finds what looking
// at all transactions finds.
func TestSearchesInPacks(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	a := m.packing(t, logs.Options{}, directory(t), directory(t))
	m.searched(t, 110, 9, func(step int) {
		if step%3 != 2 { // settled days after
			return
		}
		hot := m.hotPostings(t)
		switch st := m.cool(t); {
		case st.Dropped != st.Cold || st.Upto-st.Cold > 2*512:
			t.Errorf("after step %d: %+v", step, st)
		case st.Cold > 511 && m.hotPostings(t) >= hot:
			t.Errorf("after step %d: of %d postings in Redis %d are left: %+v", step, hot, m.hotPostings(t), st)
		}
	})
	testkit.Consistent(t, m.Store)
	found, c := a.findings(t, false)
	if len(found) > 0 || c.Lines < 2 {
		t.Errorf("%+v: %+v", c, found)
	}
}

// A worker dies behind any step, and the next one goes on: searches find the same all the time.
func TestPostingsPackerDies(t *testing.T) {
	t.Parallel()
	for dies, dead := 1, "-"; dead != ""; dies++ {
		m := newMarket(t)
		for range 420 {
			m.pay(t)
		}
		m.post(t)
		at := directory(t)
		queries := []ledger.TransactionQuery{{Payee: "tea.example", Limit: 7}, {Reference: "seldom", Descending: true, Limit: 9}, {Currency: "JPY", Limit: 50}}
		say := func() (all [][]string) {
			for _, q := range queries {
				all = append(all, m.all(t, q))
			}
			return all
		}
		before := say()
		ctx, die := context.WithCancel(t.Context())
		steps := 0
		dead = ""
		m.packing(t, logs.Options{Step: func(_ int, step string) {
			if steps++; steps == dies {
				dead = step
				die()
			}
		}}, at)
		if err := m.CoolPostings(ctx, m.Partition(m.Caller.Organization), m.Now().Add(40*24*time.Hour)); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		die()
		m.packing(t, logs.Options{}, at)
		if got := say(); !slices.EqualFunc(got, before, slices.Equal[[]string]) {
			t.Errorf("dead behind %s: %v, not %v", dead, got, before)
		}
		if st := m.cool(t); st.Cold < 511 || st.Dropped != st.Cold {
			t.Errorf("after %s: %+v", dead, st)
		}
		if got := say(); !slices.EqualFunc(got, before, slices.Equal[[]string]) {
			t.Errorf("after %s: %v, not %v", dead, got, before)
		}
		testkit.Consistent(t, m.Store)
	}
}

// Lists that are to be made again are made of all transactions, also of those whose postings are
// in packs, and go there once more. What packs had of before is not read.
func TestPackedPostingsMadeAgain(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	for range 420 {
		m.pay(t)
	}
	m.post(t)
	a := m.packing(t, logs.Options{}, directory(t))
	q := ledger.TransactionQuery{Payee: "tea.example", Limit: 7}
	before := m.all(t, q)
	m.cool(t)
	raw, _ := m.raw(t)
	key := postings.StateKey(m.Space(m.Caller.Organization))
	for range 2 {
		must(t, raw.Set(t.Context(), key, record.EnvelopedJSON(key, `{"form":2,"stale":true}`), 0).Err())
		if got := m.all(t, q); !slices.Equal(got, before) {
			t.Errorf("to be made again: %v, not %v", got, before)
		}
		m.post(t)
		if st, err := postings.New(m.DB).State(t.Context(), m.Space(m.Caller.Organization)); err != nil || st.Cold != 0 || !st.Usable() {
			t.Errorf("made again: %+v, %v", st, err)
		}
		if got := m.all(t, q); !slices.Equal(got, before) {
			t.Errorf("made again: %v, not %v", got, before)
		}
		if st := m.cool(t); st.Cold < 511 {
			t.Errorf("%+v", st)
		}
		if got := m.all(t, q); !slices.Equal(got, before) {
			t.Errorf("in packs again: %v, not %v", got, before)
		}
		testkit.Consistent(t, m.Store)
		if found, _ := a.findings(t, false); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	}
	m.UseLogs(nil) // an instance that knows of no archive
	if _, _, _, err := m.Transactions(t.Context(), m.Caller, q); testkit.Code(err) != string(tollgate.CodeArchiveUnavailable) {
		t.Errorf("without the archive: %v", err)
	}
}

// A check finds what a search does not: a posting that neither Redis nor a pack has.
func TestCheckOfPackedPostings(t *testing.T) {
	t.Parallel()
	m := newMarket(t)
	for range 420 {
		m.pay(t)
	}
	m.post(t)
	raw, _ := m.raw(t)
	k := m.Space(m.Caller.Organization)
	lists := slices.DeleteFunc(scanKeys(t, raw, postings.StateKey(k)+":*"), func(key string) bool { return strings.HasSuffix(key, ":times") })
	slices.Sort(lists)
	text, err := raw.Get(t.Context(), lists[0]).Result()
	must(t, err)
	must(t, raw.Set(t.Context(), lists[0], text[8:], 0).Err())
	m.packing(t, logs.Options{}, directory(t))
	m.cool(t)
	found := testkit.Findings(t, m.Store)
	if len(found) == 0 || !strings.Contains(found[0].Message, "does not find it") {
		t.Errorf("%v", found)
	}
}

var coolResends = []resend{
	{"drop_postings", "another worker moves more", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		at := directory(t)
		for range 420 {
			f.Pay(t, eur(100), tollgate.CaptureManual)
			f.Pay(t, eur(100), tollgate.CaptureAutomatic)
		}
		f.post(t)
		p := f.Partition(f.Caller.Organization)
		return func(through *fixture) error {
			through.packing(t, logs.Options{}, at)
			return through.CoolPostings(t.Context(), p, f.Now().Add(40*24*time.Hour))
		}, func() { f.Pay(t, eur(100), tollgate.CaptureManual) }
	}},
}
