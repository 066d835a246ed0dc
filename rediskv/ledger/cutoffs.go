package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// Captured hands the captures and refunds that an account made in a window to add,
// each less its fee, in the order of commit. It ends with the first error of add,
// and with CodeCutoffInvalid when ctx has no time left for the rest of the
// window. What it has in its hands at a time is one batch, and it writes
// nothing at all: a preview leaves no trace, not even an audit entry
// (interface §10).
func (s *Store) Captured(ctx context.Context, c rediskv.Caller, account string, w tollgate.PreviewWindow, add func(tollgate.CapturedAmount) error) error {
	k := s.db.Space(c.Organization)
	low, err := s.firstSince(ctx, k, account, w.From.Add(-rediskv.Skew))
	if err != nil {
		return err
	}
	q := TransactionQuery{Accounts: []string{account}}
	reading := captureReader{window: w, add: add}
	for after := int64(0); ; {
		var members []Indexed
		var rows []rediskv.Fields
		end := false
		err := c.InTurn(ctx, func() (err error) {
			members, end, err = s.Scan(ctx, c, k, q, after, low, Highest)
			return err
		})
		if err == nil {
			rows, err = s.movedAmounts(ctx, c, k, members)
		}
		if err != nil && after != 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &tollgate.Error{
				Code: tollgate.CodeCutoffInvalid, Param: "window", Cause: err,
				Message: "The window holds more captures than can be read within the time of a request; a shorter one can be previewed.",
			}
		}
		if err != nil {
			return err
		}
		for i, row := range rows {
			if len(row["ty"]) == 0 && len(row["amt"]) == 0 {
				continue // gone
			}
			if err := reading.read(members[i].ID, row); err != nil {
				return s.db.Noticed(ctx, k, err)
			}
		}
		if end || record.ReadHash("", "", rows[len(rows)-1]).Moment("crt") >= w.To.Add(rediskv.Skew) {
			return reading.flush()
		}
		after = members[len(members)-1].Position
	}
}

// probes is how many transactions are looked at at once to find the first one
// of a window: four looks, of two round trips, are enough for a million.
const probes = 31

// firstSince is a position before which all of an account's transactions were
// made before a moment: windows can begin before the event log does, which
// bounds of lists are found with.
func (s *Store) firstSince(ctx context.Context, k rediskv.Space, account string, since tollgate.Instant) (position int64, err error) {
	index := k.TransactionsOf(account)
	low, high := int64(0), int64(0)
	if err := s.db.Timed(ctx, "count_transactions", func(ctx context.Context) (err error) {
		high, err = s.db.Redis.ZCard(ctx, index).Result()
		return err
	}); err != nil {
		return 0, err
	}
	for low < high { // the one that is sought is in between, or is high
		n := min(probes, high-low)
		ranks := make([]int64, n)
		for i := range n {
			ranks[i] = low + (i+1)*(high-low)/(n+1)
		}
		earlier, last, err := s.madeBefore(ctx, k, index, ranks, since)
		if err != nil {
			return 0, err
		}
		if earlier < int(n) {
			high = ranks[earlier]
		}
		if earlier > 0 {
			low, position = ranks[earlier-1]+1, last
		}
	}
	return position, nil
}

