package rediskv_test

import (
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// TestPaymentsThatHaveMoved: one that is found by a status which it no longer has
// when it is read is left out.
func TestPaymentsThatHaveMoved(t *testing.T) {
	f := newFixture(t)
	stays, moves := f.Pay(t, eur(100), tollgate.CaptureManual), f.Pay(t, eur(100), tollgate.CaptureManual)
	f.set(t, moves.ID, "st", func(string) string { return string(tollgate.Canceled) })
	rows, _, _, err := f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Statuses: []string{string(tollgate.Authorized)}, Limit: 10})
	if err != nil || len(rows) != 1 || rows[0].ID != stays.ID {
		t.Errorf("%+v, %v", rows, err)
	}
	if rows, _, _, err = f.Payments(t.Context(), f.Caller, ledger.TransactionQuery{Limit: 10}); err != nil || len(rows) != 2 {
		t.Errorf("of any status: %+v, %v", rows, err)
	}
}

// A page reads what it shows, and not what is behind it: that there is more, the index
// says. Where something on it turns out to be none of it, the page is filled up.
func TestPagesReadWhatTheyShow(t *testing.T) {
	server := redistest.Single(t)
	f := newFixtureAt(t, server.URL)
	var made []string
	for range 5 {
		made = append(made, f.Pay(t, eur(100), tollgate.CaptureManual).ID)
	}
	wire := redistest.Proxy(t, server.Addr)
	through := f.with(t, rediskv.Options{URL: wire.URL})
	page := func(q ledger.TransactionQuery, want int, more bool) {
		t.Helper()
		wire.Reset()
		rows, _, has, err := through.Payments(t.Context(), f.Caller, q)
		sent := wire.Counts()
		if err != nil || len(rows) != q.Limit || has != more {
			t.Fatalf("%d rows of %d, more: %v, %v", len(rows), q.Limit, has, err)
		}
		if n := sent["HGETALL"] + sent["HMGET"]; n != want {
			t.Errorf("%d records are read for %d payments: %v", n, q.Limit, sent)
		}
	}
	page(ledger.TransactionQuery{Limit: 2}, 4, true) // each with its authorization
	page(ledger.TransactionQuery{Limit: 4, Descending: true}, 8, true)
	page(ledger.TransactionQuery{Limit: 5}, 10, false)
	k := f.Space(f.Caller.Organization)
	moved := testkit.TransactionOf(t, f.Redis, k, "txn_"+rediskv.Unprefixed(made[1]))
	testkit.SetTransaction(t, f.Redis, k, moved, "st", string(tollgate.Canceled))
	page(ledger.TransactionQuery{Statuses: []string{string(tollgate.Authorized)}, Limit: 2}, 10, true) // and the search goes on
}
