package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/script"
	"tollgate/rediskv/streams"
)

// Highest is behind every place: integers up to it are exact scores.
const Highest = 1 << 53

// bounds are the places between which a search looks: times as long as nobody has
// looked for their places in the log (0: none, or it has been done), then low and
// high.
type bounds struct {
	after, before tollgate.Instant
	low, high     int64
	open          bool            // the log does not say where one of the times is
	posted        *postings.State // how far transactions are, as a scan has found it
}

// arguments are the times for the script, as far as the log may be apart from them.
func (b *bounds) arguments() (after, before string) {
	if b.after != 0 {
		after = rediskv.Milli(max(b.after.Add(-rediskv.Skew), 1))
	}
	if b.before != 0 {
		before = rediskv.Milli(b.before.Add(rediskv.Skew))
	}
	return after, before
}

// found takes the events that bounded a scan. One that was written by a clock that is
// not Redis' bounds nothing: then the scan was wrong.
func (b *bounds) found(first, last any) (right bool, err error) {
	right = true
	for i, entry := range []any{first, last} {
		var m *redis.XMessage
		if entry != nil {
			one, err := streams.MessageOf(entry)
			if err != nil {
				return false, err
			}
			m = &one
		}
		right = b.bound(i == 0, m) && right
	}
	return right, nil
}

// bound takes the event that bounds what comes after a time, or before one, if there is
// one; false where it was written by a clock that is not Redis'.
func (b *bounds) bound(after bool, m *redis.XMessage) (right bool) {
	at := &b.before
	if after {
		at = &b.after
	}
	asked := *at != 0
	if *at = 0; m == nil {
		b.open = b.open || asked
		return true
	}
	switch n, apart := eventlog.PlaceOf(*m); {
	case apart >= rediskv.Skew:
		b.open = true
		return false
	case after:
		b.low = max(b.low, n*16)
	default:
		b.high = min(b.high, n*16+15)
	}
	return true
}

// older finds the bounds that are in segments of the log, as a script has named them.
func (s *Store) older(ctx context.Context, k rediskv.Space, b *bounds, named []any) error {
	var asked [2]*streams.Asked
	var all []*streams.Asked
	after, before := b.arguments()
	for i, at := range []string{after, before} {
		if named[i] == nil {
			continue
		}
		m, err := streams.MessageOf(named[i])
		if err != nil {
			return err
		}
		asked[i] = &streams.Asked{Log: k.Events(), First: "-", Last: at, Count: 1, Newest: true, In: []redis.XMessage{m}}
		all = append(all, asked[i])
	}
	err := s.db.Timed(ctx, "log_segments", func(ctx context.Context) error { return streams.Within(ctx, s.db.Redis, all) })
	if err != nil {
		return err
	}
	for i, a := range asked {
		if a == nil {
			continue
		}
		var bound *redis.XMessage // none, if it has been trimmed meanwhile
		if len(a.Found) > 0 {
			bound = &a.Found[0]
		}
		b.bound(i == 0, bound)
	}
	return nil
}

// Scan returns the next members, at most q.batch, of q's indexes; end says that
// there are no more.
func (s *Store) Scan(ctx context.Context, c rediskv.Caller, k rediskv.Space, q TransactionQuery, after, low, high int64) (members []Indexed, end bool, err error) {
	if q.PaymentID != "" {
		members, err := s.scanPayment(ctx, k, q, after)
		size := q.size(c, 1)
		return members[:min(len(members), size)], len(members) <= size, err
	}
	return s.scan(ctx, c, k, q, after, &bounds{low: low, high: high})
}

// scan is Scan between bounds, which it finds. Of a payment it returns all there is,
// without places.
func (s *Store) scan(ctx context.Context, c rediskv.Caller, k rediskv.Space, q TransactionQuery, after int64, b *bounds) (members []Indexed, end bool, err error) {
	if q.PaymentID != "" {
		defer s.db.CheckGrant(ctx, c, k)(&err)
		members, err := s.OfPayment(ctx, k, q.PaymentID)
		for i := range members {
			members[i].Position = 0
		}
		return members, true, err
	}
	indexes, err := s.indexes(ctx, k, q)
	if err != nil || len(indexes) == 0 {
		return nil, true, err
	}
	between := q.between(after, b)
	command, from, to := "ZRANGEBYSCORE", between[0], between[1]
	if q.Descending {
		command, from, to = "ZREVRANGEBYSCORE", to, from
	}
	lists := archivedAs(k, indexes) // those of all statuses give as many as one has
	size := q.size(c, len(lists))
	grant, granted := c.Grant(k)
	if granted.GrantVersion == "" && len(indexes) == 1 && !q.Descending { // nothing has to be of the same moment
		members, err := s.scanIndex(ctx, k, indexes[0], from, to, size)
		return members, len(members) < size, err
	}
	args := scanTransactionsArgs{GrantArgs: granted, Command: command, From: from, To: to, Count: size}
	args.AfterMs, args.BeforeMs = b.arguments()
	keys := scanTransactionsKeys{grant, k.Events(), streams.Directory(k.Events()), k.Events(), ArchivedKey(k)}
	asked := !q.indexed()
	if asked {
		keys.Postings = postings.StateKey(k)
	}
	inv := scriptScanTransactions.With(keys, args)
	inv.Keys = append(inv.Keys, indexes...)
	outcome, rest, err := s.db.Run(ctx, inv)
	if err != nil {
		return nil, false, err
	}
	if outcome == "older" {
		if err := s.older(ctx, k, b, rest); err != nil {
			return nil, false, err
		}
		return s.scan(ctx, c, k, q, after, b)
	}
	if asked {
		text, _ := rest[1].(string)
		st := postings.StateOf(k, text)
		b.posted = &st
	}
	if right, err := b.found(rest[2], rest[3]); err != nil || !right {
		if err == nil {
			members, end, err = s.scan(ctx, c, k, q, after, b)
		}
		return members, end, err
	}
	fields, _ := rest[0].(int64)
	members, err = s.Beyond(ctx, k, fields, q.ordered(membersInAll(rest[4:])), Listing{lists, [][2]int64{q.between(after, b)}, q.Descending, size})
	return members[:min(len(members), size)], len(members) < size, err
}

