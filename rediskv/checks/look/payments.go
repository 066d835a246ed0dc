package look

import (
	"context"
	"maps"
	"slices"
	"strings"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/record"
)

// Documents reads captures and refunds. One that is not there is missing from them.
func Documents(k rediskv.Space, replies map[string]*ledger.Document, into *consistency.PaymentRecords) (damaged []consistency.Finding) {
	for _, id := range slices.Sorted(maps.Keys(replies)) {
		text, there := replies[id].Read()
		if !there {
			continue
		}
		if strings.HasPrefix(id, tollgate.PrefixCapture) {
			var c tollgate.Capture
			if err := record.DecodeAt(k.Object(id), text, &c); err != nil || c.ID != id {
				damaged = append(damaged, consistency.Found(consistency.FindingDamaged, "capture", id, "it cannot be read"))
			}
			into.Captures = append(into.Captures, c)
			continue
		}
		var r tollgate.Refund
		if err := record.DecodeAt(k.Object(id), text, &r); err != nil || r.ID != id {
			damaged = append(damaged, consistency.Found(consistency.FindingDamaged, "refund", id, "it cannot be read"))
		}
		into.Refunds = append(into.Refunds, r)
	}
	return damaged
}

// Archived are the records of a payment in an archive. Its events are older than what is
// kept of the log.
func Archived(k rediskv.Space, r *ledger.Records) (*consistency.PaymentRecords, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	a, err := payments.ArchivedOf(k, r.ID, r)
	if err != nil {
		return nil, err
	}
	of := &consistency.PaymentRecords{Payment: &a.Payment, Ticket: &a.Ticket, Captures: a.Captures, Refunds: a.Refunds}
	for i := range a.Transactions {
		of.Transactions = append(of.Transactions, consistency.PlacedTransaction{Transaction: &a.Transactions[i].Transaction, Position: a.Transactions[i].Position})
	}
	return of, nil
}

// Filled puts what an archive has of transactions into the places of those that Redis does
// not have, and returns their payments, by what their identifiers share.
func Filled(ctx context.Context, l *ledger.Store, k rediskv.Space, members []ledger.Indexed, found []rediskv.Fields) (map[string]*ledger.Records, error) {
	var ids []string
	missing := func(i int) bool { return members[i].Shared && found[i]["st"]+found[i]["ty"]+found[i]["pos"] == "" }
	for i, m := range members {
		if missing(i) {
			ids = append(ids, m.ID)
		}
	}
	archived, err := l.ArchivedOnly(ctx, k, ids)
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		of, _, _ := tollgate.NumberIn(m.ID)
		if r := archived[of]; r != nil && missing(i) {
			found[i] = r.Transaction(m.Place(k))
		}
	}
	return archived, nil
}

// Elsewhere are the payments, by their identifiers, that Redis does not have and an archive
// does, of those that were asked for.
func Elsewhere[T any](ctx context.Context, l *ledger.Store, k rediskv.Space, asked map[string]T, missing func(T) bool) (map[string]*ledger.Records, error) {
	var ids []string
	for id, reply := range asked {
		if missing(reply) {
			ids = append(ids, id)
		}
	}
	found, err := l.Archived(ctx, k, ids)
	by := make(map[string]*ledger.Records, len(found))
	for _, r := range found {
		by[r.ID] = r
	}
	return by, err
}
