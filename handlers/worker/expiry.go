package worker

import (
	"context"

	"tollgate/rediskv/payouts"
)

// expirePayments ends the payments of one partition whose time has passed, and
// releases what was left of them. One that another worker has expired is
// nothing to do.
func (w *Worker) expirePayments(ctx context.Context, p int) (int, error) {
	return w.expiry.Each(ctx, p, w.Store.DuePayments, func(d payouts.Due) (int, bool, error) {
		if err := w.Store.ExpirePayment(ctx, d.Organization, d.ID); err != nil {
			return 0, false, err
		}
		w.Observer.Expired()
		return 1, false, nil
	})
}
