package payouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/accounts"
	"tollgate/rediskv/history"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/script"
)

// Due names something of an organization whose time has come: a payment, an
// account or a payout.
type Due struct{ Organization, ID string }

// Due lists members of one of a partition's queues, the earliest first.
func (s *Store) Due(ctx context.Context, operation, key string, limit int) (list []Due, err error) {
	err = s.db.Timed(ctx, operation, func(ctx context.Context) error {
		members, err := s.db.Redis.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: rediskv.Milli(s.db.Now()), Count: int64(limit)}).Result()
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
	return s.Due(ctx, "due_accounts", rediskv.CutoffsKey(partition), limit)
}

// closingAttempts bounds how often an account is read again because it has
// changed meanwhile.
const closingAttempts = 20

// CloseDays closes the sales days of an account that are over, and makes the
// payouts that fall due by that. It may be called at any time, by any number of
// workers. An account to which nothing is owed is not looked at, and then its days
// are closed together, the next time.
func (s *Store) CloseDays(ctx context.Context, org, account string) (made int, err error) {
	k := s.db.Space(org)
	ctx, may := s.mayPay(ctx, k)
	if !may {
		return 0, nil
	}
	for range closingAttempts {
		a, payable, err := s.payable(ctx, k, account)
		if rediskv.Gone(err) {
			return made, s.db.Timed(ctx, "forget_cutoff", func(ctx context.Context) error {
				return s.db.Redis.ZRem(ctx, k.Cutoffs, org+"/"+account).Err()
			})
		}
		if err != nil {
			return made, err
		}
		closing := tollgate.CloseDays(s.db.Origin(rediskv.Caller{Organization: org}), account, tollgate.PayoutAccount{Cutoffs: a.Cutoffs, Closed: a.Closed}, payable)
		err = s.closeDay(ctx, k, a, closing, payable)
		for i := range closing.Payouts {
			if err != nil {
				break
			}
			if err = s.makePayout(ctx, k, &closing.Payouts[i], payable); err == nil {
				made++
			}
		}
		again := errors.Is(err, rediskv.ErrStale) || errors.Is(err, rediskv.ErrConflict)
		if err != nil && !again {
			return made, err
		}
		if !again && len(closing.Payouts) == 0 {
			return made, nil
		}
	}
	return made, fmt.Errorf("account %s: %w", account, rediskv.ErrConflict)
}

// mayPay has payouts be made and begun only within the history as it is known here, which
// they name. Once a loss is found that history has ended, whoever has found it; while that
// is not accepted there may be none.
func (s *Store) mayPay(ctx context.Context, k rediskv.Space) (context.Context, bool) {
	r := s.db.Histories.Of(k.Partition)
	return history.Within(ctx, r.ID), r.Loss == nil
}

// payable reads an account and what it is to be paid, at one moment and not
// from the cache.
func (s *Store) payable(ctx context.Context, k rediskv.Space, account string) (*accounts.Account, []tollgate.Payable, error) {
	found, err := s.db.ReadHashes(ctx, "read_payable", k.Object(account), k.Payable(account), k.Refunds(account))
	if err != nil {
		return nil, nil, err
	}
	a := &accounts.Account{Revision: found[0].Int("v")}
	if err := found[0].Document(&a.MerchantAccount); err != nil {
		return nil, nil, s.db.DamagedAt(ctx, k.Object(account), err)
	}
	if a.Cutoffs, a.Closed, err = accounts.CutoffsOf(found[0], a.Cutoff); err != nil {
		return nil, nil, s.db.DamagedAt(ctx, k.Object(account), err)
	}
	list, err := ledger.PayableOf(found[1], found[2])
	return a, list, s.db.DamagedAt(ctx, k.Object(account), err)
}

