package rediskv_test

import (
	"testing"

	"tollgate"
	"tollgate/rediskv/ledger"
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
