package payouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// checkPayout recomputes the sum of an unchecked payout from the next of its
// transactions, at most moveBatch of them; more: these were not all. The last step
// lets it go on, or holds it. What it adds up does not change any more: its days
// are closed, and amounts of transactions never change.
func (s *Store) checkPayout(ctx context.Context, k rediskv.Space, p *ledger.StoredPayout) (more bool, err error) {
	sum := tollgate.SumCheck{Tally: slices.Clone(p.Tally)}
	if p.Tally == nil {
		sum.Tally = p.NewTally()
	}
	if sum.Place, sum.Last, sum.Fault, err = s.tallyBatch(ctx, k, &p.Payout, sum.Tally, p.TallyPlace, false); err != nil {
		return false, err
	}
	if sum.Fault == nil && sum.Last {
		if sum.Own, err = s.ownTransaction(ctx, k, p.ID); err != nil {
			return false, err
		}
	}
	caller := rediskv.Caller{Organization: k.Org}
	ch, err := tollgate.CheckPayout(s.db.NewID, s.db.Origin(caller), p.StoredPayout, sum)
	if err != nil {
		return false, err
	}
	more = ch.Payout.Tally != nil
	if _, err = s.CommitPayout(ctx, caller, nil, p, ch, rediskv.Answer{}); errors.Is(err, rediskv.ErrConflict) { // another worker was faster
		return more, nil
	}
	if err == nil && ch.Payout.Status == tollgate.PayoutStatusHeld {
		s.db.Log.Error("a payout is held", "organization", k.Org, "payout", p.ID, "amount", p.Amount().String(), "currency", p.Currency, "reason", ch.Payout.HeldReason)
		if s.db.OnHeld != nil {
			s.db.OnHeld()
		}
	}
	return more, err
}

// tallyBatch adds the payout's next transactions behind a position. last: these
// were all. fault says what keeps the sum from being computed. certain also
// compares each with the record of its capture, so that of two amounts that
// differ nobody takes one on trust.
func (s *Store) tallyBatch(ctx context.Context, k rediskv.Space, p *tollgate.Payout, tally tollgate.Tally, after int64, certain bool) (next int64, last bool, fault, err error) {
	members, groups, err := s.members(ctx, k, p, after)
	if err != nil {
		return after, false, nil, err
	}
	found, err := s.ledger.ReadTransactions(ctx, rediskv.Caller{Organization: k.Org}, k, members, nil)
	if err != nil {
		return after, false, nil, err
	}
	next = after
	for i, t := range found {
		_ = s.db.Noticed(ctx, k, foundErr(t))
		if fault = tally.Add(p, groups[i], t.Transaction); fault != nil {
			return next, false, fmt.Errorf("%s: %w", members[i].ID, fault), nil
		}
		next = members[i].Position
	}
	if certain && len(found) > 0 {
		if fault, err = s.agreeing(ctx, k, members, found); err != nil || fault != nil {
			return next, false, fault, err
		}
	}
	return next, len(members) < moveBatch, nil, nil
}

func foundErr(t ledger.FoundTransaction) error {
	if t.Stored == nil {
		return nil // it is gone
	}
	return t.Stored.Err()
}

// agreeing compares captures, refunds and fees with the record of what they belong
// to.
func (s *Store) agreeing(ctx context.Context, k rediskv.Space, members []ledger.Indexed, found []ledger.FoundTransaction) (fault, err error) {
	part := func(t ledger.FoundTransaction) (object, id string) {
		if t.RefundID != nil {
			return "refund", *t.RefundID
		}
		return "capture", *t.CaptureID
	}
	docs := make([]*ledger.Document, len(found))
	if err := s.db.Timed(ctx, "read_captures", func(ctx context.Context) (err error) {
		pipe := s.db.Redis.Pipeline()
		for i, t := range found {
			_, id := part(t)
			docs[i] = members[i].AskDocument(ctx, pipe, k, id)
		}
		return rediskv.Answered(pipe.Exec(ctx))
	}); err != nil {
		return nil, err
	}
	for i, t := range found {
		object, id := part(t)
		named, amount, fee, err := paidFor(object, k.Object(id), docs[i].Val())
		if err != nil || named != id {
			_ = s.db.Damaged(ctx, k, object, id, cmp.Or(err, errors.New("the document is another one's")))
			return fmt.Errorf("%s %s cannot be read", object, id), nil
		}
		if t.Type == tollgate.TransactionFee {
			amount = fee
		}
		if amount != t.Transaction.Amount {
			return fmt.Errorf("transaction %s is of %s %s, and %s %s says %s %s", t.ID, t.Transaction.Amount, t.Transaction.Currency, object, id, amount, amount.Currency), nil
		}
	}
	return nil, nil
}

// paidFor reads what a capture or a refund says of itself.
func paidFor(object, key, text string) (id string, amount, fee tollgate.Money, err error) {
	if object == "refund" {
		var r tollgate.Refund
		err = record.DecodeAt(key, text, &r)
		return r.ID, r.Amount, r.FeeTotal, err
	}
	var c tollgate.Capture
	err = record.DecodeAt(key, text, &c)
	return c.ID, c.Amount, c.FeeTotal, err
}

// members reads the next captures and fees of a payout behind a position,
// in the order of their positions, with the number of the group of each.
func (s *Store) members(ctx context.Context, k rediskv.Space, p *tollgate.Payout, after int64) (list []ledger.Indexed, groups []int, err error) {
	type member struct {
		ledger.Indexed
		group int
	}
	var all []member
	err = s.db.Timed(ctx, "payout_members", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		replies := make([]*redis.ZSliceCmd, len(p.Groups))
		for i, g := range p.Groups {
			replies[i] = pipe.ZRangeByScoreWithScores(ctx, k.Group(p.MerchantAccountID, p.Currency, g.Date),
				&redis.ZRangeBy{Min: "(" + strconv.FormatInt(after, 10), Max: "+inf", Count: moveBatch})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, r := range replies {
			for _, z := range r.Val() {
				named, _ := z.Member.(string)
				all = append(all, member{ledger.MemberAt(named, int64(z.Score)), i})
			}
		}
		return nil
	})
	compare := func(a, b member) int { return cmp.Compare(a.Position, b.Position) }
	sort.Slice(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
	for _, m := range all[:min(len(all), moveBatch)] {
		list, groups = append(list, m.Indexed), append(groups, m.group)
	}
	return list, groups, err
}

func (s *Store) ownTransaction(ctx context.Context, k rediskv.Space, payout string) (*tollgate.Transaction, error) {
	found, err := s.ledger.ReadTransactions(ctx, rediskv.Caller{Organization: k.Org}, k, []ledger.Indexed{{ID: tollgate.PayoutTransactionOf(payout)}}, nil)
	if err != nil {
		return nil, err
	}
	_ = s.db.Noticed(ctx, k, foundErr(found[0]))
	return found[0].Transaction, nil
}
