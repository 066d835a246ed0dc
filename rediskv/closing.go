package rediskv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Due names something of an organization whose time has come: a payment, an
// account or a payout.
type Due struct{ Organization, ID string }

// due lists members of one of a partition's queues, the earliest first.
func (s *Store) due(ctx context.Context, operation, key string, limit int) (list []Due, err error) {
	err = s.timed(ctx, operation, func(ctx context.Context) error {
		members, err := s.client.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: milli(s.Now()), Count: int64(limit)}).Result()
		for _, m := range members {
			org, id, _ := strings.Cut(m, "/")
			list = append(list, Due{org, id})
		}
		return err
	})
	return list, err
}

// DueAccounts lists accounts of a partition of which a payout date may be over.
func (s *Store) DueAccounts(ctx context.Context, partition, limit int) ([]Due, error) {
	return s.due(ctx, "due_accounts", cutoffsKey(partition), limit)
}

// closingAttempts bounds how often an account is read again because it has
// changed meanwhile.
const closingAttempts = 20

// CloseDays closes the sales days of an account that are over, and makes the
// payouts that fall due by that. It may be called at any time, by any number of
// workers. An account to which nothing is owed is not looked at, and then its days
// are closed together, the next time.
func (s *Store) CloseDays(ctx context.Context, org, account string) (made int, err error) {
	k := s.space(org)
	for range closingAttempts {
		a, payable, err := s.payable(ctx, k, account)
		if gone(err) {
			return made, s.timed(ctx, "forget_cutoff", func(ctx context.Context) error {
				return s.client.ZRem(ctx, k.cutoffs, org+"/"+account).Err()
			})
		}
		if err != nil {
			return made, err
		}
		closing := tollgate.CloseDays(s.Origin(Caller{Organization: org}), account, tollgate.PayoutAccount{Cutoffs: a.Cutoffs, Closed: a.Closed}, payable)
		err = s.closeDay(ctx, k, a, closing, payable)
		for i := range closing.Payouts {
			if err != nil {
				break
			}
			if err = s.makePayout(ctx, k, &closing.Payouts[i], payable); err == nil {
				made++
			}
		}
		again := errors.Is(err, ErrStale) || errors.Is(err, ErrConflict)
		if err != nil && !again {
			return made, err
		}
		if !again && len(closing.Payouts) == 0 {
			return made, nil
		}
	}
	return made, fmt.Errorf("account %s: %w", account, ErrConflict)
}

// payable reads an account and what it is to be paid, at one moment and not
// from the cache.
func (s *Store) payable(ctx context.Context, k space, account string) (*Account, []tollgate.Payable, error) {
	found, err := s.readHashes(ctx, "read_payable", k.object(account), k.payable(account), k.refunds(account))
	if err != nil {
		return nil, nil, err
	}
	a := &Account{Revision: found[0].int("v")}
	if err := found[0].document(&a.MerchantAccount); err != nil {
		return nil, nil, s.damagedAt(ctx, k.object(account), err)
	}
	if a.Cutoffs, a.Closed, err = cutoffsOf(found[0], a.Cutoff); err != nil {
		return nil, nil, s.damagedAt(ctx, k.object(account), err)
	}
	list, err := payableOf(found[1], found[2])
	return a, list, s.damagedAt(ctx, k.object(account), err)
}

// closeDay closes days. While payouts are to be made the account stays where it is
// in the queue, so that they are made by somebody else if this worker dies.
func (s *Store) closeDay(ctx context.Context, k space, a *Account, closing tollgate.DayClosing, payable []tollgate.Payable) error {
	seen := ","
	for _, p := range payable {
		seen += p.Due.String() + ","
	}
	look := cmp.Or(milli(closing.Look), "none")
	if len(closing.Payouts) > 0 {
		look = "keep"
	}
	_, _, err := s.run(ctx, scriptCloseDay.with(
		closeDayKeys{Account: k.object(a.ID), Payable: k.payable(a.ID), Cutoffs: k.cutoffs, Mark: k.mark(s.Mint(""))},
		closeDayArgs{AccountRevision: a.Revision, LastClosed: closing.Last.String(), CutoffsMember: k.org + "/" + a.ID, LookAt: look, PayoutDates: seen},
	))
	return err
}

type closeDayKeys struct{ Account, Payable, Cutoffs, Mark string }

type closeDayArgs struct {
	AccountRevision                                int64
	LastClosed, CutoffsMember, LookAt, PayoutDates string
}

var scriptCloseDay = newScript[closeDayKeys, closeDayArgs](lua, "close_day")

type makePayoutKeys struct {
	logKeys
	Account, Payable, Refunds, Payout, Transaction, StatusIndex, AllTransactions, AccountTransactions, PayoutTransactions, Payouts string
}

type makePayoutArgs struct {
	PayoutDate string
	eventArgs
	auditArgs
	PayoutsMember, NowMs, TransactionMember string
	PayableCount                            int
}

var scriptMakePayout = newScript[makePayoutKeys, makePayoutArgs](lua, "make_payout")

// makePayout commits one payout. One that is there already is no error.
func (s *Store) makePayout(ctx context.Context, k space, p *tollgate.Payout, payable []tollgate.Payable) error {
	now := s.Now()
	p.CreatedAt, p.UpdatedAt = now, now
	e, err := p.Event(s.Mint)
	if err != nil {
		return err
	}
	event, err := eventArguments(&e)
	if err != nil {
		return err
	}
	entry, err := s.entry(Caller{Organization: k.org}, "payout.create", "succeeded", "", "payout", p.ID)
	if err != nil {
		return err
	}
	var taken, refunded pairs
	for _, is := range payable {
		if is.Currency == p.Currency && slices.Contains(p.Groups, is.PayoutGroup) {
			taken, refunded = append(taken, payableFields(is)...), append(refunded, refundedFields(is)...)
		}
	}
	t := p.Transaction()
	account := p.MerchantAccountID
	member := unprefixed(t.ID)
	f, tf := payoutFields(p), transactionFields(&t)
	inv := scriptMakePayout.with(makePayoutKeys{
		logKeys: k.logs(), Account: k.object(account), Payable: k.payable(account), Refunds: k.refunds(account), Payout: k.object(p.ID),
		Transaction: k.object(t.ID), StatusIndex: k.transactionsIn(t.Status), AllTransactions: k.transactions(),
		AccountTransactions: k.transactionsOf(account), PayoutTransactions: k.own(p.ID), Payouts: k.payouts,
	}, makePayoutArgs{
		PayoutDate: p.Date.String(), eventArgs: event, auditArgs: entry,
		PayoutsMember: k.org + "/" + p.ID, NowMs: milli(now), TransactionMember: member, PayableCount: len(taken),
	})
	inv.args = append(inv.args, taken...)
	inv.group(refunded)
	inv.group(f)
	inv.group(tf)
	outcome, _, err := s.run(ctx, inv)
	if err == nil && outcome == "early" {
		return ErrStale
	}
	return err
}