// closeDay closes days. While payouts are to be made the account stays where it is
// in the queue, so that they are made by somebody else if this worker dies.
func (s *Store) closeDay(ctx context.Context, k rediskv.Space, a *accounts.Account, closing tollgate.DayClosing, payable []tollgate.Payable) error {
	seen := ","
	for _, p := range payable {
		seen += p.Due.String() + ","
	}
	look := cmp.Or(rediskv.Milli(closing.Look), "none")
	if len(closing.Payouts) > 0 {
		look = "keep"
	}
	_, _, err := s.db.Run(ctx, scriptCloseDay.With(
		closeDayKeys{Account: k.Object(a.ID), Payable: k.Payable(a.ID), Cutoffs: k.Cutoffs, Mark: k.Mark(s.db.NewID(""))},
		closeDayArgs{AccountRevision: a.Revision, LastClosed: closing.Last.String(), CutoffsMember: k.Org + "/" + a.ID, LookAt: look, PayoutDates: seen},
	))
	return err
}

type closeDayKeys struct{ Account, Payable, Cutoffs, Mark string }

type closeDayArgs struct {
	AccountRevision                                int64
	LastClosed, CutoffsMember, LookAt, PayoutDates string
}

var scriptCloseDay = script.New[closeDayKeys, closeDayArgs](lua, "close_day")

type makePayoutKeys struct {
	rediskv.LogKeys
	Account, Payable, Refunds, Payout, Transaction, StatusIndex, AllTransactions, AccountTransactions, PayoutTransactions, Payouts string
}

type makePayoutArgs struct {
	PayoutDate string
	rediskv.EventArgs
	rediskv.AuditArgs
	PayoutsMember, NowMs, TransactionMember string
	PayableCount                            int
}

var scriptMakePayout = script.New[makePayoutKeys, makePayoutArgs](lua, "make_payout")

// makePayout commits one payout. One that is there already is no error.
func (s *Store) makePayout(ctx context.Context, k rediskv.Space, p *tollgate.Payout, payable []tollgate.Payable) error {
	now := s.db.Now()
	p.CreatedAt, p.UpdatedAt = now, now
	e, err := p.Event(s.db.NewID)
	if err != nil {
		return err
	}
	event, err := rediskv.EventArguments(k, rediskv.Caller{}, &e)
	if err != nil {
		return err
	}
	entry, err := s.db.Entry(rediskv.Caller{Organization: k.Org}, "payout.create", "succeeded", "", "payout", p.ID)
	if err != nil {
		return err
	}
	var taken, refunded rediskv.Pairs
	for _, is := range payable {
		if is.Currency == p.Currency && slices.Contains(p.Groups, is.PayoutGroup) {
			taken, refunded = append(taken, ledger.PayableFields(is)...), append(refunded, ledger.RefundedFields(is)...)
		}
	}
	t := p.Transaction()
	account := p.MerchantAccountID
	member := rediskv.Unprefixed(t.ID)
	f, tf := ledger.PayoutFields(p), ledger.TransactionFields(&t)
	inv := scriptMakePayout.With(makePayoutKeys{
		LogKeys: k.Logs(), Account: k.Object(account), Payable: k.Payable(account), Refunds: k.Refunds(account), Payout: k.Object(p.ID),
		Transaction: k.Object(t.ID), StatusIndex: k.TransactionsIn(t.Status), AllTransactions: ledger.Complete(s.db, k),
		AccountTransactions: k.TransactionsOf(account), PayoutTransactions: k.Own(p.ID), Payouts: k.Payouts,
	}, makePayoutArgs{
		PayoutDate: p.Date.String(), EventArgs: event, AuditArgs: entry,
		PayoutsMember: k.Org + "/" + p.ID, NowMs: rediskv.Milli(now), TransactionMember: member, PayableCount: len(taken),
	})
	inv.Args = append(inv.Args, taken...)
	inv.Group(refunded)
	inv.Group(f.Sealed(k.Object(p.ID), nil))
	inv.Group(tf.Sealed(k.Object(t.ID), nil))
	outcome, rest, err := s.db.Run(ctx, inv)
	s.db.Revised(rediskv.Caller{Organization: k.Org}, inv, outcome, rest)
	if err == nil && outcome == "early" {
		return rediskv.ErrStale
	}
	return err
}
