package rediskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// moveBatch is how many captures and fees one script moves; a larger one would
// hold up everybody else in the slot.
const moveBatch = 200

// DuePayouts lists payouts of a partition that are to be carried on.
func (s *Store) DuePayouts(ctx context.Context, partition, limit int) ([]Due, error) {
	return s.due(ctx, "due_payouts", payoutsKey(partition), limit)
}

// MovePayout makes the next captures and fees of a payout available, or
// settled once it is paid, at most moveBatch of them. It returns false when
// the payout step comes next, and when there is nothing more to do.
func (s *Store) MovePayout(ctx context.Context, org, id string) (more bool, err error) {
	k := s.space(org)
	p, f, err := s.readPayout(ctx, k, id)
	if gone(err) {
		return false, s.timed(ctx, "forget_payout", func(ctx context.Context) error { return s.client.ZRem(ctx, k.payouts, org+"/"+id).Err() })
	}
	if err != nil {
		return false, err
	}
	if p.Status == tollgate.Pending && f["sum"] != f["grp"] {
		verdict, err := s.checkPayout(ctx, k, p, f)
		if err != nil || verdict != sumRight {
			return verdict == sumUnfinished, err
		}
		if p, f, err = s.readPayout(ctx, k, id); err != nil {
			return false, err
		}
	}
	step, next, from, to := f["step"], stepPay, tollgate.TransactionPending, tollgate.TransactionAvailable
	switch step {
	case stepAvailable:
	case stepSettle:
		next, from, to = stepDone, tollgate.TransactionAvailable, tollgate.TransactionSettled
	default:
		return false, nil
	}
	members, _, err := s.members(ctx, k, p, read("", "", f).int("at"))
	if err != nil {
		return false, err
	}
	at := "0"
	if len(members) == moveBatch {
		next, at = step, strconv.FormatInt(members[moveBatch-1].position, 10)
	}
	inv := scriptMoveMembers.with(
		moveMembersKeys{Payout: k.object(id), Payouts: k.payouts, OldIndex: k.transactionsIn(from), NewIndex: k.transactionsIn(to)},
		moveMembersArgs{Step: step, Place: f["at"], NextStep: next, NextPlace: at, NewStatus: to, PayoutID: id, NowMs: milli(s.Now()), PayoutsMember: org + "/" + id},
	)
	for _, m := range members {
		inv.keys = append(inv.keys, k.object(m.id))
		inv.args = append(inv.args, unprefixed(m.id), strconv.FormatInt(m.position, 10))
	}
	_, _, err = s.run(ctx, inv)
	return next != stepPay && next != stepDone, err
}

func (s *Store) readPayout(ctx context.Context, k space, id string) (*tollgate.Payout, fields, error) {
	found, err := s.readHashes(ctx, "read_payout", k.object(id))
	if err != nil {
		return nil, nil, err
	}
	p, err := payoutOf(k, id, found[0])
	return p, found[0], s.noticed(ctx, k, err)
}

// BeginPayout takes a payout to pay it, for as long as the lease; nil when its
// turn has not come, when it is paid, or when another worker has it. A lease
// that ran out does not say that nothing was paid: the payout step is asked
// again, with the same id.
func (s *Store) BeginPayout(ctx context.Context, org, id string, lease time.Duration) (*tollgate.Payout, error) {
	k := s.space(org)
	now := s.Now()
	own := tollgate.PayoutTransactionOf(id)
	outcome, rest, err := s.run(ctx, scriptBeginPayout.with(beginPayoutKeys{
		Payout: k.object(id), Payouts: k.payouts, Transaction: k.object(own),
		PendingIndex: k.transactionsIn(string(tollgate.Pending)), InTransitIndex: k.transactionsIn(string(tollgate.InTransit)),
	}, beginPayoutArgs{
		Operation: s.Mint(""), NowMs: milli(now), LeaseUntil: milli(now.Add(lease)), PayoutsMember: org + "/" + id, TransactionMember: unprefixed(own),
	}))
	if err != nil || outcome != "taken" {
		return nil, err
	}
	f := fieldsOf(rest[0])
	p, err := payoutOf(k, id, f)
	if err == nil && f["sum"] != "" && f["sum"] != f["grp"] {
		err = tollgate.Damage("payout", id, fmt.Errorf("payout %s: its sum has changed since it was recomputed", id))
	}
	return p, s.noticed(ctx, k, err)
}

