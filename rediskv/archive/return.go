package archive

import (
	"context"
	"maps"
	"slices"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

type (
	returnPaymentKeys struct{ Payment, Ticket, Parts, Returned, Fence string }
	returnPaymentArgs struct {
		PaymentID    string
		NowMs        int64
		TicketText   string
		PaymentCount int
		Erased       string
	}
)

var scriptReturnPayment = script.New[returnPaymentKeys, returnPaymentArgs](lua, "return_payment")

// returnedKey is the sorted set of an organization's payments that are to be moved although
// others which are younger have been: those that were put back, and those that were not at an
// end when their turn came. Their score is from when on their age counts, in Unix
// milliseconds.
func returnedKey(k rediskv.Space) string { return k.Object("archive:returned") }

// Return puts a payment back into Redis, as ledger.Archive says.
func (s *Store) Return(ctx context.Context, k rediskv.Space, id string, missing error) error {
	_, err := rediskv.Retried(func() (bool, error) { return true, s.putBack(ctx, k, id, missing) })
	return err
}

// putBack is ErrConflict where something was erased since the payment was read.
func (s *Store) putBack(ctx context.Context, k rediskv.Space, id string, missing error) error {
	fence, _, err := s.fence(ctx, k.Partition)
	if err != nil {
		return err
	}
	if _, err := s.manifest(ctx, k.Partition, true); err != nil { // it may be erased in a line that is not known yet
		return err
	}
	of, _, _ := tollgate.NumberIn(id)
	found, err := s.Payments(ctx, k, []string{id})
	r := found[of]
	switch {
	case err != nil:
		return err
	case r == nil:
		return missing
	case r.Err != nil:
		return s.db.Noticed(ctx, k, r.Err)
	case r.ID != id:
		return missing
	}
	a, err := payments.ArchivedOf(k, id, r)
	if err != nil {
		return s.db.Noticed(ctx, k, err)
	}
	// Restored from an older copy, Redis has no list of it and gives its places to others.
	if listed, err := s.listed(ctx, k, a); err != nil {
		return err
	} else if !listed {
		return &tollgate.Error{Code: tollgate.CodePaymentStateInvalid, Message: "This payment can only be read: Redis was restored from a copy that was made before it."}
	}
	if r, err = a.Records(k, record.FormIn(s.db.Layout())); err != nil {
		return err
	}
	inv := scriptReturnPayment.With(returnPaymentKeys{k.Object(id), k.Object(tollgate.TicketOf(id)), k.Parts(id), returnedKey(k), FenceKey(k.Partition)},
		returnPaymentArgs{id, int64(s.db.Now()), r.Ticket, 2 * len(r.Payment), fence})
	x := newIndexed()
	x.add(k, a)
	for i := range x.all {
		for _, n := range x.all[i].in {
			if n < 0 {
				continue
			}
			list := k.Object(x.names[n].list)
			if list == k.Transactions() && ledger.Complete(s.db, k) != list {
				continue
			}
			inv.Keys, inv.Args = append(inv.Keys, list), append(inv.Args, x.all[i].Position, x.all[i].Member)
		}
	}
	for _, hash := range []map[string]string{r.Payment, r.Parts} {
		for _, name := range slices.Sorted(maps.Keys(hash)) {
			inv.Args = append(inv.Args, name, hash[name])
		}
	}
	_, _, err = s.db.Run(ctx, inv)
	return err
}