// InRedis are the next entries, up to most, that the indexes of some statuses have between
// two places, with both, at one moment: what the archive has is not among them.
func InRedis(ctx context.Context, db *rediskv.DB, k rediskv.Space, statuses []string, descending bool, low, high int64, most int) (members []Indexed, err error) {
	q := TransactionQuery{Descending: descending}
	args := scanTransactionsArgs{Command: "ZRANGEBYSCORE", From: low, To: high, Count: most}
	if descending {
		args.Command, args.From, args.To = "ZREVRANGEBYSCORE", high, low
	}
	grant, granted := rediskv.Caller{Organization: k.Org}.Grant(k)
	args.GrantArgs = granted
	inv := scriptScanTransactions.With(scanTransactionsKeys{grant, k.Events(), streams.Directory(k.Events()), k.Events(), ArchivedKey(k)}, args)
	inv.Keys = append(inv.Keys, indexesOfStatuses(k, statuses)...)
	_, rest, err := db.Run(ctx, inv)
	if err != nil {
		return nil, err
	}
	members = q.ordered(membersInAll(rest[4:]))
	return members[:min(len(members), most)], nil
}

// between are the places where a scan goes on, with both.
func (q *TransactionQuery) between(after int64, b *bounds) [2]int64 {
	switch {
	case !q.Descending:
		return [2]int64{max(after+1, b.low), b.high}
	case after != 0:
		return [2]int64{b.low, min(after-1, b.high)}
	}
	return [2]int64{b.low, b.high}
}

func membersInAll(lists []any) (members []Indexed) {
	for _, list := range lists {
		f, _ := list.([]any)
		members = append(members, membersIn(f)...)
	}
	return members
}

// membersIn reads members and their positions, one behind the other.
func membersIn(reply []any) (members []Indexed) {
	for i := 0; i+1 < len(reply); i += 2 {
		id, _ := reply[i].(string)
		text, _ := reply[i+1].(string)
		score, _ := strconv.ParseFloat(text, 64)
		members = append(members, MemberAt(id, int64(score)))
	}
	return members
}

