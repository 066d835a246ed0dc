package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Captured hands the captures that an account made in a window to add, each
// less its fee, in the order of commit. It ends with the first error of add.
// What it has in its hands at a time is one batch, and it writes nothing at
// all: a preview leaves no trace, not even an audit entry (interface §10).
func (s *Store) Captured(ctx context.Context, c Caller, account string, w tollgate.PreviewWindow, add func(tollgate.CapturedAmount) error) error {
	k := s.space(c.Organization)
	low, err := s.firstSince(ctx, k, account, w.From.Add(-skew))
	if err != nil {
		return err
	}
	q := TransactionQuery{Accounts: []string{account}}
	reading := captureReader{window: w, add: add}
	for after := int64(0); ; {
		members, err := s.scan(ctx, c, k, q, after, low, maxPosition)
		if err != nil {
			return err
		}
		rows, err := s.movedAmounts(ctx, k, members)
		if err != nil {
			return err
		}
		for i, row := range rows {
			if err := reading.read(row); err != nil {
				return fmt.Errorf("transaction %s: %w", members[i].id, err)
			}
		}
		if len(members) < scanBatch || rows[len(rows)-1].instant("crt") >= w.To.Add(skew) {
			return reading.flush()
		}
		after = members[len(members)-1].position
	}
}

// maxPosition is beyond every position: integers up to it are exact scores.
const maxPosition = 1 << 53

// firstSince is a position before which all of an account's transactions were
// made before a moment, found by halving: windows can begin before the event
// log does, which bounds of lists are found with.
func (s *Store) firstSince(ctx context.Context, k space, account string, since tollgate.Instant) (position int64, err error) {
	index := k.transactionsOf(account)
	err = s.timed(ctx, "first_transaction", func(ctx context.Context) error {
		high, err := s.client.ZCard(ctx, index).Result()
		if err != nil {
			return err
		}
		for low := int64(0); low < high; {
			middle := (low + high) / 2
			found, err := s.client.ZRangeWithScores(ctx, index, middle, middle).Result()
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return nil
			}
			id, _ := found[0].Member.(string)
			made, err := s.client.HGet(ctx, k.object(tollgate.PrefixTransaction+id), "crt").Int64()
			switch {
			case err != nil && !errors.Is(err, redis.Nil):
				return err
			case err == nil && tollgate.Instant(made) < since:
				low, position = middle+1, int64(found[0].Score)
			default:
				high = middle
			}
		}
		return nil
	})
	return position, err
}

// movedFields are the fields of a transaction's hash that a preview needs.
var movedFields = []string{"ty", "crt", "cur", "amt", "cap", "bd", "av"}

// movedAmounts reads them; a transaction that is gone leaves empty ones.
func (s *Store) movedAmounts(ctx context.Context, k space, members []indexed) (rows []fields, err error) {
	if len(members) == 0 {
		return nil, nil
	}
	err = s.timed(ctx, "read_captured", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.SliceCmd, len(members))
		for i, m := range members {
			replies[i] = pipe.HMGet(ctx, k.object(m.id), movedFields...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for _, r := range replies {
			row := make(fields, len(movedFields))
			for i, v := range r.Val() {
				if text, ok := v.(string); ok {
					row[movedFields[i]] = text
				}
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, err
}

// captureReader puts captures and their fees together: a fee is committed with
// its capture, right behind it.
type captureReader struct {
	window tollgate.PreviewWindow
	add    func(tollgate.CapturedAmount) error
	id     string // of the capture that may still get a fee
	held   tollgate.CapturedAmount
}

func (r *captureReader) read(f fields) error {
	at := f.instant("crt")
	if at < r.window.From || at >= r.window.To {
		return nil
	}
	amount, err := strconv.ParseInt(f["amt"], 10, 64)
	if err != nil {
		return err
	}
	switch tollgate.TransactionType(f["ty"]) {
	case tollgate.TransactionFee:
		if f["cap"] != r.id {
			return fmt.Errorf("a fee of capture %q behind capture %q", f["cap"], r.id)
		}
		r.held.Net -= amount
	case tollgate.TransactionCapture:
		if err := r.flush(); err != nil {
			return err
		}
		r.id = f["cap"]
		r.held = tollgate.CapturedAmount{At: at, Currency: tollgate.Currency(f["cur"]), Net: amount}
		if f["bd"] == "" { // from before sales days were kept
			return nil
		}
		if r.held.Batch.Date, err = tollgate.ParseDate(f["bd"]); err != nil {
			return err
		}
		r.held.Batch.PayoutDate, err = tollgate.ParseDate(f["av"])
		return err
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
