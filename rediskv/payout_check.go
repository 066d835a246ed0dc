package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// checkPayout recomputes the sum of an unchecked payout from the next of its
// transactions, at most moveBatch of them; more: these were not all. The last step
// lets it go on, or holds it. What it adds up does not change any more: its days
// are closed, and amounts of transactions never change.
func (s *Store) checkPayout(ctx context.Context, k space, p *StoredPayout) (more bool, err error) {
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
	caller := Caller{Organization: k.org}
	ch, err := tollgate.CheckPayout(s.Mint, s.Origin(caller), p.StoredPayout, sum)
	if err != nil {
		return false, err
	}
	more = ch.Payout.Tally != nil
	if _, err = s.CommitPayout(ctx, caller, nil, p, ch, Answer{}); errors.Is(err, ErrConflict) { // another worker was faster
		return more, nil
	}
	if err == nil && ch.Payout.Status == tollgate.Held {
		s.log.Error("a payout is held", "organization", k.org, "payout", p.ID, "amount", p.Amount().String(), "currency", p.Currency, "reason", ch.Payout.HeldReason)
		if s.onHeld != nil {
			s.onHeld()
		}
	}
	return more, err
}

// tallyBatch adds the payout's next transactions behind a position. last: these
// were all. fault says what keeps the sum from being computed. certain also
// compares each with the record of its capture, so that of two amounts that
// differ nobody takes one on trust.
func (s *Store) tallyBatch(ctx context.Context, k space, p *tollgate.Payout, tally tollgate.Tally, after int64, certain bool) (next int64, last bool, fault, err error) {
	members, groups, err := s.members(ctx, k, p, after)
	if err != nil {
		return after, false, nil, err
	}
	found, err := s.transactions(ctx, Caller{Organization: k.org}, k, members)
	if err != nil {
		return after, false, nil, err
	}
	next = after
	for i, t := range found {
		_ = s.noticed(ctx, k, foundErr(t))
		if fault = tally.Add(p, groups[i], t.Transaction); fault != nil {
			return next, false, fmt.Errorf("%s: %w", members[i].id, fault), nil
		}
		next = members[i].position
	}
	if certain && len(found) > 0 {
		if fault, err = s.agreeing(ctx, k, found); err != nil || fault != nil {
			return next, false, fault, err
		}
	}
	return next, len(members) < moveBatch, nil, nil
}

func foundErr(t foundTransaction) error {
	if t.stored == nil {
		return nil // it is gone
	}
	return t.stored.err()
}

// agreeing compares captures, refunds and fees with the record of what they belong
// to.
func (s *Store) agreeing(ctx context.Context, k space, found []foundTransaction) (fault, err error) {
	keys := make([]string, len(found))
	part := func(t foundTransaction) (object, id string) {
		if t.RefundID != nil {
			return "refund", *t.RefundID
		}
		return "capture", *t.CaptureID
	}
	for i, t := range found {
		_, id := part(t)
		keys[i] = k.object(id)
	}
	var docs []any
	if err := s.timed(ctx, "read_captures", func(ctx context.Context) (err error) {
		docs, err = s.client.MGet(ctx, keys...).Result()
		return err
	}); err != nil {
		return nil, err
	}
	for i, t := range found {
		text, _ := docs[i].(string)
		var c struct {
			ID       string            `json:"id"`
			Amount   string            `json:"amount"`
			FeeTotal string            `json:"fee_total"`
			Currency tollgate.Currency `json:"currency"`
		}
		object, id := part(t)
		if err := decode(text, &c); err != nil || c.ID != id {
			_ = s.damaged(ctx, k, object, id, cmp.Or(err, errors.New("the document is another one's")))
			return fmt.Errorf("%s %s cannot be read", object, id), nil
		}
		amount := c.Amount
		if t.Type == tollgate.TransactionFee {
			amount = c.FeeTotal
		}
		if amount != t.Amount.String() || c.Currency != t.Currency {
			return fmt.Errorf("transaction %s is of %s %s, and %s %s says %s %s", t.ID, t.Amount, t.Currency, object, c.ID, amount, c.Currency), nil
		}
	}
	return nil, nil
}

// members reads the next captures and fees of a payout behind a position,
// in the order of their positions, with the number of the group of each.
func (s *Store) members(ctx context.Context, k space, p *tollgate.Payout, after int64) (list []indexed, groups []int, err error) {
	type member struct {
		indexed
		group int
	}
	var all []member
	err = s.timed(ctx, "payout_members", func(ctx context.Context) error {
		pipe := s.client.Pipeline()
		replies := make([]*redis.ZSliceCmd, len(p.Groups))
		for i, g := range p.Groups {
			replies[i] = pipe.ZRangeByScoreWithScores(ctx, k.group(p.MerchantAccountID, p.Currency, g.Date),
				&redis.ZRangeBy{Min: "(" + strconv.FormatInt(after, 10), Max: "+inf", Count: moveBatch})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, r := range replies {
			for _, z := range r.Val() {
				id, _ := z.Member.(string)
				all = append(all, member{indexed{tollgate.PrefixTransaction + id, int64(z.Score)}, i})
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.position, b.position) })
	for _, m := range all[:min(len(all), moveBatch)] {
		list, groups = append(list, m.indexed), append(groups, m.group)
	}
	return list, groups, err
}

func (s *Store) ownTransaction(ctx context.Context, k space, payout string) (*tollgate.Transaction, error) {
	found, err := s.transactions(ctx, Caller{Organization: k.org}, k, []indexed{{id: tollgate.PayoutTransactionOf(payout)}})
	if err != nil {
		return nil, err
	}
	_ = s.noticed(ctx, k, foundErr(found[0]))
	return found[0].Transaction, nil
}
