package ledger

import (
	"context"
	"errors"
	"sort"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// shared ends the member of an index whose transaction stands in one hash with others.
const shared = "+"

// Indexed is an entry of an index: an id and its place in the order of commit.
type Indexed struct {
	ID       string
	Position int64
	Shared   bool // it stands among a payment's parts, and in no hash of its own
}

// MemberAt reads an entry of an index of transactions.
func MemberAt(member string, position int64) Indexed {
	id, together := strings.CutSuffix(member, shared)
	return Indexed{tollgate.PrefixTransaction + id, position, together}
}

// Member is how indexes name it.
func (m Indexed) Member() string {
	if m.Shared {
		return rediskv.Unprefixed(m.ID) + shared
	}
	return rediskv.Unprefixed(m.ID)
}

// Place is where the transaction is.
func (m Indexed) Place(k rediskv.Space) record.Place {
	if _, number, ok := tollgate.NumberIn(m.ID); ok && m.Shared {
		return record.Place{Key: k.Parts(m.ID), Name: number, As: k.Object(m.ID)}
	}
	return record.Own(k.Object(m.ID))
}

// FieldPrefix is how the names of its fields begin that scripts change.
func (m Indexed) FieldPrefix() string {
	if _, number, ok := tollgate.NumberIn(m.ID); ok && m.Shared {
		return number + "."
	}
	return ""
}

// AskDocument queues the reading of the capture or refund of an id that the transaction
// belongs to.
func (m Indexed) AskDocument(ctx context.Context, pipe redis.Pipeliner, k rediskv.Space, id string) *Document {
	if _, number, ok := tollgate.NumberIn(id); ok && m.Shared {
		return AskPart(ctx, pipe, k.Parts(id), number)
	}
	return &Document{whole: pipe.Get(ctx, k.Object(id))}
}

// AskPart is AskDocument of the one with a number, in the hash of a payment's parts.
func AskPart(ctx context.Context, pipe redis.Pipeliner, parts, number string) *Document {
	return &Document{pieces: pipe.HMGet(ctx, parts, record.Pieces(number+rediskv.Document)...)}
}

// Document is a capture or a refund that is asked for.
type Document struct {
	whole  *redis.StringCmd
	pieces *redis.SliceCmd
}

// Read is its text; false where it is not there.
func (d *Document) Read() (text string, there bool) {
	if d.whole != nil {
		return d.whole.Val(), !errors.Is(d.whole.Err(), redis.Nil)
	}
	return record.Joined(d.pieces.Val())
}

// Val is its text, empty where it is not there.
func (d *Document) Val() string {
	text, _ := d.Read()
	return text
}

// Authorization is the entry of a payment's.
func Authorization(p *tollgate.Payment) Indexed {
	return Indexed{ID: tollgate.AuthorizationOf(p.ID), Shared: p.Numbers > 0}
}

// PartsIn are the transactions in the hash of a payment's parts (Space.Parts), in their
// order, and what is stored of each; of is what all of the payment's identifiers share. What cannot be read has a place of its own among them.
func PartsIn(k rediskv.Space, of string, hash map[string]string) (members []Indexed, found []rediskv.Fields) {
	all := record.KindOf(k.Object(tollgate.PrefixTransaction)).SharedIn(of, hash)
	numbers := make([]string, 0, len(all))
	for number := range all {
		numbers = append(numbers, number)
	}
	sort.Strings(numbers)
	for _, number := range numbers {
		f := rediskv.Fields(all[number])
		if len(f) == 0 {
			continue // a document alone: a check says so
		}
		id := tollgate.PartID(tollgate.PrefixTransaction, tollgate.Instant(max(0, f.Int("crt"))), of, number)
		members = append(members, Indexed{ID: id, Position: f.Int("pos"), Shared: true})
		found = append(found, record.Verified(k.Object(id), f))
	}
	return members, found
}

// OfPayment are the transactions of a payment, with their positions if they stand in one
// hash; none of what is no payment.
func (s *Store) OfPayment(ctx context.Context, k rediskv.Space, payment string) (members []Indexed, err error) {
	var found []rediskv.Fields
	err = s.db.Timed(ctx, "payment_transactions", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		read := AskParts(ctx, pipe, k, payment)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		members, found = read()
		return nil
	})
	if err != nil || found != nil || len(members) != 1 {
		return members, err
	}
	r, err := s.ArchivedPayment(ctx, k, payment)
	if err == nil && r != nil {
		of, _, _ := tollgate.NumberIn(payment)
		members, _ = PartsIn(k, of, r.Parts)
	}
	return members, err
}

// AskParts queues the reading of which transactions a payment has: all of each where they
// stand in one hash, else their identifiers alone; none of what is no payment.
func AskParts(ctx context.Context, pipe redis.Pipeliner, k rediskv.Space, payment string) func() (members []Indexed, found []rediskv.Fields) {
	if !strings.HasPrefix(payment, tollgate.PrefixPayment) {
		return func() ([]Indexed, []rediskv.Fields) { return nil, nil }
	}
	moves := pipe.LRange(ctx, k.Moves(payment), 0, -1)
	var parts *redis.MapStringStringCmd
	of, number, ok := tollgate.NumberIn(payment)
	if ok && number == tollgate.FirstNumber {
		parts = pipe.HGetAll(ctx, k.Parts(payment))
	}
	return func() (members []Indexed, found []rediskv.Fields) {
		if parts != nil && len(parts.Val()) > 0 {
			return PartsIn(k, of, parts.Val())
		}
		members = []Indexed{{ID: tollgate.AuthorizationOf(payment)}}
		for _, id := range moves.Val() {
			members = append(members, Indexed{ID: tollgate.PrefixTransaction + id})
		}
		return members, nil
	}
}
