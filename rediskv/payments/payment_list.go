package payments

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

// Payments returns one page of payments in the order in which they were made,
// and the position to go on from. Each is found by its authorization, whose
// status mirrors the payment's. One that leaves the statuses asked for while the
// page is read is left out, so a page may be short.
func (s *Store) Payments(ctx context.Context, c rediskv.Caller, q ledger.TransactionQuery) (rows []tollgate.Payment, next int64, more bool, err error) {
	q.Types = []tollgate.TransactionType{tollgate.TransactionAuthorization}
	if len(q.Statuses) == 0 && len(q.Accounts) == 0 {
		q.Statuses = tollgate.PaymentStatuses // the indexes that hold nothing but authorizations
	}
	found, next, more, err := s.ledger.Transactions(ctx, c, q)
	if err != nil {
		return nil, 0, false, err
	}
	k := s.db.Space(c.Organization)
	for part := range slices.Chunk(found, c.Batch()) {
		if err := s.db.TimedInTurn(ctx, c, "read_payments", func(ctx context.Context) error {
			pipe := s.db.Redis.Pipeline()
			replies := make([]*redis.MapStringStringCmd, len(part))
			for i, t := range part {
				replies[i] = pipe.HGetAll(ctx, k.Object(tollgate.PrefixPayment+rediskv.Unprefixed(t.ID)))
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			for i, r := range replies {
				if len(r.Val()) == 0 {
					continue
				}
				id := tollgate.PrefixPayment + rediskv.Unprefixed(part[i].ID)
				p, err := PaymentOf(id, r.Val())
				if s.db.Noticed(ctx, k, err) != nil {
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
