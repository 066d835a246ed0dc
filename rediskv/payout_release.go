package rediskv

import (
	"context"
	"fmt"
	"strings"

	"tollgate"
)

// Payout reads a payout.
func (s *Store) Payout(ctx context.Context, c Caller, id string) (*tollgate.Payout, error) {
	k := s.space(c.Organization)
	if err := s.checkGrant(ctx, c, k); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(id, tollgate.PrefixPayout) {
		return nil, notFound()
	}
	p, _, err := s.readPayout(ctx, k, id)
	return p, err
}

// Payouts lists payouts, found by their transactions: a page may be short.
func (s *Store) Payouts(ctx context.Context, c Caller, q TransactionQuery) (rows []tollgate.Payout, next int64, more bool, err error) {
	q.Types = []tollgate.TransactionType{tollgate.TransactionPayout}
	if len(q.Statuses) == 0 && len(q.Accounts) == 0 {
		q.Statuses = tollgate.PayoutStatuses
	}
	found, next, more, err := s.Transactions(ctx, c, q)
	if err != nil {
		return nil, 0, false, err
	}
	k := s.space(c.Organization)
	for _, t := range found {
		id := tollgate.PrefixPayout + unprefixed(t.ID)
		p, _, err := s.readPayout(ctx, k, id)
		switch {
		case IsDamage(err):
			p = &tollgate.Payout{ID: id, Damaged: true}
		case gone(err):
			continue
		case err != nil:
			return nil, 0, false, err
		}
		rows = append(rows, *p)
	}
	return rows, next, more, nil
}

// ReleasePayout lets a payout go that is held. Its sum is recomputed first, each
// transaction compared with the record of its capture; it then pays that sum,
// also where the stored one was another. CodePayoutStateInvalid when it is not
// held, or when one of its transactions cannot be read or contradicts its
// capture: nobody can say then what is right, and nothing is paid.
func (s *Store) ReleasePayout(ctx context.Context, c Caller, idem *Idempotency, id, reason string, answer func(*tollgate.Payout) (Answer, error)) (Result, error) {
	return Retried(func() (Result, error) {
		k := s.space(c.Organization)
		p, f, err := s.readPayout(ctx, k, id)
		if err != nil {
			return Result{}, err
		}
		if p.Status != tollgate.Held {
			return Result{}, payoutState("The payout is %s; only one that is held can be released.", p.Status)
		}
		released, err := s.recomputed(ctx, k, p)
		if err != nil {
			return Result{}, err
		}
		return s.release(ctx, c, idem, k, p, released, f, reason, answer)
	})
}

func payoutState(format string, args ...any) error {
	return &tollgate.Error{Code: tollgate.CodePayoutStateInvalid, Message: fmt.Sprintf(format, args...)}
}

// recomputed is a payout with the groups that its transactions add up to.
func (s *Store) recomputed(ctx context.Context, k space, p *tollgate.Payout) (*tollgate.Payout, error) {
	r := *p
	r.Groups = p.NewTally()
	for at, last := int64(0), false; !last; {
		var fault, err error
		if at, last, fault, err = s.tallyBatch(ctx, k, p, r.Groups, at, true); err != nil {
			return nil, err
		}
		if fault != nil {
			return nil, payoutState("The payout stays held: %s. Repair that first.", fault)
		}
	}
	if r.Amount().Minor <= 0 {
		return nil, payoutState("The payout stays held: its transactions add up to %s, which cannot be paid.", r.Amount())
	}
	own, err := s.ownTransaction(ctx, k, p.ID)
	if err != nil {
		return nil, err
	}
	if own.Damaged || own.ID == "" {
		return nil, payoutState("The payout stays held: its own transaction cannot be read. Repair that first.")
	}
	return &r, nil
}

type releasePayoutKeys struct {
	requestKeys
	logKeys
	Payout, Payouts, Transaction, HeldIndex, PendingIndex, Mark string
}

type releasePayoutArgs struct {
	requestArgs
	HeldAt, StoredGroups, Groups            string
	Amount                                  int64
	NowMs, PayoutsMember, TransactionMember string
	eventArgs
	auditArgs
}

var scriptReleasePayout = newScript[releasePayoutKeys, releasePayoutArgs]("release_payout")

func (s *Store) release(ctx context.Context, c Caller, idem *Idempotency, k space, p, released *tollgate.Payout, f fields, reason string, answer func(*tollgate.Payout) (Answer, error)) (Result, error) {
	released.Status, released.HeldReason, released.UpdatedAt = tollgate.Pending, "", s.Now()
	ans, err := answer(released)
	if err != nil {
		return Result{}, err
	}
	e, err := released.ReleasedEvent(s.Mint, c.Request.ID, p.Amount())
	if err != nil {
		return Result{}, err
	}
	event, err := eventArguments(&e)
	if err != nil {
		return Result{}, err
	}
	note := fmt.Sprintf("%s (stored %s, recomputed %s)", reason, p.Amount(), released.Amount())
	entry, err := s.entry(c, "payout.release", "succeeded", note, "payout", p.ID)
	if err != nil {
		return Result{}, err
	}
	operation := s.Mint("")
	keys, args := c.request(k, idem, operation, ans)
	own := tollgate.PayoutTransactionOf(p.ID)
	outcome, rest, err := s.run(ctx, scriptReleasePayout.with(releasePayoutKeys{
		requestKeys: keys, logKeys: k.logs(), Payout: k.object(p.ID), Payouts: k.payouts, Transaction: k.object(own),
		HeldIndex: k.transactionsIn(string(tollgate.Held)), PendingIndex: k.transactionsIn(string(tollgate.Pending)), Mark: k.mark(operation),
	}, releasePayoutArgs{
		requestArgs: args, HeldAt: f["upd"], StoredGroups: f["grp"], Groups: groupsText(released.Groups), Amount: released.Amount().Minor,
		NowMs: milli(released.UpdatedAt), PayoutsMember: k.org + "/" + p.ID, TransactionMember: unprefixed(own), eventArgs: event, auditArgs: entry,
	}))
	if err != nil {
		return Result{}, err
	}
	return result(outcome, rest, ans)
}