// scanIndex is scan upwards of one index for the service itself. It is what
// exports do most; the script took half as long as reading the hashes.
func (s *Store) scanIndex(ctx context.Context, k rediskv.Space, index string, from, to int64, batch int) (members []Indexed, err error) {
	var fields *redis.IntCmd
	err = s.db.Timed(ctx, "scan_index", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		by := redis.ZRangeArgs{Key: index, ByScore: true, Start: from, Stop: to, Count: int64(batch)}
		found := pipe.ZRangeArgsWithScores(ctx, by)
		fields = pipe.HLen(ctx, ArchivedKey(k)) // behind it, see Beyond
		_, err := pipe.Exec(ctx)
		for _, z := range found.Val() {
			id, _ := z.Member.(string)
			members = append(members, MemberAt(id, int64(z.Score)))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	members, err = s.Beyond(ctx, k, fields.Val(), members, Listing{[]string{index}, [][2]int64{{from, to}}, false, batch})
	return members[:min(len(members), batch)], err
}

// indexes are those that hold every match; none when there is no such payout.
func (s *Store) indexes(ctx context.Context, k rediskv.Space, q TransactionQuery) ([]string, error) {
	if q.PayoutID != "" {
		return s.payoutIndexes(ctx, k, q.PayoutID)
	}
	return q.Indexes(k), nil
}

// Indexes is the smallest set of indexes that holds every match.
func (q *TransactionQuery) Indexes(k rediskv.Space) (keys []string) {
	switch {
	case len(q.Statuses) > 0:
		keys = indexesOfStatuses(k, q.Statuses)
	case len(q.Accounts) > 0 && len(q.Accounts) <= rediskv.MostIndexes:
		for _, account := range q.Accounts {
			keys = append(keys, k.TransactionsOf(account))
		}
	default:
		keys = indexesOfStatuses(k, tollgate.TransactionStatuses)
	}
	return keys
}

// ordered puts the members of several indexes in order. Each index gave its own
// first ones, so as many of all of them are complete.
func (q *TransactionQuery) ordered(members []Indexed) []Indexed {
	compare := func(a, b Indexed) int {
		if q.Descending {
			a, b = b, a
		}
		return cmp.Compare(a.Position, b.Position)
	}
	sort.Slice(members, func(i, j int) bool { return compare(members[i], members[j]) < 0 })
	return slices.Compact(members)
}

// scanPayment finds a payment's own transactions without an index: there are
// at most a few dozen.
func (s *Store) scanPayment(ctx context.Context, k rediskv.Space, q TransactionQuery, after int64) ([]Indexed, error) {
	members, err := s.OfPayment(ctx, k, q.PaymentID)
	if err == nil && len(members) > 0 && !members[0].Shared {
		err = s.db.Timed(ctx, "payment_transactions", func(ctx context.Context) error {
			positions := make([]*redis.StringCmd, len(members))
			pipe := s.db.Redis.Pipeline()
			for i, m := range members {
				positions[i] = pipe.HGet(ctx, k.Object(m.ID), "pos")
			}
			if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			for i := range members {
				members[i].Position, _ = positions[i].Int64()
			}
			return nil
		})
	}
	members = slices.DeleteFunc(members, func(m Indexed) bool {
		return m.Position == 0 || (after != 0 && (m.Position == after || q.Descending == (m.Position > after)))
	})
	return q.ordered(members), err
}

// payoutIndexes are the indexes that hold a payout's transaction and all that
// it pays, which never change; none when there is no such payout.
func (s *Store) payoutIndexes(ctx context.Context, k rediskv.Space, id string) ([]string, error) {
	if !strings.HasPrefix(id, tollgate.PrefixPayout) {
		return nil, nil
	}
	if keys, ok := s.payouts.Get(k.Object(id)); ok {
		return *keys, nil
	}
	p, err := s.ReadPayout(ctx, k, id)
	if rediskv.Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return s.indexesOf(k, p), nil
}

// indexesOf are the indexes of a payout, which are remembered.
func (s *Store) indexesOf(k rediskv.Space, p *tollgate.Payout) []string {
	keys := []string{k.Own(p.ID)}
	for _, g := range p.Groups {
		keys = append(keys, k.Group(p.MerchantAccountID, p.Currency, g.Date))
	}
	s.payouts.Add(k.Object(p.ID), &keys)
	return keys
}

// Bounds turns the time filters into positions by way of the event log, whose
// entries carry both. Where the log has been trimmed, or was written by clocks
// that are not Redis', there is no bound.
func (s *Store) Bounds(ctx context.Context, k rediskv.Space, q TransactionQuery) (low, high int64, err error) {
	high = Highest
	if q.CreatedAfter == 0 && q.CreatedBefore == 0 {
		return 0, high, nil
	}
	var oldest, last []redis.XMessage
	others := rediskv.Beside(func() (err error) {
		if q.CreatedAfter != 0 {
			oldest, err = streams.Range(ctx, s.db, k.Events(), "-", "+", 1)
		}
		return err
	})
	latest := rediskv.Beside(func() (err error) {
		if q.CreatedBefore != 0 {
			last, err = streams.RevRange(ctx, s.db, k.Events(), rediskv.Milli(q.CreatedBefore.Add(rediskv.Skew)), "-", 1)
		}
		return err
	})
	var first []redis.XMessage
	if q.CreatedAfter != 0 {
		first, err = streams.Range(ctx, s.db, k.Events(), rediskv.Milli(max(q.CreatedAfter.Add(-rediskv.Skew), 1)), "+", 1)
	}
	others(&err)
	latest(&err)
	if err != nil {
		return 0, 0, err
	}
	if len(first) == 1 && len(oldest) == 1 && first[0].ID != oldest[0].ID {
		if n, apart := eventlog.PlaceOf(first[0]); apart < rediskv.Skew {
			low = n * 16
		}
	}
	if len(last) == 1 {
		if n, apart := eventlog.PlaceOf(last[0]); apart < rediskv.Skew {
			high = n*16 + 15
		}
	}
	return low, high, nil
}

type scanTransactionsKeys struct {
	rediskv.GrantKeys
	Events, Directory, Postings, Archived string
}

type scanTransactionsArgs struct {
	rediskv.GrantArgs
	Command           string
	From, To          int64
	Count             int
	AfterMs, BeforeMs string
}

var scriptScanTransactions = script.NewRead[scanTransactionsKeys, scanTransactionsArgs](lua, "scan_transactions")
