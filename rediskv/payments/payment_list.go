package payments

import (
	"context"
	"slices"

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
	paymentOf := func(transaction string) string { return tollgate.PrefixPayment + rediskv.Unprefixed(transaction) }
	found, next, more, err := s.ledger.Search(ctx, c, q, paymentOf)
	if err != nil {
		return nil, 0, false, err
	}
	k := s.db.Space(c.Organization)
	for _, t := range found {
		if len(t.Beside) == 0 {
			continue
		}
		id := paymentOf(t.ID)
		p, err := PaymentOf(id, t.Beside)
		switch {
		case s.db.Noticed(ctx, k, err) != nil:
			rows = append(rows, tollgate.Payment{Object: "payment", ID: id, Damaged: true})
		case len(q.Statuses) == 0 || slices.Contains(q.Statuses, string(p.Status)):
			rows = append(rows, *p)
		}
	}
	return rows, next, more, nil
}
