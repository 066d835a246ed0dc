package rediskv_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/testkit"
)

// wholeList is all transactions, as a page of each size and order has them.
func (f *fixture) wholeList(t *testing.T) []tollgate.Transaction {
	t.Helper()
	all := f.allTransactions(t, ledger.TransactionQuery{Limit: 100})
	for _, limit := range []int{1, 3, 7} {
		down := f.allTransactions(t, ledger.TransactionQuery{Limit: limit, Descending: true})
		slices.Reverse(down)
		for name, same := range map[string][]tollgate.Transaction{"downwards": down, "upwards": f.allTransactions(t, ledger.TransactionQuery{Limit: limit})} {
			if !slices.EqualFunc(same, all, func(a, b tollgate.Transaction) bool { return a.ID == b.ID && a.Status == b.Status }) {
				t.Errorf("%s by %d: %d transactions, %d in pages of 100, or in another order", name, limit, len(same), len(all))
			}
		}
	}
	return all
}

// No list has all transactions: those of the statuses are read as one. A Redis of before has
// one, which earlier builds read beside this; it goes when none of them runs any more.
func TestTransactionsOfAllStatuses(t *testing.T) {
	f := newFixture(t)
	k := f.Space(f.Caller.Organization)
	size := func() int64 {
		n, err := f.Redis.ZCard(t.Context(), k.Transactions()).Result()
		must(t, err)
		return n
	}
	must(t, f.WriteLayout(t.Context(), rediskv.Compact))
	f.play(t, rand.New(rand.NewPCG(1, 18)), 20)
	before := f.wholeList(t)
	if n := size(); n != int64(len(before)) || n < 40 {
		t.Errorf("the list that earlier builds read has %d of %d", n, len(before))
	}
	must(t, f.WriteLayout(t.Context(), rediskv.Dense))
	f.play(t, rand.New(rand.NewPCG(2, 18)), 20)
	f.settled(t)
	all := f.wholeList(t)
	if n := size(); n != int64(len(before)) {
		t.Errorf("the list that nobody reads has %d, and had %d", n, len(before))
	}
	for i, x := range before {
		if all[i].ID != x.ID {
			t.Fatalf("%s was the %dth, now it is %s", x.ID, i, all[i].ID)
		}
	}
	f.post(t)
	if n := size(); n != 0 {
		t.Errorf("the list that nobody reads still has %d", n)
	}
	if after := f.wholeList(t); len(after) != len(all) {
		t.Errorf("%d transactions, %d before that list went", len(after), len(all))
	}
	testkit.Consistent(t, f.Store)
}
