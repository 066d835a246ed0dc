package payouts

import (
	"context"
	"strings"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
)

// Payout reads a payout.
func (s *Store) Payout(ctx context.Context, c rediskv.Caller, id string) (_ *tollgate.Payout, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	if !strings.HasPrefix(id, tollgate.PrefixPayout) {
		return nil, tollgate.NotFound()
	}
	return s.ledger.ReadPayout(ctx, k, id)
}

// Payouts lists payouts, found by their transactions: a page may be short.
func (s *Store) Payouts(ctx context.Context, c rediskv.Caller, q ledger.TransactionQuery) (rows []tollgate.Payout, next int64, more bool, err error) {
	q.Types = []tollgate.TransactionType{tollgate.TransactionPayout}
	if len(q.Statuses) == 0 && len(q.Accounts) == 0 {
		q.Statuses = tollgate.PayoutStatuses
	}
	payoutOf := func(transaction string) string { return tollgate.PrefixPayout + rediskv.Unprefixed(transaction) }
	found, next, more, err := s.ledger.Search(ctx, c, q, payoutOf)
	if err != nil {
		return nil, 0, false, err
	}
	k := s.db.Space(c.Organization)
	for _, t := range found {
		if len(t.Beside) == 0 {
			continue
		}
		id := payoutOf(t.ID)
		p, err := s.ledger.PayoutOf(ctx, k, id, t.Beside)
		if err == nil {
			err = s.db.DamagedAt(ctx, k.Object(id), rediskv.Counters(t.Beside))
		}
		switch {
		case rediskv.IsDamage(err):
			p = &tollgate.Payout{ID: id, Damaged: true}
		case err != nil:
			return nil, 0, false, err
		}
		rows = append(rows, *p)
	}
	return rows, next, more, nil
}

// Recount adds up the transactions of a held payout, and compares each with the
// record of its capture. Of another payout there is nothing to say.
func (s *Store) Recount(ctx context.Context, p *ledger.StoredPayout) (r tollgate.Recount, err error) {
	if p.Status != tollgate.PayoutStatusHeld {
		return r, nil
	}
	k := s.db.Space(p.OrganizationID)
	r.Groups = p.NewTally()
	for at, last := int64(0), false; !last && r.Fault == nil; {
		if at, last, r.Fault, err = s.tallyBatch(ctx, k, &p.Payout, r.Groups, at, true); err != nil {
			return r, err
		}
	}
	r.Own, err = s.ownTransaction(ctx, k, p.ID)
	return r, err
}
