package ledger

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
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
	k := s.db.Space(c.Organization)
	low, high, err := s.Bounds(ctx, k, q)
	if err != nil {
		return nil, 0, false, err
	}
	next = q.After
	q.PageSize = q.Limit + 1 // enough when all of them match
	for looked := 0; looked < rediskv.ScanLimit; q.PageSize = min(2*q.PageSize, rediskv.ScanPage) {
		var members []Indexed
		end := false
		if err := c.InTurn(ctx, func() (err error) {
			members, end, err = s.Scan(ctx, c, k, q, next, low, high)
			return err
		}); err != nil {
			return nil, 0, false, err
		}
		found, err := s.ReadTransactions(ctx, c, k, members)
		if err != nil {
			return nil, 0, false, err
		}
		for i, t := range found {
			if t.ID != "" && q.Match(t) {
				if len(rows) == q.Limit {
					return rows, next, true, nil
				}
				_ = s.db.Noticed(ctx, k, t.Stored.Err())
				rows = append(rows, *t.Transaction)
			}
			next = members[i].Position
		}
		if end {
			return rows, next, false, nil
		}
		looked += len(members)
	}
	return rows, next, true, nil
}

// Indexed is an entry of an index: an id and its place in the order of commit.
type Indexed struct {
	ID       string
	Position int64
}

// Scan returns the next members, at most q.batch, of q's indexes; end says that
// there are no more.
func (s *Store) Scan(ctx context.Context, c rediskv.Caller, k rediskv.Space, q TransactionQuery, after, low, high int64) (members []Indexed, end bool, err error) {
	grant, version := c.Grant(k)
	if q.PaymentID != "" {
		defer s.db.CheckGrant(ctx, c, k)(&err)
		members, err := s.scanPayment(ctx, k, q, after)
		size := q.size(c, 1)
		return members[:min(len(members), size)], len(members) <= size, err
	}
	indexes := q.Indexes(k)
	if q.PayoutID != "" {
		if indexes, err = s.payoutIndexes(ctx, k, q.PayoutID); err != nil || len(indexes) == 0 {
			return nil, true, err
		}
	}
	command, from, to := "ZRANGEBYSCORE", max(after+1, low), high
	if q.Descending {
		command, from, to = "ZREVRANGEBYSCORE", high, low
		if after != 0 {
			from = min(after-1, high)
		}
	}
	size := q.size(c, len(indexes))
	if version == "" && len(indexes) == 1 && !q.Descending { // nothing has to be of the same moment
		members, err := s.scanIndex(ctx, indexes[0], from, to, size)
		return members, len(members) < size, err
	}
	inv := scriptScanTransactions.With(scanTransactionsKeys{grant}, scanTransactionsArgs{version, command, from, to, size})
	inv.Keys = append(inv.Keys, indexes...)
	_, rest, err := s.db.Run(ctx, inv)
	if err != nil {
		return nil, false, err
	}
	for _, list := range rest {
		f, _ := list.([]any)
		for i := 0; i+1 < len(f); i += 2 {
			id, _ := f[i].(string)
			text, _ := f[i+1].(string)
			score, _ := strconv.ParseFloat(text, 64)
			members = append(members, memberAt(id, score))
		}
	}
	members = q.ordered(members)
	return members[:min(len(members), size)], len(members) < size, nil
}

// scanIndex is scan upwards of one index for the service itself. It is what
// exports do most; the script took half as long as reading the hashes.
func (s *Store) scanIndex(ctx context.Context, index string, from, to int64, batch int) (members []Indexed, err error) {
	err = s.db.Timed(ctx, "scan_index", func(ctx context.Context) error {
		by := redis.ZRangeArgs{Key: index, ByScore: true, Start: from, Stop: to, Count: int64(batch)}
		found, err := s.db.Redis.ZRangeArgsWithScores(ctx, by).Result()
		for _, z := range found {
			id, _ := z.Member.(string)
			members = append(members, memberAt(id, z.Score))
		}
		return err
	})
	return members, err
}

// memberAt reads an entry of an index; its score is an integer far below 2^53.
func memberAt(id string, score float64) Indexed {
	return Indexed{tollgate.PrefixTransaction + id, int64(score)}
}

// Indexes is the smallest set of indexes that holds every match.
func (q *TransactionQuery) Indexes(k rediskv.Space) (keys []string) {
	switch {
	case len(q.Statuses) > 0:
		for _, status := range q.Statuses {
			keys = append(keys, k.TransactionsIn(status))
		}
	case len(q.Accounts) > 0 && len(q.Accounts) <= rediskv.MostIndexes:
		for _, account := range q.Accounts {
			keys = append(keys, k.TransactionsOf(account))
		}
	default:
		keys = []string{k.Transactions()}
	}
	return keys
}

// ordered puts the members of several indexes in order. Each index gave its own
// first ones, so as many of all of them are complete.
func (q *TransactionQuery) ordered(members []Indexed) []Indexed {
	slices.SortFunc(members, func(a, b Indexed) int {
		if q.Descending {
			a, b = b, a
		}
		return cmp.Compare(a.Position, b.Position)
	})
	return slices.Compact(members)
}

