package handlers_test

import (
	"context"
	"time"

	"tollgate"
	"tollgate/rediskv"
)

// settle closes the sales days that are over and carries every payout as far
// as it goes, as the worker does.
func (w *world) settle(ctx context.Context, outcome tollgate.PayoutOutcome) error {
	for partition := range w.store.Partitions() {
		accounts, err := w.store.DueAccounts(ctx, partition, 1000)
		if err != nil {
			return err
		}
		for _, d := range accounts {
			if _, err := w.store.CloseDays(ctx, d.Organization, d.ID); err != nil {
				return err
			}
		}
		for due := true; due; {
			payouts, err := w.store.DuePayouts(ctx, partition, 1000)
			if err != nil {
				return err
			}
			for _, d := range payouts {
				for more := true; more; {
					if more, err = w.store.MovePayout(ctx, d.Organization, d.ID); err != nil {
						return err
					}
				}
				p, err := w.store.BeginPayout(ctx, d.Organization, d.ID, time.Minute)
				if err != nil {
					return err
				}
				if p != nil {
					if err := w.endPayout(ctx, p, outcome); err != nil {
						return err
					}
				}
			}
			due = len(payouts) > 0
		}
	}
	return nil
}

// endPayout records what the payout step said.
func (w *world) endPayout(ctx context.Context, p *tollgate.Payout, said tollgate.PayoutOutcome) error {
	was, err := w.store.StoredPayout(ctx, p.OrganizationID, p.ID)
	if err != nil {
		return err
	}
	account, err := w.store.PayoutAccount(ctx, p.OrganizationID, p.MerchantAccountID)
	if err != nil {
		return err
	}
	caller := rediskv.Caller{Organization: p.OrganizationID}
	ch, err := tollgate.EndPayout(w.store.NewID, w.store.Origin(caller), was.StoredPayout, said, account)
	if err != nil || ch == nil {
		return err
	}
	_, err = w.store.CommitPayout(ctx, caller, nil, was, ch, rediskv.Answer{})
	return err
}
