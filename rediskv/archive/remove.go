package archive

import (
	"bytes"
	"cmp"
	"context"
	"strconv"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/packs"
	"tollgate/rediskv/packs/shelf"
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

// removal is a payment that a pack has, and the digest of what Redis has that is the same.
type removal struct {
	chosen
	digest string
}

// removeAll removes payments that a line's pack has from Redis, those that are still as they
// were read.
func (s *Store) removeAll(ctx context.Context, l *Line, all []removal) (moved int, err error) {
	if moved, err = s.removeSome(ctx, l, all); err == nil {
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
	for _, on := range s.Shelves {
		n, failed := s.removeFrom(ctx, on, l)
		if moved += n; failed == nil {
			return moved, nil
		}
		err = cmp.Or(err, failed)
	}
	return moved, err
}

func (s *Store) removeFrom(ctx context.Context, on shelf.Shelf, l *Line) (moved int, err error) {
	object, err := on.Read(ctx, packName(l.Partition, l.Payments.SHA256))
	if err != nil {
		return 0, unavailable(err)
	}
	defer object.Close()
	pack, err := packs.Open(ctx, readAhead(object), object.Size())
	if err != nil {
		return 0, unavailable(err)
	}
	for n := range pack.Index().Frames {
		f, err := pack.Frame(ctx, n)
		if err != nil {
			return moved, unavailable(err)
		}
		var some []removal
		for id, row := range f.Rows() {
			one, there, err := s.removalOf(ctx, l, id, row)
			if err != nil {
				return moved, conflict(err)
			}
			if there {
				some = append(some, one)
			}
		}
		count, err := s.removeSome(ctx, l, some)
		if moved += count; err != nil {
			return moved, conflict(err)
		}
	}
	return moved, conflict(s.end(ctx, l))
}

// removalOf is a row's payment as Redis has it, if it is there: without a digest where it is
// not what the row has.
func (s *Store) removalOf(ctx context.Context, l *Line, id string, row []byte) (one removal, there bool, err error) {
	var of struct {
		Organization string `json:"organization_id"`
	}
	if err := json.Unmarshal(row, &of); err != nil {
		return one, false, err
	}
	one.chosen = chosen{id, of.Organization}
	found, err := s.read(ctx, l.Partition, l.Number, []chosen{one.chosen})
	if err != nil || len(found[0].Payment) == 0 {
		return one, false, err
	}
	a, err := payments.ArchivedOf(s.db.Space(one.org), id, &found[0].Records)
	if err != nil {
		return one, true, nil // damage stays, for a check to find
	}
	if text, err := a.Row(); err == nil && bytes.Equal(text, row) {
		one.digest = found[0].digest
	}
	return one, true, nil
}

// removeSome removes payments, those that are still as they were read.
func (s *Store) removeSome(ctx context.Context, l *Line, some []removal) (moved int, err error) {
	for len(some) > 0 {
		n := min(together, len(some))
		inv := scriptRemovePayments.With(removePaymentsKeys{rediskv.ArchiveKey(l.Partition)}, removePaymentsArgs{l.Number, l.Payments.SHA256, n, int64(s.db.Now())})
		for _, one := range some[:n] {
			k := s.db.Space(one.org)
			inv.Keys = append(inv.Keys, k.Object(one.id), k.Object(tollgate.TicketOf(one.id)), k.Parts(one.id), returnedKey(k))
			inv.Args = append(inv.Args, one.id, one.digest)
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