// scanPayment finds a payment's own transactions without an index: there are
// at most a few dozen.
func (s *Store) scanPayment(ctx context.Context, k rediskv.Space, q TransactionQuery, after int64) (members []Indexed, err error) {
	if !strings.HasPrefix(q.PaymentID, tollgate.PrefixPayment) {
		return nil, nil
	}
	ids := []string{rediskv.Unprefixed(tollgate.AuthorizationOf(q.PaymentID))}
	err = s.db.Timed(ctx, "payment_transactions", func(ctx context.Context) error {
		moves, err := s.db.Redis.LRange(ctx, k.Moves(q.PaymentID), 0, -1).Result()
		if err != nil {
			return err
		}
		positions := make([]*redis.StringCmd, 0, 1+len(moves))
		pipe := s.db.Redis.Pipeline()
		for _, id := range append(ids, moves...) {
			positions = append(positions, pipe.HGet(ctx, k.Object(tollgate.PrefixTransaction+id), "pos"))
		}
		if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
			return err
		}
		for i, id := range append(ids, moves...) {
			at, err := positions[i].Int64()
			if err == nil && (after == 0 || (q.Descending && at < after) || (!q.Descending && at > after)) {
				members = append(members, Indexed{tollgate.PrefixTransaction + id, at})
			}
		}
		return nil
	})
	return q.ordered(members), err
}

// payoutIndexes are the indexes that hold a payout's transaction and all that
// it pays; none when there is no such payout.
func (s *Store) payoutIndexes(ctx context.Context, k rediskv.Space, id string) ([]string, error) {
	if !strings.HasPrefix(id, tollgate.PrefixPayout) {
		return nil, nil
	}
	p, err := s.ReadPayout(ctx, k, id)
	if rediskv.Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys := []string{k.Own(id)}
	for _, g := range p.Groups {
		keys = append(keys, k.Group(p.MerchantAccountID, p.Currency, g.Date))
	}
	return keys, nil
}

// Bounds turns the time filters into positions by way of the event log, whose
// entries carry both. Where the log has been trimmed, or was written by clocks
// that are not Redis', there is no bound.
func (s *Store) Bounds(ctx context.Context, k rediskv.Space, q TransactionQuery) (low, high int64, err error) {
	high = 1 << 53
	if q.CreatedAfter == 0 && q.CreatedBefore == 0 {
		return 0, high, nil
	}
	err = s.db.Timed(ctx, "transaction_bounds", func(ctx context.Context) error {
		if q.CreatedAfter != 0 {
			first, err := s.db.Redis.XRangeN(ctx, k.Events(), rediskv.Milli(max(q.CreatedAfter.Add(-rediskv.Skew), 1)), "+", 1).Result()
			if err != nil {
				return err
			}
			oldest, err := s.db.Redis.XRangeN(ctx, k.Events(), "-", "+", 1).Result()
			if err != nil {
				return err
			}
			if len(first) == 1 && len(oldest) == 1 && first[0].ID != oldest[0].ID {
				if n, apart := eventlog.PlaceOf(first[0]); apart < rediskv.Skew {
					low = n * 16
				}
			}
		}
		if q.CreatedBefore != 0 {
			last, err := s.db.Redis.XRevRangeN(ctx, k.Events(), rediskv.Milli(q.CreatedBefore.Add(rediskv.Skew)), "-", 1).Result()
			if err != nil {
				return err
			}
			if len(last) == 1 {
				if n, apart := eventlog.PlaceOf(last[0]); apart < rediskv.Skew {
					high = n*16 + 15
				}
			}
		}
		return nil
	})
	return low, high, err
}

// FoundTransaction is a transaction of a page and how it was read; without an id
// it is gone.
type FoundTransaction struct {
	*tollgate.Transaction
	*rediskv.Stored
}

// ReadTransactions reads the hashes of a page; one that is gone leaves a hole.
func (s *Store) ReadTransactions(ctx context.Context, c rediskv.Caller, k rediskv.Space, members []Indexed) (rows []FoundTransaction, err error) {
	rows = make([]FoundTransaction, 0, len(members))
	err = rediskv.EachHash(ctx, s.db, c, "read_transactions", members, func(m Indexed) string { return k.Object(m.ID) }, func(m Indexed, f rediskv.Fields) {
		t := FoundTransaction{Transaction: new(tollgate.Transaction)}
		if len(f) > 0 {
			t.Transaction, t.Stored = readTransaction(m.ID, f)
		}
		rows = append(rows, t)
	})
	return rows, err
}

type scanTransactionsKeys struct{ Grant string }

type scanTransactionsArgs struct {
	GrantVersion, Command string
	From, To              int64
	Count                 int
}

var scriptScanTransactions = rediskv.NewScript[scanTransactionsKeys, scanTransactionsArgs](lua, "scan_transactions")
