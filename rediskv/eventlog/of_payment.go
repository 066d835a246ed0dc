package eventlog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

// mostListed is how many events of a payment are looked up. One that has more is looked
// for in the log.
const mostListed = 200

// ofPayment is a page of the events that name a payment or its ticket, which lists them: a
// long log need not be gone through. It is not known where something else may name the
// payment, which is that an object is damaged, and where an event cannot be found by its id.
func (s *Store) ofPayment(ctx context.Context, c rediskv.Caller, k rediskv.Space, q EventQuery) (events []jsontext.Value, next Position, more, known bool, err error) {
	ticket := q.ObjectID
	if rest, is := strings.CutPrefix(q.ObjectID, tollgate.PrefixPayment); is {
		ticket = tollgate.PrefixTicket + rest
	} else if !strings.HasPrefix(ticket, tollgate.PrefixTicket) {
		return nil, next, false, false, nil
	}
	// The end of the log is read before the ticket: what that does not list comes behind it.
	var end, after Position
	var ids []string
	if err := c.InTurn(ctx, func() (err error) {
		if _, end, _, err = s.readEvents(ctx, c, k, streams.Query{Descending: true, First: "+", Last: "-", Count: 1}); err != nil {
			return err
		}
		if ids, known, err = s.listed(ctx, k, ticket); err != nil || !known {
			return err
		}
		after, err = s.resume(ctx, k, q)
		return err
	}); err != nil || !known {
		return nil, after, false, false, err
	}
	entries, known, err := s.entries(ctx, c, k, ids)
	if err != nil || !known {
		return nil, next, false, false, err
	}
	slices.SortFunc(entries, func(a, b *redis.XMessage) int {
		if q.Descending {
			a, b = b, a
		}
		return Place(a.ID).compare(Place(b.ID))
	})
	accounts, _ := q.accounts()
	for _, m := range entries {
		place := positionOf(*m)
		switch beyond := place.compare(after); {
		case !after.zero() && (beyond == 0 || beyond < 0 != q.Descending),
			len(accounts) > 0 && !slices.Contains(accounts, rediskv.Text(*m, "a")),
			!q.Types.Match(rediskv.Text(*m, "t")), !names(rediskv.Text(*m, "b"), q.ObjectID):
			continue
		}
		if len(events) == q.Limit {
			return events, next, true, true, nil
		}
		row, err := s.eventRow(ctx, k, *m)
		if err != nil {
			return nil, next, false, false, err
		}
		events, next = append(events, row), place
	}
	if next.zero() {
		next = after
	}
	if !q.Descending && next.compare(end) < 0 || next.zero() {
		next = end
	}
	return events, next, false, true, nil
}

// listed are the events that a ticket lists; known is whether there can be no others that
// name its payment.
func (s *Store) listed(ctx context.Context, k rediskv.Space, ticket string) (ids []string, known bool, err error) {
	var text *redis.StringCmd
	var damaged *redis.IntCmd
	if err := s.db.Timed(ctx, "listed_events", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		text, damaged = pipe.Get(ctx, k.Object(ticket)), pipe.HLen(ctx, k.Damaged())
		_, _ = pipe.Exec(ctx)
		if err := text.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return damaged.Err()
	}); err != nil || damaged.Val() > 0 {
		return nil, false, err
	}
	is := text.Val()
	if is == "" && s.tickets != nil {
		if is, err = s.tickets(ctx, k, ticket); err != nil {
			return nil, false, err
		}
	}
	var t tollgate.Ticket
	if is == "" || record.DecodeAt(k.Object(ticket), is, &t) != nil || t.ID != ticket || len(t.EventIDs) > mostListed {
		return nil, false, nil
	}
	return t.EventIDs, true, nil
}

// entries are those of events, in Redis or in packs, without the ones that neither has any
// more; known is whether all others were found.
func (s *Store) entries(ctx context.Context, c rediskv.Caller, k rediskv.Space, ids []string) (entries []*redis.XMessage, known bool, err error) {
	var found map[string]*redis.XMessage
	if err := c.InTurn(ctx, func() (err error) {
		found, err = s.Nearby(ctx, k, ids)
		return err
	}); err != nil {
		return nil, false, err
	}
	var kept tollgate.Instant // when the first event of the log was made
	var in *Packed
	for _, id := range ids {
		m, there := found[id]
		if !there {
			if kept == 0 {
				oldest, err := streams.Range(ctx, s.db, k.Events(), "-", "+", 1)
				if err != nil || len(oldest) == 0 {
					return nil, false, err
				}
				at, _ := tollgate.IDTime(eventID(oldest[0]))
				kept = tollgate.At(at)
				if in, err = s.Packed(ctx, k, LogEvents); err != nil {
					return nil, false, err
				}
			}
			made, _ := tollgate.IDTime(id)
			old := tollgate.At(made) < kept.Add(-rediskv.Skew)
			if !old {
				if m, err = s.lookFor(ctx, c, k.Events(), eventID, id); err != nil {
					return nil, false, err
				}
			}
			if m == nil {
				if m, err = s.packedEntry(ctx, k, LogEvents, in, id); err != nil {
					return nil, false, err
				}
			}
			switch {
			case m == nil && old:
				continue
			case m == nil:
				return nil, false, nil
			}
		}
		entries = append(entries, m)
	}
	return entries, true, nil
}

// compare is the order of places, whatever event is there.
func (p Position) compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Milli, q.Milli), cmp.Compare(p.Seq, q.Seq))
}
