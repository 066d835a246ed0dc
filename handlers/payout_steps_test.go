package handlers_test

import (
	"context"
	"time"

	"tollgate"
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
					if err := w.store.EndPayout(ctx, p, outcome); err != nil {
						return err
					}
				}
			}
			due = len(payouts) > 0
		}
	}
	return nil
}
