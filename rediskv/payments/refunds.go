package payments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// Refund reads a refund without its payment, which is kept once, in its own hash.
func (s *Store) Refund(ctx context.Context, c rediskv.Caller, id string) (*tollgate.Refund, error) {
	text, err := s.readPart(ctx, c, tollgate.PrefixRefund, id)
	if err != nil {
		return nil, err
	}
	k := s.db.Space(c.Organization)
	r, err := refundOf(k, id, text)
	return r, s.db.Noticed(ctx, k, err)
}

func refundOf(k rediskv.Space, id, text string) (*tollgate.Refund, error) {
	r := new(tollgate.Refund)
	err := record.DecodeAt(k.Object(id), text, r)
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
		pipe := s.db.Redis.Pipeline()
		read := ledger.AskParts(ctx, pipe, k, payment)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		members, found := read()
		if len(members) < 2 && found == nil { // it has its authorization alone, or is none that Redis has
			rows, err = s.archivedRefunds(ctx, k, payment)
			return err
		}
		if found == nil {
			var err error
			if found, err = s.refunded(ctx, k, members); err != nil {
				return err
			}
		}
		pipe = s.db.Redis.Pipeline()
		var texts []*ledger.Document
		for i, f := range found {
			if f["ty"] != string(tollgate.TransactionRefund) {
				continue
			}
			rows = append(rows, tollgate.Refund{Object: "refund", ID: f["rfd"], Damaged: true})
			texts = append(texts, members[i].AskDocument(ctx, pipe, k, f["rfd"]))
		}
		if len(rows) == 0 {
			return nil
		}
		if err := rediskv.Answered(pipe.Exec(ctx)); err != nil {
			return err
		}
		if slices.ContainsFunc(texts, func(text *ledger.Document) bool { return text.Val() == "" }) {
			// It may have been moved meanwhile.
			if moved, err := s.archivedRefunds(ctx, k, payment); err != nil || len(moved) > 0 {
				rows = moved
				return err
			}
		}
		for i, text := range texts {
			r, failed := refundOf(k, rows[i].ID, text.Val())
			if failed == nil && r.PaymentID != payment {
				failed = tollgate.Damage("refund", r.ID, fmt.Errorf("refund %s: it is of payment %q", r.ID, r.PaymentID))
			}
			if s.db.Noticed(ctx, k, failed) == nil {
				rows[i] = *r
			}
		}
		return nil
	})
	return rows, err
}

// refunded reads which of some transactions are refunds.
func (s *Store) refunded(ctx context.Context, k rediskv.Space, members []ledger.Indexed) (found []rediskv.Fields, err error) {
	pipe := s.db.Redis.Pipeline()
	replies := make([]*redis.SliceCmd, len(members))
	for i, m := range members {
		replies[i] = pipe.HMGet(ctx, k.Object(m.ID), "ty", "rfd")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for _, reply := range replies {
		found = append(found, record.FieldsIn(reply.Val(), "ty", "rfd"))
	}
	return found, nil
}
