package ledger

import (
	"cmp"
	"context"
	"maps"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/postings"
	"tollgate/rediskv/record"
)

// Records are a payment's records, as Redis has or had them.
type Records struct {
	ID      string
	Payment rediskv.Fields
	Ticket  string
	Parts   map[string]string // Space.Parts
	Err     error             // the damage of all of them, where the archive cannot read them
}

// Archive has payments that have been moved out of Redis.
type Archive interface {
	// Payments are the records of the payments that some identifiers belong to, of those
	// that it has, by what all identifiers of a payment share (tollgate.NumberIn).
	Payments(ctx context.Context, k rediskv.Space, ids []string) (map[string]*Records, error)
	// Return puts a payment back into Redis, which is to be changed. It returns missing where
	// it does not have that.
	Return(ctx context.Context, k rediskv.Space, id string, missing error) error
	// Lists are the entries of lists, of what it has of them in some spans: in any order, and
	// once or more often.
	Lists(ctx context.Context, k rediskv.Space, spans []Span, l Listing) ([]Indexed, error)
	// Spans are those that it has of an organization, whether Redis says so or not.
	Spans(ctx context.Context, k rediskv.Space) ([]Span, error)
}

// UseArchive says where payments are looked for that Redis does not have. Without an archive they
// are not there, unless the manifest says that there is one which this process does not know.
func (s *Store) UseArchive(a Archive) { s.archive = a }

// UsePostings says where postings are read that Redis has no more.
func (s *Store) UsePostings(a postings.Archive) { s.postings.UseArchive(a) }

// Archived are the records of those payments that Redis does not have and an archive does,
// by what their identifiers share; ids are identifiers of any of their parts.
func (s *Store) Archived(ctx context.Context, k rediskv.Space, ids []string) (map[string]*Records, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if s.archive != nil {
		return s.archive.Payments(ctx, k, ids)
	}
	var packs int64
	if err := s.db.Timed(ctx, "archive_packs", func(ctx context.Context) (err error) {
		packs, err = s.db.Redis.Exists(ctx, rediskv.ArchiveKey(k.Partition)).Result()
		return err
	}); err != nil || packs == 0 {
		return nil, err
	}
	return nil, notHere()
}

// ArchivedOnly is Archived without the payments that Redis has again: what is missing from one
// of those is lost, whatever it was when it was archived.
func (s *Store) ArchivedOnly(ctx context.Context, k rediskv.Space, ids []string) (map[string]*Records, error) {
	found, err := s.Archived(ctx, k, ids)
	if err != nil || len(found) == 0 {
		return found, err
	}
	hot := make(map[string]*redis.IntCmd, len(found))
	if err := s.db.Timed(ctx, "archive_hot", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		for of, r := range found {
			hot[of] = pipe.Exists(ctx, k.Object(r.ID))
		}
		_, err := pipe.Exec(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(of string, _ *Records) bool { return hot[of].Val() != 0 })
	return found, nil
}

// ArchivedPayment is Archived of the payment that one identifier belongs to; nil where the
// archive does not have it.
func (s *Store) ArchivedPayment(ctx context.Context, k rediskv.Space, id string) (*Records, error) {
	of, _, ok := tollgate.NumberIn(id)
	if !ok {
		return nil, nil // it has no numbers, or is none of ours
	}
	found, err := s.Archived(ctx, k, []string{id})
	if err != nil || found[of] == nil {
		return nil, err
	}
	return found[of], found[of].Err
}

// ReturnArchived puts a payment back into Redis that Redis does not have, as missing says.
func (s *Store) ReturnArchived(ctx context.Context, k rediskv.Space, id string, missing error) error {
	if s.archive == nil {
		_, err := s.Archived(ctx, k, []string{id})
		return cmp.Or(err, missing)
	}
	return s.archive.Return(ctx, k, id, missing)
}

// fromArchive fills the holes in a page with what an archive has of it. A payment may have been
// moved after its authorization was read, and before what is beside that.
func (s *Store) fromArchive(ctx context.Context, k rediskv.Space, members []Indexed, rows []FoundTransaction, beside func(id string) string) error {
	missing := func(i int) bool {
		_, number, ok := tollgate.NumberIn(members[i].ID)
		alone := beside != nil && number == tollgate.FirstNumber && len(rows[i].Beside) == 0 && strings.HasPrefix(beside(members[i].ID), tollgate.PrefixPayment)
		return ok && members[i].Shared && (rows[i].ID == "" || alone)
	}
	var ids []string
	for i, m := range members {
		if missing(i) {
			ids = append(ids, m.ID)
		}
	}
	found, err := s.Archived(ctx, k, ids)
	if err != nil {
		return err
	}
	for i, m := range members {
		of, _, _ := tollgate.NumberIn(m.ID)
		r := found[of]
		if r == nil || !missing(i) {
			continue
		}
		f := r.Transaction(m.Place(k))
		if len(f) == 0 {
			continue
		}
		rows[i].Transaction, rows[i].Stored = TransactionOf(m.ID, f)
		rows[i].Position = cmp.Or(rows[i].Position, f.Int("pos"))
		if beside != nil && beside(m.ID) == r.ID {
			rows[i].Beside = r.Payment
		}
	}
	return nil
}

// Transaction is the record at a place among the payment's parts.
func (r *Records) Transaction(at record.Place) rediskv.Fields {
	if r.Err != nil {
		return rediskv.Fields{record.Field: record.Wrong}
	}
	of, _, _ := tollgate.NumberIn(r.ID)
	kind := record.KindOf(at.As)
	names := kind.Asked(at.Name)
	values := make([]any, len(names))
	for i, name := range names {
		if text, there := r.Parts[name]; there {
			values[i] = text
		}
	}
	return record.Verified(at.As, kind.Unshared(of, values, new(record.First)))
}

// Part is the text of a capture or a refund, by the number in its identifier.
func (r *Records) Part(number string) string {
	text := ""
	for _, name := range record.Pieces(number + rediskv.Document) {
		text += r.Parts[name]
	}
	return text
}
