package ledger

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// TransactionQuery selects transactions; empty members select all. After is
// the position of the last one that was looked at, 0 at the start.
type TransactionQuery struct {
	Accounts      []string
	Statuses      []string
	Types         []tollgate.TransactionType
	PaymentID     string
	PayoutID      string
	Payee         string
	Currency      string
	Reference     string
	CreatedAfter  tollgate.Instant // strictly later
	CreatedBefore tollgate.Instant // strictly earlier
	Descending    bool
	After         int64
	Limit         int

	PageSize int // index members looked at per round trip; 0: scanBatch
}

// size is how many members of each index are looked at next. In a client's turn
// a script that reads many indexes reads less of each.
func (q *TransactionQuery) size(c rediskv.Caller, indexes int) int {
	batch := cmp.Or(q.PageSize, rediskv.ScanPage)
	if c.Turn == nil {
		return batch
	}
	return max(batch/indexes, min(batch, rediskv.LeastOfEach))
}

// Match reports whether a transaction is selected. One that cannot be read
// stands in its place in every list that it may belong to, as far as its other
// fields say, so that nobody misses it; whose it is must be known.
func (q *TransactionQuery) Match(t FoundTransaction) bool {
	is := func(name, want string, have *string) bool {
		return want == "" || (have != nil && *have == want) || t.Unreadable(name)
	}
	return (len(q.Accounts) == 0 || slices.Contains(q.Accounts, t.MerchantAccountID)) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, t.Status) || t.Unreadable("st")) &&
		(len(q.Types) == 0 || slices.Contains(q.Types, t.Type) || t.Unreadable("ty")) &&
		is("pay", q.PaymentID, t.PaymentID) && is("po", q.PayoutID, t.PayoutID) && is("ref", q.Reference, t.Reference) &&
		(q.Currency == "" || q.Currency == string(t.Transaction.Currency) || t.Unreadable("cur")) &&
		(t.Unreadable("crt") || ((q.CreatedAfter == 0 || t.CreatedAt > q.CreatedAfter) && (q.CreatedBefore == 0 || t.CreatedAt < q.CreatedBefore))) &&
		(q.Payee == "" || (t.Payee != nil && tollgate.SamePayee(q.Payee, *t.Payee)) || t.Unreadable("payee"))
}

// Transactions returns one page in the order of commit and the position to go
// on from. Positions never change, so that nothing is skipped or repeated
// while others write.
func (s *Store) Transactions(ctx context.Context, c rediskv.Caller, q TransactionQuery) (rows []tollgate.Transaction, next int64, more bool, err error) {
	found, next, more, err := s.Search(ctx, c, q, nil)
	for _, t := range found {
		rows = append(rows, *t.Transaction)
	}
	return rows, next, more, err
}

// placed are a payment's transactions, which were read without an index, behind the
// place where a list goes on, in its order.
func (q *TransactionQuery) placed(found []FoundTransaction) []FoundTransaction {
	behind := found[:0]
	for _, t := range found {
		if t.Position != 0 && (q.After == 0 || t.Position != q.After && q.Descending == (t.Position < q.After)) {
			behind = append(behind, t)
		}
	}
	compare := func(a, b FoundTransaction) int {
		if q.Descending {
			a, b = b, a
		}
		return cmp.Compare(a.Position, b.Position)
	}
	sort.Slice(behind, func(i, j int) bool { return compare(behind[i], behind[j]) < 0 })
	return behind
}

// FoundTransaction is a transaction of a page, its place, how it was read, and the
// hash beside it; without an id it is gone.
type FoundTransaction struct {
	*tollgate.Transaction
	*rediskv.Stored
	Position int64
	Beside   rediskv.Fields
}

// ReadTransactions reads the hashes of a page; one that is gone leaves a hole. beside
// is that of Search.
func (s *Store) ReadTransactions(ctx context.Context, c rediskv.Caller, k rediskv.Space, members []Indexed, beside func(id string) string) (rows []FoundTransaction, err error) {
	type asked struct {
		Indexed
		beside bool
	}
	var page []asked
	for _, m := range members {
		page = append(page, asked{m, false})
		if beside != nil {
			page = append(page, asked{m, true})
		}
	}
	rows = make([]FoundTransaction, 0, len(members))
	err = rediskv.EachRecord(ctx, s.db, c, "read_transactions", page, func(one asked) record.Place {
		if one.beside {
			return record.Own(k.Object(beside(one.ID)))
		}
		return one.Place(k)
	}, func(one asked, f rediskv.Fields) {
		if one.beside {
			rows[len(rows)-1].Beside = f
			return
		}
		t := FoundTransaction{Transaction: new(tollgate.Transaction), Position: one.Position}
		if len(f) > 0 {
			t.Transaction, t.Stored = TransactionOf(one.ID, f)
			t.Position = cmp.Or(one.Position, f.Int("pos"))
		}
		rows = append(rows, t)
	})
	if err == nil {
		err = s.fromArchive(ctx, k, members, rows, beside)
	}
	return rows, err
}
