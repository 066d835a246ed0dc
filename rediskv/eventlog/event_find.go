package eventlog

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/streams"
)

const (
	// near is how far the clock that made an event's id is from Redis' when all
	// is well.
	near = 2 * time.Second
	// firstLook is how many entries are read at first, where an id says that one is.
	firstLook = 64
	// findLimit bounds how many events one look-up goes through.
	findLimit = 50_000
)

// Event finds one event of the log by its id: the JSON as it was frozen. An id
// tells when it was made, the log is in the order of Redis' time, and the two
// clocks agree as a rule; where they do not (a sandbox's clock is ahead, for
// one), the place is found by bisecting the log. CodeNotFound for an event that
// is no longer kept, or of an account that is not in accounts (empty: all).
func (s *Store) Event(ctx context.Context, c rediskv.Caller, id string, accounts []string) (_ jsontext.Value, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	if !strings.HasPrefix(id, tollgate.PrefixEvent) {
		return nil, tollgate.NotFound()
	}
	found, err := s.find(ctx, c, k.Events(), eventID, id)
	if err == nil && found == nil {
		found, err = s.trimmedEntry(ctx, k, LogEvents, id)
	}
	switch {
	case err != nil:
		return nil, err
	case found == nil, len(accounts) > 0 && !slices.Contains(accounts, rediskv.Text(*found, "a")):
		return nil, tollgate.NotFound()
	}
	if _, err := EventOf(k, *found); err != nil {
		return nil, s.db.Noticed(ctx, k, err)
	}
	return jsontext.Value(rediskv.Text(*found, "b")), nil
}

// trimmedEntry is one of a log that packs have alone; nil where they do not.
func (s *Store) trimmedEntry(ctx context.Context, k rediskv.Space, log, id string) (*redis.XMessage, error) {
	in, err := s.Packed(ctx, k, log)
	if err != nil || in == nil {
		return nil, err
	}
	found, err := s.packedEntry(ctx, k, log, in, id)
	return found, s.db.Noticed(ctx, k, err)
}

// AuditEntry is an entry of the audit record, and its number; 0 where that cannot be
// read.
type AuditEntry struct {
	redis.XMessage
	Number int64
}

// AuditEntry finds one entry of the audit record by its id, as Event does.
func (s *Store) AuditEntry(ctx context.Context, c rediskv.Caller, id string) (entry AuditEntry, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	found, err := s.find(ctx, c, k.Audit(), auditID, id)
	if err == nil && found == nil {
		found, err = s.trimmedEntry(ctx, k, LogAudit, id)
	}
	if err == nil && found == nil {
		err = tollgate.NotFound()
	}
	if err != nil {
		return entry, err
	}
	entry.XMessage = *found
	if e, err := AuditEntryOf(k, *found); err == nil {
		entry.Number = e.Seq
	}
	return entry, nil
}

// EventEntry finds the entry of an event in the log, nil where there is none.
func (s *Store) EventEntry(ctx context.Context, c rediskv.Caller, id string) (*redis.XMessage, error) {
	return s.find(ctx, c, s.db.Space(c.Organization).Events(), eventID, id)
}

