package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

// Archive has what was trimmed from logs, in packs. A log is named as its key ends: "events".
type Archive interface {
	// Pack puts what is due of logs of a partition into packs, of what these do not have yet.
	// What is older than keep is to go soon.
	Pack(ctx context.Context, partition int, log string, keep tollgate.Instant, due []Due) error
	// Entries are those that packs have of a range of a log, from the first place to the last,
	// or the other way round; - and + are its ends.
	Entries(ctx context.Context, k rediskv.Space, log, first, last string, count int, descending bool) ([]redis.XMessage, error)
	// Find is the entry of an identifier; nil where packs have none.
	Find(ctx context.Context, k rediskv.Space, log, id string) (*redis.XMessage, error)
}

// Due says of an organization's log that entries of before a moment are to be trimmed.
type Due struct {
	Space rediskv.Space
	Until tollgate.Instant
}

// Tickets reads tickets that Redis does not have; none is empty.
type Tickets func(ctx context.Context, k rediskv.Space, id string) (text string, err error)

// UseArchive says where entries and tickets are looked for that Redis does not have. Without
// an archive entries are not there, unless Redis says that packs have them.
func (s *Store) UseArchive(a Archive, tickets Tickets) { s.archive, s.tickets = a, tickets }

// LogsKey, a hash per partition, is the manifest of the packs of its logs: see package logs.
func LogsKey(partition int) string { return rediskv.ArchiveKey(partition) + ":logs" }

// PackedKey, a string, is what packs have of an organization's log: a Packed as JSON.
func PackedKey(k rediskv.Space, log string) string { return k.Object("archive:" + log) }

// Packed is what packs have of a log: ranges that follow one another. Nothing behind it is
// trimmed.
type Packed struct {
	First    string           `json:"first"` // places of entries
	Last     string           `json:"last"`
	Sequence int64            `json:"sequence"` // of the last; 0 if that could not be read
	Until    tollgate.Instant `json:"until"`    // the latest time in an identifier
	Entries  int64            `json:"entries"`
}

// Stored is it as Redis has it.
func (p *Packed) Stored(key string) (string, error) {
	text, err := json.Marshal(p, json.Deterministic(true))
	return record.EnvelopedJSON(key, string(text)), err
}

// PackedOf reads what Redis has at a key; nil for nothing.
func PackedOf(key, text string) (*Packed, error) {
	if text == "" {
		return nil, nil
	}
	p := new(Packed)
	text, err := record.Opened(key, text)
	if err == nil {
		err = json.Unmarshal([]byte(text), p)
	}
	if err == nil && (Place(p.First).Milli == 0 || streams.Less(p.Last, p.First)) {
		err = errors.New("it has no places")
	}
	if err != nil {
		return nil, fmt.Errorf("what packs have of a log, %s: %w", key, err)
	}
	return p, nil
}

// Packed is what packs have of an organization's log; nil for nothing.
func (s *Store) Packed(ctx context.Context, k rediskv.Space, log string) (p *Packed, err error) {
	return ReadPacked(ctx, s.db, k, log)
}

// ReadPacked is Packed.
func ReadPacked(ctx context.Context, db *rediskv.DB, k rediskv.Space, log string) (p *Packed, err error) {
	text, err := PackedText(ctx, db, k, log)
	if err != nil {
		return nil, err
	}
	if p, err = PackedOf(PackedKey(k, log), text); err != nil {
		return nil, unavailable(err)
	}
	return p, nil
}

