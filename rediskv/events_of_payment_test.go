package rediskv_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/rediskv/eventlog"
)

// wholeLog are all events of an organization, oldest first.
func (f *fixture) wholeLog(t testing.TB) (all []tollgate.Event) {
	t.Helper()
	q := eventlog.EventQuery{Limit: 100}
	for more := true; more; {
		var err error
		var rows []jsontext.Value
		rows, q.After, more, err = f.Events(t.Context(), f.Caller, q)
		must(t, err)
		for _, row := range rows {
			var e tollgate.Event
			must(t, json.Unmarshal(row, &e))
			all = append(all, e)
		}
	}
	return all
}

// A page of the events of a payment is what one who reads the whole log would make of it,
// in both orders, of any types and accounts, page by page, wherever the events are, and
// whatever else names the payment.
func TestEventsOfAPayment(t *testing.T) {
	f := newFixture(t)
	r := rand.New(rand.NewPCG(1, 2))
	var payments []string
	live := func(n int) {
		for range n {
			p := f.Pay(t, eur(1000), tollgate.CaptureManual)
			payments = append(payments, p.ID)
			for range r.IntN(3) {
				_ = f.Capture(t.Context(), payments[r.IntN(len(payments))], 100, false)
				_ = f.GiveBack(t.Context(), payments[r.IntN(len(payments))], 50, false)
			}
			if r.IntN(4) == 0 {
				f.Clock.Advance(time.Duration(r.IntN(5)) * time.Second)
			}
		}
	}
	compare := func(when string) {
		t.Helper()
		all := f.wholeLog(t)
		objects := append([]string{"ab", "pay_00000000000000000000000000", "pay_", "pay_01kb7z2c000000000000000001", "tkt_01kb7z2c000000000000000001", "pay_1", f.Config.MerchantAccounts[0].ID}, payments...)
		for range 60 {
			q := eventlog.EventQuery{ObjectID: objects[r.IntN(len(objects))], Limit: 1 + r.IntN(4), Descending: r.IntN(2) == 0}
			if rest, is := strings.CutPrefix(q.ObjectID, tollgate.PrefixPayment); is && r.IntN(3) == 0 {
				q.ObjectID = tollgate.PrefixTicket + rest
			}
			q.Types = [][]string{nil, {"payment.captured"}, {"payment.*"}, {"integrity.failed", "payment.refunded"}}[r.IntN(4)]
			q.Accounts = [][]string{nil, nil, {f.Config.MerchantAccounts[0].ID}, {f.Config.MerchantAccounts[1].ID}}[r.IntN(4)]
			var want, got []string
			for _, e := range all {
				if e.Names(q.ObjectID) && q.Types.Match(string(e.Type)) && (q.Accounts == nil || e.MerchantAccountID != nil && slices.Contains(q.Accounts, *e.MerchantAccountID)) {
					want = append(want, e.ID)
				}
			}
			if q.Descending {
				slices.Reverse(want)
			}
			asked := q
			for more, pages := true, 0; more; pages++ {
				rows, next, again, err := f.Events(t.Context(), f.Caller, q)
				must(t, err)
				for _, row := range rows {
					var e tollgate.Event
					must(t, json.Unmarshal(row, &e))
					got = append(got, e.ID)
				}
				if len(rows) == 0 && again || pages > len(want)+1 {
					t.Fatalf("%s: %+v: an empty page, and more to come", when, asked)
				}
				q.After, more = next, again
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %+v\ngot  %v\nwant %v", when, asked, got, want)
			}
			// Whoever goes on from the end waits for what is new, and misses nothing.
			if last, err := f.LastEvent(t.Context(), f.Caller); !q.Descending && (err != nil || q.After != last) {
				t.Fatalf("%s: %+v: the end is %v, and of the log %v, %v", when, asked, q.After, last, err)
			}
			if !q.Descending && q.Types == nil && q.Accounts == nil && len(want) > 0 && slices.Contains(payments, q.ObjectID) && f.Capture(t.Context(), q.ObjectID, 1, false) == nil {
				rows, _, _, err := f.Events(t.Context(), f.Caller, q)
				if err != nil || len(rows) != 1 {
					t.Fatalf("%s: %+v: %d events behind the last page, %v", when, asked, len(rows), err)
				}
				all = f.wholeLog(t)
			}
		}
	}
	for range 260 { // a shorter log is gone through
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	}
	live(40)
	compare("in the head of the log")
	f.cut(t)
	live(20)
	compare("in segments and in the head")
	damaged := payments[3]
	must(t, f.Announce(t.Context(), f.Space(f.Caller.Organization), &tollgate.DamagedObject{Object: "payment", ID: damaged}))
	payments = []string{damaged, payments[4]}
	compare("where one was damaged")
}

// The log is not gone through for the events of a payment, however long it is.
func TestEventsOfAPaymentAreFew(t *testing.T) {
	f := newFixture(t)
	f.Clock.Set(time.Now()) // as Redis' is
	first := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	for range 600 {
		f.Clock.Set(time.Now())
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	}
	var reads atomic.Int64
	reader := f.observed(t, f.URL, func(operation string) {
		if operation == "read_log" {
			reads.Add(1)
		}
	})
	for _, q := range []eventlog.EventQuery{{ObjectID: first.ID, Limit: 20}, {ObjectID: first.ID, Limit: 20, Descending: true}} {
		reads.Store(0)
		rows, _, _, err := reader.Events(t.Context(), f.Caller, q)
		if must(t, err); len(rows) != 1 || reads.Load() > 2 {
			t.Errorf("%+v: %d events, %d reads of the log", q, len(rows), reads.Load())
		}
	}
}
