package rediskv

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
)

// Payments returns one page of payments in the order in which they were made,
// and the position to go on from. Each is found by its authorization, whose
// status mirrors the payment's. One that leaves the statuses asked for while the
// page is read is left out, so a page may be short.
func (s *Store) Payments(ctx context.Context, c Caller, q TransactionQuery) (rows []tollgate.Payment, next int64, more bool, err error) {
	q.Types = []tollgate.TransactionType{tollgate.TransactionAuthorization}
	if len(q.Statuses) == 0 && len(q.Accounts) == 0 {
		q.Statuses = tollgate.PaymentStatuses // the indexes that hold nothing but authorizations
	}
	found, next, more, err := s.Transactions(ctx, c, q)
	if err != nil {
		return nil, 0, false, err
	}
	k := s.space(c.Organization)
	for part := range slices.Chunk(found, c.batch()) {
		if err := s.timedInTurn(ctx, c, "read_payments", func(ctx context.Context) error {
			pipe := s.client.Pipeline()
			replies := make([]*redis.MapStringStringCmd, len(part))
			for i, t := range part {
				replies[i] = pipe.HGetAll(ctx, k.object(tollgate.PrefixPayment+unprefixed(t.ID)))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for i, r := range replies {
				if len(r.Val()) == 0 {
					continue
				}
				id := tollgate.PrefixPayment + unprefixed(part[i].ID)
				p, err := paymentOf(id, r.Val())
				if s.noticed(ctx, k, err) != nil {
					rows = append(rows, tollgate.Payment{Object: "payment", ID: id, Damaged: true})
					continue
				}
				if len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(p.Status)) {
					rows = append(rows, *p)
				}
			}
			return nil
		}); err != nil {
			return nil, 0, false, err
		}
	}
	return rows, next, more, nil
}
