package archive

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/script"
)

type (
	removePaymentsKeys struct{ Archive string }
	removePaymentsArgs struct {
		Number int64
		Pack   string
		Count  int
		NowMs  int64
	}
	endPackKeys struct{ Archive string }
	endPackArgs struct{ Number int64 }
)

var (
	scriptRemovePayments = script.New[removePaymentsKeys, removePaymentsArgs](lua, "remove_payments")
	scriptEndPack        = script.New[endPackKeys, endPackArgs](lua, "end_pack")
)

// removal is a payment that a pack has, the digest of what Redis has that is the same, whether
// it is erased there, and which of the pack's transactions are its.
type removal struct {
	chosen
	digest   string
	erased   bool
	from, to int
}

// removeAll removes payments that a line's pack has from Redis, those that are still as they
// were read.
func (s *Store) removeAll(ctx context.Context, l *Line, x *indexed, all []removal) (moved int, err error) {
	if moved, err = s.removeSome(ctx, l, x, all); err == nil {
		err = s.end(ctx, l)
	}
	return moved, conflict(err)
}

// end notes that Redis has none of a line's pack any more, but for what has gone on since.
func (s *Store) end(ctx context.Context, l *Line) error {
	_, _, err := s.db.Run(ctx, scriptEndPack.With(endPackKeys{rediskv.ArchiveKey(l.Partition)}, endPackArgs{l.Number}))
	return err
}

// removeAgain is removeAll behind a worker that has died: each payment of the pack is read
// and compared first.
func (s *Store) removeAgain(ctx context.Context, l *Line) (moved int, err error) {
	w := s.walk(l)
	defer w.close()
	frames, err := w.frames(ctx)
	if err != nil {
		return 0, unavailable(err)
	}
	for n := range frames {
		f, err := w.frame(ctx, n)
		if err != nil {
			return moved, unavailable(err)
		}
		rows, err := rowsOf(f)
		if err != nil {
			return moved, err
		}
		for few := range slices.Chunk(rows, together) {
			x := newIndexed()
			some, err := s.removals(ctx, l, x, few)
			if err != nil {
				return moved, conflict(err)
			}
			count, err := s.removeSome(ctx, l, x, some)
			if moved += count; err != nil {
				return moved, conflict(err)
			}
		}
	}
	return moved, conflict(s.end(ctx, l))
}

// removals are the payments of some rows that Redis has: without a digest where it has
// another state of one.
func (s *Store) removals(ctx context.Context, l *Line, x *indexed, rows []rowOf) (some []removal, err error) {
	found, err := s.readThose(ctx, l.Partition, l.Number, rows)
	if err != nil {
		return nil, err
	}
	for i, one := range rows {
		if len(found[i].Payment) == 0 {
			continue
		}
		r, k := removal{chosen: one.chosen}, s.db.Space(one.org)
		if a, err := payments.ArchivedOf(k, one.id, &found[i].Records); err == nil { // damage stays, for a check to find
			if text, err := a.Row(); err == nil && bytes.Equal(text, one.text) {
				r.digest = found[i].digest
				r.from, r.to = x.add(k, a)
			}
		}
		some = append(some, r)
	}
	return some, nil
}

// removeSome removes payments, those that are still as they were read.
func (s *Store) removeSome(ctx context.Context, l *Line, x *indexed, some []removal) (moved int, err error) {
	for len(some) > 0 {
		n := min(together, len(some))
		inv := scriptRemovePayments.With(removePaymentsKeys{rediskv.ArchiveKey(l.Partition)}, removePaymentsArgs{l.Number, l.Payments.SHA256, n, int64(s.db.Now())})
		for _, one := range some[:n] {
			k := s.db.Space(one.org)
			inv.Keys = append(inv.Keys, k.Object(one.id), k.Object(tollgate.TicketOf(one.id)), k.Parts(one.id), returnedKey(k), ledger.ArchivedKey(k))
			inv.Args = append(inv.Args, one.id, one.digest)
			keys, members := x.keysOf(s.db, x.all[one.from:one.to])
			if l.Lists == nil {
				keys = nil
			}
			inv.Args = append(inv.Args, len(keys))
			for i, key := range keys {
				inv.Keys, inv.Args = append(inv.Keys, key), append(inv.Args, len(members[i]))
				for _, member := range members[i] {
					inv.Args = append(inv.Args, member)
				}
			}
		}
		rest, err := s.politely(ctx, inv)
		if err != nil {
			return moved, err
		}
		text, _ := rest[0].(string)
		stay, _ := strconv.Atoi(text)
		moved += n - stay
		s.step(l.Partition, "removed")
		some = some[n:]
	}
	return moved, nil
}