// DelayPayout asks for a payout again later: the payout step could not say
// what became of it.
func (s *Store) DelayPayout(ctx context.Context, org, id string, until tollgate.Instant) error {
	k := s.space(org)
	return s.timed(ctx, "delay_payout", func(ctx context.Context) error {
		pipe := s.client.TxPipeline()
		pipe.HSet(ctx, k.object(id), "lease", milli(until))
		pipe.ZAddXX(ctx, k.payouts, redis.Z{Score: float64(until), Member: org + "/" + id})
		_, err := pipe.Exec(ctx)
		return err
	})
}

// EndPayout records what the payout step said. What a failed payout was to pay
// is due again on the account's next payout date.
func (s *Store) EndPayout(ctx context.Context, p *tollgate.Payout, o tollgate.PayoutOutcome) error {
	for range closingAttempts {
		err := s.endPayout(ctx, p, o)
		if !errors.Is(err, ErrStale) {
			return err
		}
	}
	return fmt.Errorf("payout %s: %w", p.ID, ErrStale)
}

func (s *Store) endPayout(ctx context.Context, p *tollgate.Payout, o tollgate.PayoutOutcome) error {
	k := s.space(p.OrganizationID)
	account := p.MerchantAccountID
	ended := *p
	ended.Status, ended.FailureReason, ended.Reference, ended.UpdatedAt = tollgate.Paid, o.Failure, o.Reference, s.Now()
	var again pairs
	due, look := "", ""
	if o.Failure != "" {
		ended.Status = tollgate.Failed
		a, _, err := s.payable(ctx, k, account)
		if err != nil {
			return err
		}
		open := a.Cutoffs.SalesDay(ended.UpdatedAt)
		on := a.Cutoffs.NextPayoutDate(max(p.Date, a.Closed, open-1))
		due, look = on.String(), milli(max(a.Cutoffs.End(on), a.Cutoffs.End(open)))
		for _, g := range p.Groups {
			again = append(again, payableFields(tollgate.Payable{Due: on, Currency: p.Currency, PayoutGroup: g})...)
		}
	}
	event, entry, err := s.payoutEntry(&ended, "payout."+string(ended.Status))
	if err != nil {
		return err
	}
	own := tollgate.PayoutTransactionOf(p.ID)
	inv := scriptEndPayout.with(endPayoutKeys{
		logKeys: k.logs(), Payout: k.object(p.ID), Payouts: k.payouts, Transaction: k.object(own),
		InTransitIndex: k.transactionsIn(string(tollgate.InTransit)), NewIndex: k.transactionsIn(string(ended.Status)),
		Account: k.object(account), Payable: k.payable(account), Cutoffs: k.cutoffs,
	}, endPayoutArgs{
		Outcome: string(ended.Status), Failure: o.Failure, NowMs: milli(ended.UpdatedAt), PayoutsMember: k.org + "/" + p.ID,
		TransactionMember: unprefixed(own), eventArgs: event, auditArgs: entry, NewDate: due, CutoffsMember: k.org + "/" + account,
		LookAt: look, PayableCount: len(again),
	})
	inv.args = append(append(inv.args, again...), o.Reference)
	_, _, err = s.run(ctx, inv)
	return err
}

type moveMembersKeys struct{ Payout, Payouts, OldIndex, NewIndex string }

type moveMembersArgs struct {
	Step, Place, NextStep, NextPlace, NewStatus, PayoutID, NowMs, PayoutsMember string
}

type beginPayoutKeys struct{ Payout, Payouts, Transaction, PendingIndex, InTransitIndex string }

type beginPayoutArgs struct{ Operation, NowMs, LeaseUntil, PayoutsMember, TransactionMember string }

type endPayoutKeys struct {
	logKeys
	Payout, Payouts, Transaction, InTransitIndex, NewIndex, Account, Payable, Cutoffs string
}

type endPayoutArgs struct {
	Outcome, Failure, NowMs, PayoutsMember, TransactionMember string
	eventArgs
	auditArgs
	NewDate, CutoffsMember, LookAt string
	PayableCount                   int
}

var (
	scriptMoveMembers = newScript[moveMembersKeys, moveMembersArgs]("move_members")
	scriptBeginPayout = newScript[beginPayoutKeys, beginPayoutArgs]("begin_payout")
	scriptEndPayout   = newScript[endPayoutKeys, endPayoutArgs]("end_payout")
)