// PackedText is what Redis has there, as it is.
func PackedText(ctx context.Context, db *rediskv.DB, k rediskv.Space, log string) (text string, err error) {
	err = db.Timed(ctx, "packed_log", func(ctx context.Context) (err error) {
		if text, err = db.Redis.Get(ctx, PackedKey(k, log)).Result(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	return text, err
}

func unavailable(err error) error {
	return &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "The archive cannot be read.", Cause: err}
}

// Archives reports whether there is an archive that this process knows.
func (s *Store) Archives() bool { return s.archive != nil }

// packs is the archive, which Redis says has something.
func (s *Store) packs() (Archive, error) {
	if s.archive == nil {
		return nil, &tollgate.Error{Code: tollgate.CodeArchiveUnavailable, Message: "This may be in the archive, which this instance does not know."}
	}
	return s.archive, nil
}

// The logs that packs have, as their keys end.
const (
	LogEvents = "events"
	LogAudit  = "audit"
)

// isPacked reports whether packs have the event of a position; covered, whether they would
// have it if there were such a one.
func (s *Store) isPacked(ctx context.Context, k rediskv.Space, p Position) (is, covered bool, err error) {
	in, err := s.Packed(ctx, k, LogEvents)
	if err != nil || in == nil || p.compare(Place(in.First)) < 0 || p.compare(Place(in.Last)) > 0 {
		return false, false, err
	}
	archive, err := s.packs()
	if err != nil {
		return false, true, err
	}
	found, err := archive.Entries(ctx, k, LogEvents, p.Stream(), p.Stream(), 1, false)
	return len(found) == 1 && positionOf(found[0]) == p, true, err
}

// packedEntry is an entry by its id that packs have; nil where they do not. in is what Packed
// says.
func (s *Store) packedEntry(ctx context.Context, k rediskv.Space, log string, in *Packed, id string) (*redis.XMessage, error) {
	made, ok := tollgate.IDTime(id)
	if in == nil || !ok || tollgate.At(made) > in.Until {
		return nil, nil
	}
	archive, err := s.packs()
	if err != nil {
		return nil, err
	}
	return archive.Find(ctx, k, log, id)
}

// packedRate is how many entries of Redis one in a pack counts as, where it is bounded how
// much one request looks at.
const packedRate = 10

// visit is how far a page has come.
type visit struct {
	next   Position // the last event that was looked at
	known  bool     // that it is one of the log
	cold   bool     // it goes on in packs
	looked int
}

func (v *visit) count(looked int) {
	if v.cold {
		looked *= packedRate
	}
	v.looked += looked
}

// visit reads the next events behind those that were looked at; nil: it is to be asked
// again, as it goes on elsewhere.
func (s *Store) visit(ctx context.Context, c rediskv.Caller, k rediskv.Space, q EventQuery, r streams.Query, v *visit) (found *streams.Page, err error) {
	r.First, r.Last, r.Resumed = "-", "+", "-"
	if !v.next.zero() {
		r.First, r.Resumed = v.next.after(), v.next.Stream()
	}
	if q.Descending {
		if r.First, r.Last = "+", "-"; v.next.zero() {
			r.Resumed = ""
		} else {
			r.First = v.next.before()
		}
	}
	if v.cold {
		return s.readPacked(ctx, k, LogEvents, r)
	}
	var there Position
	if err := c.InTurn(ctx, func() (err error) {
		found, _, there, err = s.readEvents(ctx, c, k, r)
		return err
	}); err != nil {
		return nil, err
	}
	if !v.known && there != v.next { // what was read begins at no place of the log
		v.next, err = s.resume(ctx, k, q)
		v.known = true
		return nil, err
	}
	v.known = true
	if q.Descending || !v.next.zero() && there == v.next || v.next.zero() && (found.There == nil || sequenceOf(*found.There) == 1) {
		return found, nil
	}
	// What was trimmed is in packs. They are asked for behind the log: what was read of that
	// has all that is behind what they have.
	in, err := s.Packed(ctx, k, LogEvents)
	if err == nil && in != nil && (v.next.zero() || v.next.compare(Place(in.Last)) < 0) {
		v.cold = true
		return nil, nil
	}
	return found, err
}

// readPacked reads a page of a log in packs.
func (s *Store) readPacked(ctx context.Context, k rediskv.Space, log string, r streams.Query) (*streams.Page, error) {
	archive, err := s.packs()
	if err != nil {
		return nil, err
	}
	all, err := archive.Entries(ctx, k, log, r.First, r.Last, r.Count, r.Descending)
	if err != nil {
		return nil, err
	}
	p := &streams.Page{Looked: len(all)}
	for i, m := range all {
		if p.Last = &all[i]; r.Matches(m) {
			p.Entries = append(p.Entries, m)
		}
	}
	return p, nil
}

// further reports whether there may be more where a page has come to the end of what it was
// read from: in Redis behind packs, and in packs before what Redis has.
func (s *Store) further(ctx context.Context, k rediskv.Space, q EventQuery, v *visit, found *streams.Page) (bool, error) {
	if v.cold == q.Descending {
		return false, nil
	}
	oldest := found.Last
	if oldest == nil {
		oldest = found.There
	}
	if !v.cold && oldest != nil && sequenceOf(*oldest) == 1 {
		return false, nil
	}
	in, err := s.Packed(ctx, k, LogEvents)
	if err != nil || in == nil {
		return false, err
	}
	if v.cold {
		if found.Looked == 0 && v.next.compare(Place(in.Last)) < 0 {
			return false, unavailable(fmt.Errorf("packs are to have events until %s, and have none behind %s", in.Last, v.next.Stream()))
		}
		v.cold = false
		return true, nil
	}
	v.cold = v.next.zero() || v.next.compare(Place(in.First)) > 0
	return v.cold, nil
}

// Trimmed are entries of a log behind a place, or all for an empty one, that packs have: as many as are
// asked for. There are none once the place is behind all of what packs have, and then Redis has
// the others, if it was read before this.
func (s *Store) Trimmed(ctx context.Context, k rediskv.Space, log, after, until string, count int) ([]redis.XMessage, error) {
	in, err := s.Packed(ctx, k, log)
	if err != nil || in == nil || after != "" && !streams.Less(after, in.Last) {
		return nil, err
	}
	archive, err := s.packs()
	if err != nil {
		return nil, err
	}
	from := "-"
	if after != "" {
		from = streams.Next(after)
	}
	return archive.Entries(ctx, k, log, from, until, count, false)
}

// CountTrimmed is how many entries of a log packs have that Redis does not.
func (s *Store) CountTrimmed(ctx context.Context, k rediskv.Space, log string) (n int64, err error) {
	in, err := s.Packed(ctx, k, log)
	if err != nil || in == nil {
		return 0, err
	}
	oldest, err := streams.Range(ctx, s.db, k.Object(log), "-", "+", 1)
	if err != nil || len(oldest) == 0 {
		return in.Entries, err
	}
	both := int64(0)
	if first := NumberOf(oldest[0]); first > 0 && first <= in.Sequence {
		both = in.Sequence - first + 1
	}
	return in.Entries - both, nil
}