// madeBefore counts the first ones of some members of an index that were made
// before a moment, and gives the position of the last of those.
func (s *Store) madeBefore(ctx context.Context, k rediskv.Space, index string, ranks []int64, since tollgate.Instant) (count int, position int64, err error) {
	err = s.db.Timed(ctx, "first_transaction", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		found := make([]*redis.ZSliceCmd, len(ranks))
		for i, rank := range ranks {
			found[i] = pipe.ZRangeWithScores(ctx, index, rank, rank)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		made, places := make([]*redis.SliceCmd, 0, len(ranks)), make([]record.Place, 0, len(ranks))
		for _, f := range found {
			if len(f.Val()) == 0 {
				break
			}
			member, _ := f.Val()[0].Member.(string)
			at := MemberAt(member, 0).Place(k)
			places, made = append(places, at), append(made, pipe.HMGet(ctx, at.Key, at.Names([]string{"crt"})...))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, m := range made {
			at, err := strconv.ParseInt(places[i].Read(m.Val(), []string{"crt"})["crt"], 10, 64)
			if err != nil || tollgate.Instant(at) >= since {
				break
			}
			count, position = i+1, int64(found[i].Val()[0].Score)
		}
		return nil
	})
	return count, position, err
}

// movedFields are the fields of a transaction's hash that a preview needs.
var movedFields = []string{"ty", "crt", "cur", "amt", "cap", "rfd", "bd", "av"}

// movedAmounts reads them; a transaction that is gone leaves empty ones.
func (s *Store) movedAmounts(ctx context.Context, c rediskv.Caller, k rediskv.Space, members []Indexed) (rows []rediskv.Fields, err error) {
	err = rediskv.EachRecord(ctx, s.db, c, "read_captured", members, func(m Indexed) record.Place { return m.Place(k) },
		func(_ Indexed, f rediskv.Fields) { rows = append(rows, f) }, movedFields...)
	if err != nil {
		return nil, err
	}
	return rows, s.amountsArchived(ctx, k, members, rows)
}

// amountsArchived fills the rows that are gone with what the archive has: windows are longer
// than payments have to stay in Redis.
func (s *Store) amountsArchived(ctx context.Context, k rediskv.Space, members []Indexed, rows []rediskv.Fields) error {
	gone := func(i int) bool { return members[i].Shared && rows[i]["ty"]+rows[i]["amt"] == "" }
	var ids []string
	for i, m := range members {
		if gone(i) {
			ids = append(ids, m.ID)
		}
	}
	found, err := s.Archived(ctx, k, ids)
	for i, m := range members {
		of, _, _ := tollgate.NumberIn(m.ID)
		if r := found[of]; r != nil && gone(i) {
			rows[i] = r.Transaction(m.Place(k))
		}
	}
	return err
}

// captureReader puts captures and refunds together with their fees: a fee is
// committed with what it is charged for, right behind it.
type captureReader struct {
	window tollgate.PreviewWindow
	add    func(tollgate.CapturedAmount) error
	id     string // of the capture or refund that may still get a fee
	held   tollgate.CapturedAmount
}

func (r *captureReader) read(id string, f rediskv.Fields) (err error) {
	one := record.ReadHash("transaction", id, f)
	at, amount := one.Instant("crt"), one.Int("amt")
	one.Currency("cur")
	one.Word("ty", tollgate.TransactionTypes...)
	if err := one.Err(); err != nil {
		return err
	}
	if at < r.window.From || at >= r.window.To {
		return nil
	}
	switch tollgate.TransactionType(f["ty"]) {
	case tollgate.TransactionFee:
		if part := f["cap"] + f["rfd"]; part != r.id {
			return tollgate.Damage("transaction", id, fmt.Errorf("transaction %s: a fee of %q behind %q", id, part, r.id))
		}
		r.held.Net -= amount
	case tollgate.TransactionCapture, tollgate.TransactionRefund:
		if err := r.flush(); err != nil {
			return err
		}
		r.id = f["cap"] + f["rfd"]
		r.held = tollgate.CapturedAmount{At: at, Currency: tollgate.Currency(f["cur"]), Net: amount}
		if f["rfd"] != "" {
			r.held.Refund, r.held.Net = true, -amount
		}
		if f["bd"] == "" { // from before sales days were kept
			return nil
		}
		if r.held.SalesDay.Date, err = tollgate.ParseDate(f["bd"]); err == nil {
			r.held.SalesDay.PayoutDate, err = tollgate.ParseDate(f["av"])
		}
		if err != nil {
			return tollgate.Damage("transaction", id, fmt.Errorf("transaction %s: %w", id, err))
		}
	}
	return nil
}

func (r *captureReader) flush() error {
	if r.id == "" {
		return nil
	}
	r.id = ""
	return r.add(r.held)
}
