package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/payouts"
)

const (
	payoutLease   = 2 * time.Minute // how long the payout step may take before another worker asks it again
	payoutTimeout = time.Minute
	payoutAgain   = time.Minute // after a payout step that could not say what became of a payout
	batchesATurn  = 50          // batches of one payout's captures, then the next payout has its turn
)

// PayFunc is the payout step: it has a payout paid and says what came of it. It
// may be called more than once for a payout, even after it has paid it, and
// must pay once: the payout's id is the idempotency key. An error is "not
// known yet", and it is asked again. It is called for several partitions at the
// same time; a payout waits for those of its partition, and no other does.
type PayFunc func(ctx context.Context, p tollgate.Payout) (tollgate.PayoutOutcome, error)

// ledgerOnly is the payout step that moves no money: everything is paid.
func ledgerOnly(context.Context, tollgate.Payout) (tollgate.PayoutOutcome, error) {
	return tollgate.PayoutOutcome{}, nil
}

// makePayouts closes the sales days of one partition that are over, makes the
// payouts that fall due by that, and carries on those that are under way. It
// returns how many it has made or brought to an end, and goes on past what
// fails. Where a loss of data is not accepted yet, none is made or carried on.
func (w *Worker) makePayouts(ctx context.Context, p int) (int, error) {
	if history, err := w.Store.Histories.Current(ctx, p); err != nil || history.Loss != nil {
		return 0, err // who is paid may have been paid before: somebody has to look at it first
	}
	made, failed := w.payouts.Each(ctx, p, w.Store.DueAccounts, func(d payouts.Due) (int, bool, error) {
		n, err := w.Store.CloseDays(ctx, d.Organization, d.ID)
		w.Observer.Payouts("created", n)
		return n, false, err
	})
	ended, err := w.payouts.Each(ctx, p, w.Store.DuePayouts, func(d payouts.Due) (int, bool, error) { return w.carryOn(ctx, d) })
	return made + ended, cmp.Or(failed, err)
}

// carryOn gives a payout a turn: its captures and fees become available, it is
// paid, they become settled.
func (w *Worker) carryOn(ctx context.Context, d payouts.Due) (ended int, again bool, err error) {
	for range batchesATurn {
		more, err := w.Store.MovePayout(ctx, d.Organization, d.ID)
		if err != nil {
			return 0, false, err
		}
		if !more {
			return w.pay(ctx, d)
		}
	}
	return 0, true, nil
}

// waitFor is how long a payout waits that has no answer yet: as long as it was
// asked for, or as the webhook back-off has it, at its last step for ever.
func (w *Worker) waitFor(err error, p *tollgate.Payout) time.Duration {
	later, ok := errors.AsType[*Later](err)
	switch {
	case !ok:
		return payoutAgain
	case later.After > 0:
		return later.After
	}
	wait, _ := w.Backoff.Next(int(max(1, min(p.Asked, int64(len(w.Backoff.Waits)-1)))), w.random())
	return wait
}

// pay asks the payout step, if it is its turn.
func (w *Worker) pay(ctx context.Context, d payouts.Due) (ended int, again bool, err error) {
	if ctx.Err() != nil {
		return 0, false, ctx.Err()
	}
	// Once begun it is known to be begun, or it would stay so for its lease.
	p, err := w.Store.BeginPayout(context.WithoutCancel(ctx), d.Organization, d.ID, payoutLease)
	if err != nil || p == nil {
		return 0, false, err
	}
	w.payouts.WithoutSlot(func() { ended, again, err = w.ask(ctx, p) })
	return ended, again, err
}

// ask carries out the payout step and records what came of it. A payout whose
// step is broken off, or not asked any more, because the worker stops, is for
// the next worker at once.
func (w *Worker) ask(ctx context.Context, p *tollgate.Payout) (ended int, again bool, err error) {
	asking, cancel := context.WithTimeout(ctx, payoutTimeout)
	defer cancel()
	var outcome tollgate.PayoutOutcome
	if err = ctx.Err(); err == nil {
		outcome, err = w.Pay(asking, *p)
	}
	// What is known is written down also when ctx has ended.
	recording := context.WithoutCancel(ctx)
	if err != nil {
		next := w.Store.Now()
		if ctx.Err() == nil {
			next = next.Add(w.waitFor(err, p))
			w.Observer.Payouts("later", 1)
		}
		delayed := w.Store.DelayPayout(recording, p, next)
		// That there is no answer yet is no failure of the round: in its pause
		// other organizations would wait, too.
		if later, ok := errors.AsType[*Later](err); ok && ctx.Err() == nil && delayed == nil {
			w.Log.Warn("a payout has no answer yet", "payout", p.ID, "error", later.Cause, "asked_again", next.String())
			return 0, false, nil
		}
		return 0, false, errors.Join(fmt.Errorf("the payout step: %w", err), delayed)
	}
	if err := w.endPayout(recording, p, outcome); err != nil {
		return 0, false, err
	}
	if outcome.Failure != "" {
		w.Observer.Payouts("failed", 1)
		w.Log.Warn("a payout failed", "payout", p.ID, "reason", outcome.Failure)
		return 1, false, nil
	}
	w.Observer.Payouts("paid", 1)
	return 1, true, nil
}

// endPayout records what the payout step said; the first record counts.
func (w *Worker) endPayout(ctx context.Context, p *tollgate.Payout, said tollgate.PayoutOutcome) error {
	caller := rediskv.Caller{Organization: p.OrganizationID}
	_, err := rediskv.Retried(func() (rediskv.Result, error) {
		was, err := w.Store.StoredPayout(ctx, p.OrganizationID, p.ID)
		if err != nil {
			return rediskv.Result{}, err
		}
		var account tollgate.PayoutAccount
		if said.Failure != "" {
			if account, err = w.Store.PayoutAccount(ctx, p.OrganizationID, p.MerchantAccountID); err != nil {
				return rediskv.Result{}, err
			}
		}
		change, err := tollgate.EndPayout(w.Store.NewID, w.Store.Origin(caller), was.StoredPayout, said, account)
		if err != nil || change == nil {
			return rediskv.Result{}, err
		}
		return w.Store.CommitPayout(ctx, caller, nil, was, change, rediskv.Answer{})
	})
	return err
}
