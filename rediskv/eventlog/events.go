package eventlog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

// rewind is how far back a reader goes whose last event is no longer in the
// log: a failover has cut the log's tail, and what was written since may have
// taken earlier places.
const rewind = time.Minute

// Position is a place in an organization's event log: the stream id of the
// last entry looked at, and four bytes of that event's id by which a log that
// was cut in a failover is noticed. Zero is before the first.
type Position struct {
	Milli, Seq uint64
	Check      [4]byte
}

func (p Position) zero() bool { return p == Position{} }

// Stream is the position as Redis names an entry of a stream.
func (p Position) Stream() string {
	return strconv.FormatUint(p.Milli, 10) + "-" + strconv.FormatUint(p.Seq, 10)
}

// before and after are the neighbouring stream ids.
func (p Position) after() string { return streams.Next(p.Stream()) }

func (p Position) before() string { return streams.Previous(p.Stream()) }

// Place reads a stream id; Check is left empty.
func Place(id string) (p Position) {
	milli, seq, _ := strings.Cut(id, "-")
	p.Milli, _ = strconv.ParseUint(milli, 10, 64)
	p.Seq, _ = strconv.ParseUint(seq, 10, 64)
	return p
}

func positionOf(m redis.XMessage) Position {
	p := Place(m.ID)
	sum := sha256.Sum256([]byte(rediskv.Text(m, "i")))
	copy(p.Check[:], sum[:])
	return p
}

// EventQuery selects events; empty members select all. After is the position
// of the last one that was looked at.
type EventQuery struct {
	Types             tollgate.TypeFilter
	Accounts          []string // those that the caller's grant covers; empty: all
	MerchantAccountID string
	ObjectID          string // an id that the event's data names
	Descending        bool
	After             Position
	Limit             int
}

// accounts is the list that an event's account must be in; none reports that no
// account can be.
func (q *EventQuery) accounts() (list []string, none bool) {
	switch {
	case q.MerchantAccountID == "":
		return q.Accounts, false
	case len(q.Accounts) > 0 && !slices.Contains(q.Accounts, q.MerchantAccountID):
		return nil, true
	default:
		return []string{q.MerchantAccountID}, false
	}
}

// between puts a list into the form in which the script looks things up.
func between(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "," + strings.Join(list, ",") + ","
}

const (
	// eventBatch is how many events a filtered listing looks at per round trip;
	// Redis does nothing else meanwhile.
	eventBatch = 250
	// eventLimit bounds what one request looks at; a page may then be short or
	// empty and still have a next one.
	eventLimit = 200_000
)

// Events returns one page of events as they were frozen, and the position to
// go on from, which is always a place to tail from.
func (s *Store) Events(ctx context.Context, c rediskv.Caller, q EventQuery) (events []jsontext.Value, next Position, more bool, err error) {
	k := s.db.Space(c.Organization)
	accounts, none := q.accounts()
	if none {
		next, err = s.resume(ctx, k, q)
		return nil, next, false, nothingYet(err)
	}
	r := streams.Query{Types: between(q.Types.All()), Accounts: between(accounts), NamedID: q.ObjectID, Count: q.Limit + 1, Descending: q.Descending}
	if r.Types+r.Accounts+r.NamedID != "" {
		r.Count = eventBatch
	}
	v := &visit{next: q.After, known: q.After.zero()}
	asked := q.ObjectID == ""
	for v.looked < eventLimit {
		if !asked && (v.cold || v.looked > 0) { // then a ticket is faster than a log
			asked = true
			page, end, further, known, err := s.ofPayment(ctx, c, k, q)
			if known || err != nil {
				return page, end, further, nothingYet(err)
			}
		}
		found, err := s.visit(ctx, c, k, q, r, v)
		if err != nil {
			return nil, v.next, false, nothingYet(err)
		}
		if found == nil {
			continue // from elsewhere
		}
		for _, m := range found.Entries {
			if q.ObjectID != "" && !names(rediskv.Text(m, "b"), q.ObjectID) {
				continue
			}
			if len(events) == q.Limit {
				return events, v.next, true, nil
			}
			row, err := s.eventRow(ctx, k, m)
			if err != nil {
				return nil, v.next, false, err
			}
			events = append(events, row)
			v.next = positionOf(m)
		}
		if found.Last != nil {
			v.next = positionOf(*found.Last)
		}
		v.count(found.Looked)
		if found.Looked < r.Count {
			if further, err := s.further(ctx, k, q, v, found); further && err == nil {
				continue
			}
			return events, v.next, false, err
		}
	}
	return events, v.next, true, nil
}