// auditID is the id in an entry of the audit record, which begins with it.
func auditID(m redis.XMessage) string {
	rest, _ := strings.CutPrefix(rediskv.Text(m, "b"), `{"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// eventID is the id in an entry of the log of events.
func eventID(m redis.XMessage) string { return rediskv.Text(m, "i") }

// find finds the entry of a log with an id, nil where there is none: as a rule among the
// first that were written when it says that it was made.
func (s *Store) find(ctx context.Context, c rediskv.Caller, log string, idOf func(redis.XMessage) string, id string) (*redis.XMessage, error) {
	made, ok := tollgate.IDTime(id)
	if !ok {
		return nil, tollgate.NotFound()
	}
	var some []redis.XMessage
	if err := c.InTurn(ctx, func() (err error) {
		some, err = streams.Range(ctx, s.db, log, madeAt(made), "+", firstLook)
		return err
	}); err != nil {
		return nil, err
	}
	for i := range some {
		if idOf(some[i]) == id {
			return &some[i], nil
		}
	}
	return s.lookFor(ctx, c, log, idOf, id)
}

// madeAt is the place of what is written when it is made.
func madeAt(made time.Time) string { return Position{Milli: uint64(tollgate.At(made))}.Stream() }

// besides is how many entries are looked at where an id says that one is, and then where
// it is not among them: where many write at once, others stand there.
var besides = []int64{8, 128}

// Nearby finds events of the log where their ids say that they are.
func (s *Store) Nearby(ctx context.Context, k rediskv.Space, ids []string) (map[string]*redis.XMessage, error) {
	var err error
	found := map[string]*redis.XMessage{}
	for _, count := range besides {
		missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, there := found[id]
			return there
		})
		if len(missing) == 0 || err != nil {
			break
		}
		err = s.db.Timed(ctx, "nearby_events", func(ctx context.Context) error {
			return s.lookBeside(ctx, k.Events(), missing, count, func(entries []redis.XMessage) {
				for i := range entries {
					found[eventID(entries[i])] = &entries[i]
				}
			})
		})
	}
	return found, err
}

// lookBeside reads entries where ids say that theirs are: in the head of a log, and where
// that begins later in its segments.
func (s *Store) lookBeside(ctx context.Context, log string, ids []string, count int64, take func([]redis.XMessage)) error {
	var asked, older []*streams.Asked
	var heads []*redis.XMessageSliceCmd
	pipe := s.db.Redis.Pipeline()
	oldest := pipe.XRangeN(ctx, log, "-", "+", 1)
	for _, id := range ids {
		if at, ok := tollgate.IDTime(id); ok {
			place := madeAt(at)
			heads = append(heads, pipe.XRangeN(ctx, log, place, "+", count))
			asked = append(asked, &streams.Asked{Log: log, First: place, Last: "+", Count: count})
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, head := range heads {
		take(head.Val())
		if len(oldest.Val()) == 0 || Place(asked[i].First).compare(Place(oldest.Val()[0].ID)) < 0 {
			older = append(older, asked[i])
		}
	}
	err := streams.Behind(ctx, s.db.Redis, older)
	for _, a := range older {
		take(a.Found)
	}
	return err
}

// lookFor looks for the entry of a log with an id at more places, nil where it is at none.
func (s *Store) lookFor(ctx context.Context, c rediskv.Caller, log string, idOf func(redis.XMessage) string, id string) (*redis.XMessage, error) {
	made, _ := tollgate.IDTime(id)
	at := tollgate.At(made)
	found, err := s.findFrom(ctx, c, log, idOf, id, Position{Milli: uint64(max(0, at.Add(-near)))}, near)
	if err == nil && found == nil {
		var from Position
		if from, err = s.bisect(ctx, log, idOf, at.Add(-rediskv.Skew)); err == nil {
			found, err = s.findFrom(ctx, c, log, idOf, id, from, rediskv.Skew)
		}
	}
	return found, err
}

// findFrom goes through a log from a place on until it finds the entry, or
// entries that were made later than it by more than apart.
func (s *Store) findFrom(ctx context.Context, c rediskv.Caller, log string, idOf func(redis.XMessage) string, id string, from Position, apart time.Duration) (found *redis.XMessage, err error) {
	made, _ := tollgate.IDTime(id)
	start := from.Stream()
	for looked := 0; looked < findLimit; {
		var batch []redis.XMessage
		if err := c.InTurn(ctx, func() (err error) {
			batch, err = streams.Range(ctx, s.db, log, start, "+", rediskv.ScanPage)
			return err
		}); err != nil || len(batch) == 0 {
			return nil, err
		}
		for i := range batch {
			if idOf(batch[i]) == id {
				return &batch[i], nil
			}
		}
		last := batch[len(batch)-1]
		if at, ok := tollgate.IDTime(idOf(last)); len(batch) < rediskv.ScanPage || (ok && at.Sub(made) > apart) {
			return nil, nil
		}
		start = Place(last.ID).after()
		looked += len(batch)
	}
	return nil, nil
}

// bisect is a place in a log before every entry that was made at a
// moment or later. Ids grow along the log, but for the differences between the
// clocks of instances.
func (s *Store) bisect(ctx context.Context, log string, idOf func(redis.XMessage) string, at tollgate.Instant) (from Position, err error) {
	first, err := streams.Range(ctx, s.db, log, "-", "+", 1)
	if err != nil || len(first) == 0 {
		return from, err
	}
	last, err := streams.RevRange(ctx, s.db, log, "+", "-", 1)
	if err != nil || len(last) == 0 {
		return from, err
	}
	low, high := Place(first[0].ID).Milli, Place(last[0].ID).Milli
	// Everything before low was made before the moment.
	for low < high {
		middle := low + (high-low)/2
		next, err := streams.Range(ctx, s.db, log, Position{Milli: middle}.Stream(), "+", 1)
		if err != nil {
			return from, err
		}
		if len(next) == 1 {
			if made, ok := tollgate.IDTime(idOf(next[0])); ok && tollgate.At(made) < at {
				low = Place(next[0].ID).Milli + 1
				continue
			}
		}
		high = middle
	}
	// Of the millisecond before it that is known of the first entry only.
	return Position{Milli: low - min(low, 1)}, nil
}
