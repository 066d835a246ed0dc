package exports

import (
	"testing"

	"tollgate"
)

// A payee is one payee in every spelling that a release has stored.
func TestFilterOfPayees(t *testing.T) {
	stored := "HTTPS://Shop.Example:443/a"
	f := filter{&tollgate.ExportFilter{Payee: "https://shop.example/a"}}
	if !f.selects(tollgate.DatasetPayments, &tollgate.Payment{Payee: tollgate.KeptPayee(stored)}) || !f.selects(tollgate.DatasetTickets, &tollgate.Ticket{Payee: tollgate.KeptPayee(stored)}) || !f.selects(tollgate.DatasetTransactions, &tollgate.Transaction{Payee: &stored}) {
		t.Error("an export leaves out what an earlier release stored")
	}
	if f.selects(tollgate.DatasetTransactions, &tollgate.Transaction{}) {
		t.Error("an export of a payee has a payout")
	}
}
