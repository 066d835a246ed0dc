package payments

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
)

// Refund reads a refund without its payment, which is kept once, in its own hash.
func (s *Store) Refund(ctx context.Context, c rediskv.Caller, id string) (*tollgate.Refund, error) {
	text, err := s.value(ctx, c, tollgate.PrefixRefund, id)
	if err != nil {
		return nil, err
	}
	k := s.db.Space(c.Organization)
	r, err := refundOf(k, id, text)
	return r, s.db.Noticed(ctx, k, err)
}

func refundOf(k rediskv.Space, id, text string) (*tollgate.Refund, error) {
	r := new(tollgate.Refund)
	err := rediskv.DecodeAt(k.Object(id), text, r)
	if err == nil && (r.ID != id || r.Object != "refund" || r.Status != tollgate.RefundSucceeded || r.CreatedAt == 0 || !strings.HasPrefix(r.PaymentID, tollgate.PrefixPayment)) {
		err = fmt.Errorf("refund %s: the document is of %q", id, r.ID)
	}
	if err != nil {
		return nil, tollgate.Damage("refund", id, err)
	}
	return r, nil
}

// Refunds reads a payment's refunds in the order in which they were made, without
// the payment. Of one that cannot be read only Object and ID count, and Damaged.
func (s *Store) Refunds(ctx context.Context, c rediskv.Caller, payment string) (rows []tollgate.Refund, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	err = s.db.TimedInTurn(ctx, c, "read_refunds", func(ctx context.Context) error {
		moved, err := s.db.Redis.LRange(ctx, k.Moves(payment), 0, -1).Result()
		if err != nil || len(moved) == 0 {
			return err
		}
		pipe := s.db.Redis.Pipeline()
		replies := make([]*redis.SliceCmd, len(moved))
		for i, id := range moved {
			replies[i] = pipe.HMGet(ctx, k.Object(tollgate.PrefixTransaction+id), "ty", "rfd")
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		var keys []string
		for _, reply := range replies {
			f := rediskv.FieldsIn(reply.Val(), "ty", "rfd")
			if f["ty"] == string(tollgate.TransactionRefund) {
				keys = append(keys, k.Object(f["rfd"]))
				rows = append(rows, tollgate.Refund{Object: "refund", ID: f["rfd"], Damaged: true})
			}
		}
		if len(keys) == 0 {
			return nil
		}
		texts, err := s.db.Redis.MGet(ctx, keys...).Result()
		for i, v := range texts {
			text, _ := v.(string)
			r, failed := refundOf(k, rows[i].ID, text)
			if failed == nil && r.PaymentID != payment {
				failed = tollgate.Damage("refund", r.ID, fmt.Errorf("refund %s: it is of payment %q", r.ID, r.PaymentID))
			}
			if s.db.Noticed(ctx, k, failed) == nil {
				rows[i] = *r
			}
		}
		return err
	})
	return rows, err
}