// eventRow is an event as it was frozen, or what stands in its place when that
// is no longer what was written.
func (s *Store) eventRow(ctx context.Context, k rediskv.Space, m redis.XMessage) (jsontext.Value, error) {
	if _, err := EventOf(k, m); s.db.Noticed(ctx, k, err) != nil {
		return json.Marshal(tollgate.DamageOf(err))
	}
	return jsontext.Value(rediskv.Text(m, "b")), nil
}

// EventOf reads an entry of the log, and checks that it is the one that its place
// is for. Without its own id it is named by its place.
func EventOf(k rediskv.Space, m redis.XMessage) (*tollgate.Event, error) {
	id, account, e := rediskv.Text(m, "i"), "", new(tollgate.Event)
	err := cmp.Or(record.CheckEntry(k.Events(), m.Values), record.Decode(rediskv.Text(m, "b"), e))
	if e.MerchantAccountID != nil {
		account = *e.MerchantAccountID
	}
	if err == nil && (e.Object != "event" || e.ID != id || string(e.Type) != rediskv.Text(m, "t") || e.Sequence < 1 || e.CreatedAt == 0 || account != rediskv.Text(m, "a")) {
		err = fmt.Errorf("event %s: it is not the one of its place in the log", id)
	}
	if err == nil {
		return e, nil
	}
	if !tollgate.ValidID(id) {
		id = tollgate.PrefixEvent + strings.ReplaceAll(m.ID, "-", "_")
	}
	d := tollgate.Damage("event", id, err)
	if account := rediskv.Text(m, "a"); strings.HasPrefix(account, tollgate.PrefixMerchantAccount) && tollgate.ValidID(account) {
		d.Damaged.MerchantAccountID = account
	}
	return nil, d
}

// LastEvent is the place of the newest event, zero when there is none: what
// comes after it is committed later than this call.
func (s *Store) LastEvent(ctx context.Context, c rediskv.Caller) (Position, error) {
	_, last, _, err := s.readEvents(ctx, c, s.db.Space(c.Organization), streams.Query{Descending: true, First: "+", Last: "-", Count: 1})
	return last, err
}

// resume checks that the log still holds the position's event. What has been
// trimmed is CodeCursorExpired; a log whose tail was cut is read again from a
// little earlier, so that events come twice rather than never.
func (s *Store) resume(ctx context.Context, k rediskv.Space, q EventQuery) (Position, error) {
	p := q.After
	if p.zero() {
		return p, nil
	}
	there, err := streams.Range(ctx, s.db, k.Events(), p.Stream(), p.Stream(), 1)
	if err != nil || len(there) == 1 && positionOf(there[0]) == p {
		return p, err
	}
	if s.db.IsView() {
		last, err := streams.RevRange(ctx, s.db, k.Events(), "+", "-", 1)
		if err == nil {
			err = errNotThere
			if len(last) == 0 || earlier(positionOf(last[0]), p) {
				err = errAhead
			}
		}
		return p, err
	}
	oldest, err := streams.Range(ctx, s.db, k.Events(), "-", "+", 1)
	if err != nil {
		return p, err
	}
	lost := len(there) == 0 // another event in its place may be damaged
	if len(oldest) == 0 || sequenceOf(oldest[0]) == 1 && earlier(p, positionOf(oldest[0])) {
		return Position{}, s.lost(ctx, k, lost) // the log has begun anew
	}
	if earlier(p, positionOf(oldest[0])) {
		is, covered, err := s.isPacked(ctx, k, p)
		switch {
		case err != nil || is:
			return p, err
		case !covered:
			return p, &tollgate.Error{Code: tollgate.CodeCursorExpired, Param: "cursor", Message: "The events after this cursor are no longer kept. Start without a cursor."}
		}
	}
	step := uint64(rewind.Milliseconds())
	if q.Descending {
		p = Position{Milli: p.Milli + step}
	} else {
		p = Position{Milli: p.Milli - min(step, p.Milli)}
	}
	return p, s.lost(ctx, k, lost)
}

