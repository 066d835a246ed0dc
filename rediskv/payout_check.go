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

// What a step of checkPayout finds, as check_payout.lua knows it.
const (
	sumUnfinished = "more"
	sumRight      = "right"
	sumWrong      = "held"
)

// checkPayout recomputes the sum of a pending payout from the next of its
// transactions, at most moveBatch of them. The last step lets it go on, or holds
// it. What it adds up does not change any more: its days are closed, and amounts
// of transactions never change.
func (s *Store) checkPayout(ctx context.Context, k space, p *tollgate.Payout, f fields) (verdict string, err error) {
	tally, at := p.NewTally(), int64(0)
	if f["tat"] != "" {
		if at, err = strconv.ParseInt(f["tat"], 10, 64); err == nil {
			tally, err = groupsOf(f["tally"])
		}
		if err != nil || len(tally) != len(p.Groups) {
			return "", s.damaged(ctx, k, "payout", p.ID, fmt.Errorf("payout %s: its tally %q up to %q: %w", p.ID, f["tally"], f["tat"], err))
		}
	}
	next, last, fault, err := s.tallyBatch(ctx, k, p, tally, at, false)
	if err != nil {
		return "", err
	}
	if fault == nil && last {
		var own *tollgate.Transaction
		if own, err = s.ownTransaction(ctx, k, p.ID); err != nil {
			return "", err
		}
		fault = tollgate.Tally(tally).Check(p, own)
	}
	switch verdict = sumUnfinished; {
	case fault != nil:
		verdict = sumWrong
	case last:
		verdict = sumRight
	}
	return verdict, s.checked(ctx, k, p, f["tat"], next, tally, verdict, fault)
}

type checkPayoutKeys struct {
	logKeys
	Payout, Payouts, Transaction, PendingIndex, HeldIndex, Mark string
}

type checkPayoutArgs struct {
	Place, Groups                                                       string
	NextPlace                                                           int64
	Tally, Verdict, NowMs, PayoutsMember, TransactionMember, HeldReason string
	eventArgs
	auditArgs
}

var scriptCheckPayout = newScript[checkPayoutKeys, checkPayoutArgs]("check_payout")

// checked commits a step of checkPayout.
func (s *Store) checked(ctx context.Context, k space, p *tollgate.Payout, from string, next int64, tally tollgate.Tally, verdict string, fault error) error {
	held := *p
	held.Status, held.UpdatedAt = tollgate.Held, s.Now()
	if fault != nil {
		held.HeldReason = fault.Error()
	}
	event, entry, err := s.payoutEntry(&held, "payout.hold")
	if err != nil {
		return err
	}
	own := tollgate.PayoutTransactionOf(p.ID)
	outcome, _, err := s.run(ctx, scriptCheckPayout.with(checkPayoutKeys{
		logKeys: k.logs(), Payout: k.object(p.ID), Payouts: k.payouts, Transaction: k.object(own),
		PendingIndex: k.transactionsIn(string(tollgate.Pending)), HeldIndex: k.transactionsIn(string(tollgate.Held)), Mark: k.mark(s.Mint("")),
	}, checkPayoutArgs{
		Place: from, Groups: groupsText(p.Groups), NextPlace: next, Tally: groupsText(tally), Verdict: verdict, NowMs: milli(held.UpdatedAt),
		PayoutsMember: k.org + "/" + p.ID, TransactionMember: unprefixed(own), HeldReason: held.HeldReason, eventArgs: event, auditArgs: entry,
	}))
	if err == nil && outcome == "checked" && verdict == sumWrong {
		s.log.Error("a payout is held", "organization", k.org, "payout", p.ID, "amount", p.Amount().String(), "currency", p.Currency, "reason", held.HeldReason)
		if s.onHeld != nil {
			s.onHeld()
		}
	}
	return err
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

// agreeing compares captures and fees with the record of their captures.
func (s *Store) agreeing(ctx context.Context, k space, found []foundTransaction) (fault, err error) {
	keys := make([]string, len(found))
	for i, t := range found {
		keys[i] = k.object(*t.CaptureID)
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
		if err := decode(text, &c); err != nil || c.ID != *t.CaptureID {
			_ = s.damaged(ctx, k, "capture", *t.CaptureID, cmp.Or(err, errors.New("the document is another one's")))
			return fmt.Errorf("capture %s cannot be read", *t.CaptureID), nil
		}
		amount := c.Amount
		if t.Type == tollgate.TransactionFee {
			amount = c.FeeTotal
		}
		if amount != t.Amount.String() || c.Currency != t.Currency {
			return fmt.Errorf("transaction %s is of %s %s, and capture %s says %s %s", t.ID, t.Amount, t.Currency, c.ID, amount, c.Currency), nil
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