// lost says that a log does not have the event of a cursor that was made within its
// history, if it is so. Whoever has it knows more than there is.
func (s *Store) lost(ctx context.Context, k rediskv.Space, is bool) error {
	if !is {
		return nil
	}
	r, err := s.db.HistoryFor(ctx, k.Org)
	if err != nil {
		return err
	}
	if err := s.db.SuspectHistory(ctx, k.Org, r.ID, history.Cursor, 0, 0); err != nil {
		return err
	}
	return history.Changed(s.db.Histories.Of(k.Partition).MissingFrom(r.ID))
}

// What a replica can say of a position whose event it does not have: that it has come
// no further yet, or else that the primary has to say what has become of it.
var (
	errAhead    = errors.New("the replica has not come to the event of the cursor yet")
	errNotThere = errors.New("the replica does not have the event of the cursor")
)

// nothingYet makes of a position that the replica has not come to an empty page that
// goes on from there.
func nothingYet(err error) error {
	if errors.Is(err, errAhead) {
		return nil
	}
	return err
}

func earlier(a, b Position) bool { return a.Milli < b.Milli || (a.Milli == b.Milli && a.Seq < b.Seq) }

// readEvents reads a range of the log; there is the place of the resumed event, zero
// where it is not in the log.
func (s *Store) readEvents(ctx context.Context, c rediskv.Caller, k rediskv.Space, q streams.Query) (p *streams.Page, last, there Position, err error) {
	q.Log = k.Events()
	q.GrantKeys, q.GrantArgs = c.Grant(k)
	if p, err = streams.Read(ctx, s.db, q); err != nil {
		return nil, last, there, err
	}
	if p.Last != nil {
		last = positionOf(*p.Last)
	}
	if p.There != nil {
		there = positionOf(*p.There)
	}
	return p, last, there, nil
}

// sequenceOf reads an event's sequence number out of its JSON.
func sequenceOf(m redis.XMessage) int64 {
	n, _ := PlaceOf(m)
	return n
}

// NumberOf is the number that an entry was given, of either log; 0 if it cannot be read.
func NumberOf(m redis.XMessage) int64 {
	if eventID(m) != "" {
		return sequenceOf(m)
	}
	var e struct {
		Seq int64 `json:"seq"`
	}
	_ = json.Unmarshal([]byte(rediskv.Text(m, "b")), &e) // our own JSON
	return e.Seq
}

// IDOf is the identifier of an entry, of either log.
func IDOf(m redis.XMessage) string {
	if id := eventID(m); id != "" {
		return id
	}
	return auditID(m)
}

// PlaceOf is an event's sequence number, and how far the clock that made it was
// from Redis' own.
func PlaceOf(m redis.XMessage) (sequence int64, apart time.Duration) {
	var e struct {
		Sequence  int64            `json:"sequence"`
		CreatedAt tollgate.Instant `json:"created_at"`
	}
	_ = json.Unmarshal([]byte(rediskv.Text(m, "b")), &e) // our own JSON
	return e.Sequence, e.CreatedAt.Time().Sub(time.UnixMilli(int64(positionOf(m).Milli))).Abs()
}

// names reports whether an event names an id (tollgate.Event.Names); it is read
// only where the id is in it at all.
func names(event, id string) bool {
	var e struct {
		Data jsontext.Value `json:"data"`
	}
	return strings.Contains(event, `"`+id+`"`) && json.Unmarshal([]byte(event), &e) == nil && (&tollgate.Event{Data: e.Data}).Names(id)
}
